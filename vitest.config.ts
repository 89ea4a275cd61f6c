import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

/** Of processes that tests start; without it each spends two thirds of its start on compiling the same sources. */
const compileCache = join(import.meta.dirname, "node_modules/.cache/compiled");

export default defineConfig({
  ssr: { resolve: { conditions: ["latchkey-source"] } },
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts"],
    env: { NODE_OPTIONS: "--conditions=latchkey-source", NODE_COMPILE_CACHE: compileCache },
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    pool: "forks",
    // Database tests mostly wait; the default would be one worker on a machine with two cores.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
