/** What is run on each mutant: the tests of the pure core alone, without the servers that others need. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  ssr: { resolve: { conditions: ["latchkey-source"] } },
  test: { include: ["packages/latchkey/src/engine/*.test.ts"] },
});
