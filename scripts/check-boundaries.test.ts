import { expect, test } from "vitest";
import { findBoundaryProblems, findPortProblems } from "./check-boundaries.ts";
import { rules } from "./support/boundary-rules.ts";

const publicFiles = new Set([
  "index.ts",
  "stores/store.ts",
  "stores/memory.ts",
  "stores/postgres.ts",
  "http/hono/hono.ts",
]);

/** Problems of one module, as `line: message`. */
function problemsOf(path: string, text: string, boundaries = rules): readonly string[] {
  return findBoundaryProblems(new Map([[path, text]]), publicFiles, boundaries).map(
    ({ where, message }) => `${where}: ${message}`,
  );
}

test.each([
  ["engine/decide.ts", 'import { LatchkeyError } from "../errors.ts";'],
  ["engine/decide.ts", 'import type { Store } from "../stores/store.ts";'],
  ["engine/decide.ts", 'import { createHash } from "node:crypto";'],
  ["key/parse-key.ts", 'import type { Policy } from "../operations/policies/policy.ts";'],
  ["key/parse-key.ts", 'import { fingerprint } from "../fingerprint/fingerprint.ts";'],
  ["fingerprint/fingerprint.ts", 'import { parseKey } from "../key/parse-key.ts";'],
  ["key/hash-key.ts", 'import { fingerprint } from "../fingerprint/fingerprint.ts";'],
  ["fingerprint/fingerprint.ts", 'import { decide } from "../engine/decide.ts";'],
  ["fingerprint/fingerprint.ts", 'import { readFileSync } from "node:fs";'],
  ["operations/policies/stripe.ts", 'import { problemTypes } from "../../http/protocol/problem-types.ts";'],
  ["stores/postgres.ts", 'import { memoryStore } from "./memory.ts";'],
  ["stores/postgres.ts", 'export { memoryStore } from "./memory.ts";'],
  ["stores/postgres/admit.ts", 'import { memoryStore } from "../memory.ts";'],
  ["http/hono/hono.ts", 'import type { ExpressMessage } from "../express/express-types.ts";'],
  ["http/node.ts", 'import { readReply } from "./fastify/fastify-reply.ts";'],
  ["http/node-response/submit.ts", 'import { toResponse } from "../fetch/fetch-messages.ts";'],
  ["sql/kysely.ts", 'import { sendPipeline } from "./pg/pipeline.ts";'],
  ["sql/transaction.ts", 'import type { PgClient } from "./pg/client.ts";'],
  ["execution/run.ts", 'import { postgresStore } from "../stores/postgres.ts";'],
  ["execution/run.ts", 'import { defaultSchema } from "../stores/postgres/statements/names.ts";'],
  ["caching/cached.ts", 'import { runner } from "../stores/redis/runner.ts";'],
  ["cli/doctor.ts", 'import { defaultSchema } from "../stores/postgres/statements/names.ts";'],
  ["stores/redis/open.ts", 'import type { PgClient } from "../../sql/pg/client.ts";'],
  ["stores/postgres/store.ts", 'import { poolShare } from "../../sql/pg/pool-share.ts";'],
  ["webhooks/webhooks.ts", 'import { readReply } from "../http/fastify/fastify-reply.ts";'],
  ["execution/run.ts", 'const { postgresStore } = await import("../stores/postgres.ts");'],
  ["execution/run.ts", 'import { fakeClock } from "../testing/fake-clock.ts";'],
  ["stores/store.ts", 'import type { Runtime } from "../execution/runtime.ts";'],
  ["execution/settle.ts", 'import { effectResult } from "../outbox/delivery.ts";'],
  ["execution/run.ts", 'import { helper } from "../helpers/helper.ts";'],
  ["index.ts", 'import { main } from "./cli/main.ts";'],
  ["sql/pg.ts", 'import { Pool } from "pg";'],
  ["sql/pg.ts", 'import type { Pool } from "pg";'],
  ["sql/pg.ts", 'type Pool = import("pg").Pool;'],
  ["http/express/express.ts", 'import type { Store } from "latchkey/stores/store";'],
  ["execution/run.ts", 'import { scheduler } from "node:timers/promises";'],
  ["index.ts", 'import manifest from "../package.json" with { type: "json" };'],
])("%s may not have: %s", (path, text) => {
  const problems = problemsOf(path, `// first line\n${text}`);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(`${path}:2: imports`);
});

