import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { measuredSlowness, slownessVariable } from "./test/support/patience.ts";
import { memoryFolder, memoryVariable } from "./test/support/scratch.ts";

/** Of processes that tests start; without it each spends two thirds of its start on compiling the same sources. */
const compileCache = join(import.meta.dirname, "node_modules/.cache/compiled");

/** What changes modules for the whole process. All others share a few processes: starting one takes 0.3 s of CPU. */
const alone = [
  "test/neighbours/opentelemetry.test.ts",
  // OpenTelemetry's API is global.
  "packages/latchkey/src/telemetry/opentelemetry.tracing.test.ts",
  "test/postgres/traces.test.ts",
  // light-my-request lays its own prototype under that of all responses of Express.
  "test/neighbours/stand-ins.test.ts",
  // Looks at V8's shape of responses, which libraries of other files change for the whole process.
  "packages/latchkey/src/http/node-response/buffered-response.test.ts",
  // Compares with the global Response, which Hono's server replaces in the files that use it.
  "packages/latchkey/src/http/fetch/fetch.test.ts",
];

/** Import modules with decorators, which Node does not compile. */
const decorated = [
  "test/coverage/nest.test.ts",
  "test/nest/nest12.test.ts",
  "test/nest11/nest11.all.test.ts",
];

const condition = "--conditions=latchkey-source";

const isAll = process.env.LATCHKEY_TEST_ALL === "1";
const left = ["**/node_modules/**", ...(isAll ? [] : ["**/*.all.test.ts"])];

// For this process too, which starts the shared servers.
process.env[memoryVariable] ??= memoryFolder();

const slowness = measuredSlowness();
/**
 * Only ends a hanging test. What a test waits for has a limit of its own, at most 180 s on a quiet machine, whose message
 * says what did not happen.
 */
const hangingMs = (process.env.LATCHKEY_PROVE === "1" ? 7_200_000 : isAll ? 1_200_000 : 900_000) * slowness;

export default defineConfig({
  test: {
    env: {
      NODE_OPTIONS: condition,
      NODE_COMPILE_CACHE: compileCache,
      [slownessVariable]: String(slowness),
    },
    setupFiles: ["test/support/setup.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    // Node loads the modules, as it does for users; Vite's runner took a tenth more CPU.
    execArgv: [condition],
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Tests of databases and brokers wait a good part of their time: on two cores three workers left a fifth of them idle.
    maxWorkers: availableParallelism() + 2,
    expect: { poll: { timeout: 30_000 * slowness } },
    testTimeout: hangingMs,
    hookTimeout: hangingMs,
    projects: [
      {
        extends: true,
        test: {
          name: "shared",
          include: ["packages/*/src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts"],
          exclude: [...left, ...alone, ...decorated],
          isolate: false,
        },
      },
      { extends: true, test: { name: "alone", include: alone, exclude: left } },
      {
        extends: true,
        ssr: { resolve: { conditions: ["latchkey-source"] } },
        test: {
          name: "decorated",
          include: decorated,
          exclude: left,
          isolate: false,
          experimental: { viteModuleRunner: true },
        },
      },
    ],
  },
});
