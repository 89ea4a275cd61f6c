/** Traces of a service on Express and a real Postgres, with OpenTelemetry's own instrumentation of HTTP around it. */
import { createRequire } from "node:module";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { HttpInstrumentation } from "@opentelemetry/instrumentation-http";
import type expressModule from "express";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { expressProtect } from "../../packages/latchkey/src/http/express/express.ts";
import { createInbox } from "../../packages/latchkey/src/index.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { openTelemetryTracing } from "../../packages/latchkey/src/telemetry/opentelemetry.ts";
import { effectDispatcher } from "../../packages/latchkey/src/workers/effect-dispatcher.ts";
import { leaseRescuer } from "../../packages/latchkey/src/workers/lease-rescuer.ts";
import { outcomeReconciler } from "../../packages/latchkey/src/workers/outcome-reconciler.ts";
import { newKey } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { serveListener } from "../neighbours/served.ts";
import { api, ownSpan, recordSpans, type Spans } from "../support/spans.ts";
import { until } from "../support/until.ts";
import { expectNoLeak, migratedDatabase, openPool } from "./harness.ts";

const traceparent = /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/u;

let url: string;
let pool: pg.Pool;
let spans: Spans;
let express: typeof expressModule;
let stop = () => {};

beforeAll(async () => {
  url = await migratedDatabase();
  pool = openPool(url, { max: 4 });
  spans = recordSpans();
  stop = registerInstrumentations({ instrumentations: [new HttpInstrumentation()] });
  const require = createRequire(import.meta.url);
  // Patches the prototype of servers, also those that an import has already seen.
  require("node:http");
  express = require("express");
});
beforeEach(() => spans.reset());
afterAll(async () => {
  stop();
  await expectNoLeak(pool);
});

function service(database = pool, traced = true) {
  return createLatchkey({
    store: postgresStore({ pool: database }),
    ...(traced ? { tracing: openTelemetryTracing({ api }) } : {}),
  });
}

/** One process, and its API. */
async function serve() {
  const latchkey = service();
  const protect = expressProtect(latchkey, { singleTenant: true });
  const operation = latchkey.operation("payments.create");
  const app = express().post(
    "/run",
    protect(operation, async (_req, res, { tx }) => {
      await ownSpan("insert", () => tx.query("insert into business values ('paid')"));
      res.status(201).json({ paid: true });
    }),
  );
  return serveListener(app);
}

const serverSpans = () => spans.all().filter(({ kind }) => kind === SpanKind.SERVER);

async function columns(table: "records" | "outbox", where: string): Promise<readonly (string | null)[]> {
  const { rows } = await pool.query<{ trace: string | null }>(
    `select trace from latchkey.${table} where ${where} order by created_at`,
  );
  return rows.map(({ trace }) => trace);
}

test("the server's span, the attempt below it, the handler's below that; a replay by another process links to it", async () => {
  const [one, other] = [await serve(), await serve()];
  const key = newKey();
  expect((await one.call({ key })).status).toBe(201);
  await until(() => serverSpans().length === 1, { what: "the request has a finished span" });
  const [server] = serverSpans();
  const attempt = spans.one("execute payments.create");
  expect(attempt).toMatchObject({ parentId: server?.spanId, traceId: server?.traceId, links: [] });
  expect(spans.one("insert").parentId).toBe(attempt.spanId);
  expect(attempt.attributes).toMatchObject({
    "latchkey.decision": "execute",
    "latchkey.state": "completed",
    "http.response.status_code": 201,
  });
  const [stored] = await columns("records", "operation = 'payments.create'");
  expect(stored).toBe(`00-${attempt.traceId}-${attempt.spanId}-01`);
  spans.reset();

  expect((await other.call({ key })).status).toBe(201);
  await until(() => serverSpans().length === 1, { what: "the replay has a finished span" });
  const replay = spans.one("execute payments.create");
  expect(replay).toMatchObject({ parentId: serverSpans()[0]?.spanId, links: [attempt.spanId] });
  expect(replay.traceId).not.toBe(attempt.traceId);
  expect(replay.attributes).toMatchObject({
    "latchkey.decision": "replay",
    "http.response.status_code": 201,
  });
  expect(spans.named("insert")).toEqual([]);
  spans.reset();

  expect((await other.call({ key, body: '{"amount":2}' })).status).toBe(422);
  expect(spans.one("execute payments.create").attributes).toMatchObject({
    "latchkey.decision": "key_misuse",
  });
  for (const served of [one, other]) await served.close();
});