test.each([
  ["engine/decide.ts", 'import { edges } from "./edges.ts";'],
  ["key/parse-key.ts", 'import type { RecordKey } from "../engine/record.ts";'],
  ["key/hash-key.ts", 'import { encodeFields } from "../fingerprint/length-prefixed.ts";'],
  ["key/hash-key.ts", 'import { encodeFields } from "../fingerprint/length-prefixed.ts";'],
  ["fingerprint/fingerprint.ts", 'import { createHash } from "node:crypto";'],
  ["stores/postgres.ts", 'import type { Store } from "./store.ts";'],
  ["stores/postgres.ts", 'import { admit } from "./postgres/admit.ts";'],
  ["execution/run.ts", 'import type { Store } from "../stores/store.ts";'],
  ["cli/main.ts", 'import { postgresStore } from "../stores/postgres.ts";'],
  ["testing/index.ts", 'import { memoryStore } from "../stores/memory.ts";'],
  ["http/node.ts", 'import type { IncomingMessage } from "node:http";'],
  ["http/hono/hono.ts", 'import { requireUnread } from "../node-response/submit.ts";'],
  ["http/hono/hono-messages.ts", 'import { toResponse } from "../fetch/fetch-messages.ts";'],
  ["sql/kysely.ts", 'import { pgBridge } from "./pg/bridge.ts";'],
  ["sql/kysely.ts", 'import { checkKysely } from "./kysely/session.ts";'],
  ["sql/mikro-orm/orm.ts", 'import { checkKysely } from "../kysely/session.ts";'],
  ["stores/postgres/store.ts", 'import { pgBridge } from "../../sql/pg/bridge.ts";'],
  ["caching/cached.ts", 'import { linkOf } from "../stores/redis/client.ts";'],
  ["cli/migrate.ts", 'import { defaultSchema } from "../stores/postgres/statements/names.ts";'],
  ["webhooks/webhooks.ts", 'import { readRequestBytes } from "../http/fetch/fetch-messages.ts";'],
  ["execution/run.ts", 'import { acquireFrom } from "../sql/pg-clients/other-pool.ts";'],
])("%s may have: %s", (path, text) => {
  expect(problemsOf(path, text)).toEqual([]);
});

test("a module that belongs to no floor is a problem", () => {
  expect(problemsOf("helpers/helper.ts", "")).toEqual([
    "helpers/helper.ts:1: belongs to no floor; add its folder to `floors`",
  ]);
});

test.each([
  "Date.now()",
  "new Date()",
  "new Date",
  "Math.random()",
  "globalThis.setTimeout(f, 1)",
  "setInterval(f, 1)",
  "performance.now()",
  "crypto.randomUUID()",
  "AbortSignal.timeout(1000)",
])("only ports.ts and the CLI may write %s", (use) => {
  const text = `export const value = ${use};`;
  expect(problemsOf("execution/lease.ts", text)).toHaveLength(1);
  expect(problemsOf("ports.ts", text)).toEqual([]);
  expect(problemsOf("cli/main.ts", text)).toEqual([]);
});

test("creating a date from a stored number is not a use of the clock", () => {
  expect(
    problemsOf("http/protocol/problem.ts", "export const date = (ms: number) => new Date(ms).toUTCString();"),
  ).toEqual([]);
});

test("an exception allows one import of one file and nothing else", () => {
  const from = "stores/postgres.ts";
  const withException = {
    ...rules,
    exceptions: [{ from, to: "stores/memory.ts", reason: "a test of exceptions" }],
  };
  expect(problemsOf(from, 'import { memoryStore } from "./memory.ts";', withException)).toEqual([]);
  expect(
    problemsOf("stores/other.ts", 'import { memoryStore } from "./memory.ts";', withException),
  ).toHaveLength(1);
});

test("modules of other packages must not use the clock or randomness either, whatever their names", () => {
  const sources = new Map([
    ["ports.ts", "export const at = Date.now();"],
    ["jobs.ts", 'import { randomUUID } from "node:crypto";\nexport const id = randomUUID();'],
    ["reads.ts", "export const text = (at: number) => new Date(at).toISOString();"],
  ]);
  expect(findPortProblems(sources).map(({ where }) => where)).toEqual([
    "ports.ts:1",
    "jobs.ts:1",
    "jobs.ts:2",
  ]);
});
