import { defineConfig } from "vitest/config";

export default defineConfig({
  ssr: { resolve: { conditions: ["latchkey-source"] } },
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/setup.ts"],
    env: { NODE_OPTIONS: "--conditions=latchkey-source" },
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
