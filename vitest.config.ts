import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  ssr: { resolve: { conditions: ["latchkey-source"] } },
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts"],
    env: { NODE_OPTIONS: "--conditions=latchkey-source" },
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    pool: "forks",
    // Database tests mostly wait; the default would be one worker on a machine with two cores.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
