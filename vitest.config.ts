import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

/** Of processes that tests start; without it each spends two thirds of its start on compiling the same sources. */
const compileCache = join(import.meta.dirname, "node_modules/.cache/compiled");

/**
 * Tests that start nothing outside their own process. They share a few processes, where a process of its own for each file
 * takes longer to start than most of these files take to run (87 files: 11 s instead of 29).
 */
const units = [
  "packages/latchkey/src/*.test.ts",
  "packages/latchkey/src/{attempt,effects,engine,fingerprint,http,key,maintenance,resilience,telemetry}/*.test.ts",
  "test/vectors/*.test.ts",
];

export default defineConfig({
  ssr: { resolve: { conditions: ["latchkey-source"] } },
  test: {
    env: { NODE_OPTIONS: "--conditions=latchkey-source", NODE_COMPILE_CACHE: compileCache },
    setupFiles: ["test/support/setup.ts"],
    pool: "forks",
    // Database and broker tests mostly wait; the default would be one worker on a machine with two cores.
    maxWorkers: availableParallelism() + 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    projects: [
      { extends: true, test: { name: "units", include: units, isolate: false } },
      {
        extends: true,
        test: {
          name: "whole",
          globalSetup: ["test/support/global-setup.ts"],
          include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude: ["**/node_modules/**", ...units],
        },
      },
    ],
  },
});
