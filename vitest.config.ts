import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

/** Of processes that tests start; without it each spends two thirds of its start on compiling the same sources. */
const compileCache = join(import.meta.dirname, "node_modules/.cache/compiled");

/**
 * Tests under which no server and no process dies. They share a few processes, where a process of its own for each file takes
 * longer to start than most of these files take to run (87 files: 11 s instead of 29).
 */
const shared = [
  "packages/latchkey/src/*.test.ts",
  "packages/latchkey/src/!(messages|stores)/**/*.test.ts",
  "test/{clients,docs,http,vectors}/**/*.test.ts",
  "scripts/**/*.test.ts",
];

export default defineConfig({
  ssr: { resolve: { conditions: ["latchkey-source"] } },
  test: {
    env: { NODE_OPTIONS: "--conditions=latchkey-source", NODE_COMPILE_CACHE: compileCache },
    setupFiles: ["test/support/setup.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    // Tests of databases and brokers wait a good part of their time: on two cores three workers left a fifth of them idle.
    maxWorkers: availableParallelism() + 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    projects: [
      { extends: true, test: { name: "shared", include: shared, isolate: false } },
      {
        extends: true,
        test: {
          name: "alone",
          include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: ["**/node_modules/**", ...shared],
        },
      },
    ],
  },
});