test("requests side by side on two connections: each handler's spans hang below its own attempt", async () => {
  const small = openPool(url, { max: 2 });
  const latchkey = service(small);
  const plain = latchkey.operation("plain");
  const optimistic = latchkey.operation("optimistic", { admission: "optimistic" });
  const runs = Array.from({ length: 20 }, (_, index) =>
    ownSpan(`server ${index}`, () =>
      latchkey.run(
        index % 2 === 0 ? plain : optimistic,
        { tenant: "side", key: `k${index}`, input: index },
        async ({ tx }) => {
          await tx.query("select 1");
          await ownSpan(`insert ${index}`, () =>
            tx.query("insert into business values ($1)", [`side ${index}`]),
          );
          return ownSpan(`after ${index}`, async () => index);
        },
      ),
    ),
  );
  const results = await Promise.all(runs);
  expect(results.every(({ kind }) => kind === "executed")).toBe(true);
  const attempts = [...spans.named("execute plain"), ...spans.named("execute optimistic")];
  expect(attempts).toHaveLength(20);
  for (let index = 0; index < 20; index++) {
    const attempt = attempts.find(({ parentId }) => parentId === spans.one(`server ${index}`).spanId);
    for (const name of ["insert", "after"]) {
      expect(spans.one(`${name} ${index}`).parentId, name).toBe(attempt?.spanId);
    }
  }
  const kept = await columns("records", "tenant = 'side'");
  expect(kept.toSorted()).toEqual(
    attempts.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`).toSorted(),
  );
  await latchkey.close();
});

test("the outbox, a call in doubt and its look-up: each links back to its attempt, through the database", async () => {
  const latchkey = service();
  const asked: string[] = [];
  const receipt = latchkey.effect<object, object>("receipts.send", {
    deduplication: "provider",
    dedupeWindowMs: 60_000,
    execute: () => ownSpan("POST receipt", async () => ({})),
  });
  const charge = latchkey.effect<object, object>("charge", {
    deduplication: "lookup",
    execute: () => Promise.reject(new Error("socket hang up")),
    async lookup(_, { key }) {
      asked.push(key);
      return { found: { id: "ch_1" } };
    },
  });
  const operation = latchkey.operation("pay", {
    execution: "lease",
    leaseEnd: "resume",
    version: "1",
    run: async (_: object, attempt) => {
      await attempt.phase("order", async (tx) => {
        await ownSpan("insert order", () => tx.query("insert into business values ('order')"));
        attempt.enqueue(receipt, {});
      });
      return { body: await attempt.call("charged", charge, {}) };
    },
  });
  const request = { tenant: "outbox", key: "k", input: {} };
  expect(await ownSpan("server", () => latchkey.run(operation, request))).toMatchObject({ kind: "unknown" });
  const attempt = spans.one("execute pay");
  expect(attempt.parentId).toBe(spans.one("server").spanId);
  expect(spans.one("insert order").parentId).toBe(spans.one("phase order").spanId);
  expect(spans.one("call charge")).toMatchObject({
    parentId: attempt.spanId,
    status: { code: SpanStatusCode.ERROR, message: "call-in-doubt" },
  });
  expect(await columns("outbox", "tenant = 'outbox'")).toEqual([
    `00-${attempt.traceId}-${attempt.spanId}-01`,
  ]);

  // What another process has of it is in the database alone.
  const worker = service();
  worker.effect<object, object>("receipts.send", {
    deduplication: "provider",
    dedupeWindowMs: 60_000,
    execute: () => ownSpan("POST receipt", async () => ({})),
  });
  await ownSpan("somewhere else", () => effectDispatcher(worker).runOnce());
  const delivery = spans.one("process receipts.send");
  expect(delivery).toMatchObject({ kind: SpanKind.CONSUMER, parentId: null, links: [attempt.spanId] });
  expect(delivery.attributes["latchkey.delivery.result"]).toBe("delivered");
  expect(spans.one("POST receipt").parentId).toBe(delivery.spanId);

  await until(async () => (await outcomeReconciler(latchkey).runOnce()).settled === 1, {
    what: "the reconciler has asked about the charge",
    intervalMs: 100,
  });
  const look = spans.named("look up pay").at(-1);
  expect(look).toMatchObject({ parentId: null, links: [attempt.spanId] });
  expect(look?.attributes).toMatchObject({ "latchkey.found": "settle", "latchkey.state": "unknown" });
  spans.reset();
  await until(async () => (await leaseRescuer(latchkey).runOnce()).resumed === 1, {
    what: "a worker has gone on with it",
    intervalMs: 100,
  });
  const resumed = spans.one("execute pay");
  expect(resumed).toMatchObject({ parentId: null, links: [attempt.spanId] });
  expect(resumed.attributes).toMatchObject({
    "latchkey.by": "worker",
    "latchkey.attempt": 2,
    "latchkey.state": "completed",
  });
  spans.reset();
  expect(await latchkey.run(operation, request)).toMatchObject({ kind: "replay" });
  expect(spans.one("execute pay").links).toEqual([attempt.spanId]);
});

test("a service that is not traced stores nothing, and sends the statements that it has always sent", async () => {
  const single = openPool(url, { max: 1 });
  const latchkey = service(single, false);
  const notice = latchkey.effect<object, object>("notices", {
    deduplication: "none",
    execute: async () => ({}),
  });
  const operation = latchkey.operation("untraced");
  await latchkey.run(operation, { tenant: "untraced", key: "k", input: {} }, async ({ attempt }) => {
    attempt.enqueue(notice, {});
  });
  expect(await columns("records", "tenant = 'untraced'")).toEqual([null]);
  expect(await columns("outbox", "tenant = 'untraced'")).toEqual([null]);
  const { rows } = await single.query<{ name: string; types: string }>(
    "select name, parameter_types::text as types from pg_prepared_statements where name like 'lk\\_%'",
  );
  const names = rows.map(({ name }) => name.replace(/_[0-9a-f]{12}$/u, ""));
  expect(names).toEqual(expect.arrayContaining(["lk_complete", "lk_enqueue"]));
  expect(names.filter((name) => name.includes("traced"))).toEqual([]);
  expect(spans.all()).toEqual([]);
  await latchkey.close();
});

test("what somebody has written into the column is no link, and breaks nothing", async () => {
  const latchkey = service();
  const operation = latchkey.operation("hostile", { writes: "none" });
  const run = () => latchkey.run(operation, { tenant: "hostile", key: "k", input: {} }, async () => 1);
  expect((await run()).kind).toBe("executed");
  expect((await columns("records", "tenant = 'hostile'"))[0]).toMatch(traceparent);
  for (const text of ["", "00-", "x".repeat(10_000), "'; drop table business; --", "00-é".padEnd(55, "0")]) {
    await pool.query("update latchkey.records set trace = $1 where tenant = 'hostile'", [text]);
    spans.reset();
    expect((await run()).kind, text.slice(0, 60)).toBe("replay");
    expect(spans.one("execute hostile").links).toEqual([]);
  }
});

test("messages that share a transaction keep traces of their own, and records as others have", async () => {
  const latchkey = service();
  const operation = latchkey.operation("shipments.create", {
    summary: { fields: ["order"] },
  });
  const make = (batchSize: number | false) =>
    createInbox(latchkey, operation, { tenant: "t", batchSize }, async ({ tx }) => {
      await tx.query("insert into business values ($1)", ["shipped"]);
    });
  const [inBatches, alone] = [make(10), make(false)];
  const message = (id: string) => ({
    id,
    source: "orders",
    body: Buffer.from('{"order":"1"}'),
    contentType: "application/json",
    headers: {},
    redelivered: false,
  });
  await Promise.all(["first", "a", "b"].map((id) => inBatches.consume(message(id))));
  await alone.consume(message("c"));
  const { rows } = await pool.query(
    "select key, trace, xmin::text as by, to_jsonb(r) - '{key,id,token,trace,created_at,finished_at,expires_at,forget_at}'::text[] as rest, extract(epoch from expires_at - finished_at)::int as kept_s from latchkey.records r where operation = 'shipments.create' order by key",
  );
  const [a, b, c] = rows;
  expect([b.by, c.by === a.by]).toEqual([a.by, false]);
  for (const row of [a, b]) expect([row.rest, row.kept_s]).toEqual([c.rest, c.kept_s]);
  expect(rows.map(({ trace }) => traceparent.test(trace))).toEqual([true, true, true, true]);
  expect(new Set(rows.map(({ trace }) => trace)).size).toBe(4);
});
