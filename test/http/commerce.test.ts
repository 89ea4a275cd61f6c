/** The commerce protocols' rules that need a whole shop: several paths, several methods, rows beside the record. */
import express, { type Request } from "express";
import { acp, createLatchkey, type Policy, ucp } from "latchkey";
import { expressProtect, expressRecord, keepRawBody } from "latchkey/express";
import { memoryStore } from "latchkey/memory";
import { postgresStore } from "latchkey/postgres";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type HttpCall, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";
import { migratedDatabase, openPool } from "../postgres/harness.ts";
import { type Listening, listen } from "../support/listen.ts";
import { forEachPostgres, postgresVersions } from "../support/shared-postgres.ts";

const tenant = (req: Request) => req.get("x-tenant");
const key = "1a7e9c02-5b7d-4c3f-9a61-2f0f4f7f8e10";

const newest = postgresVersions().at(-1);

forEachPostgres((version) => {
  describe.runIf(version === newest)("a shop of the Agentic Commerce Protocol", () => {
    let pool: pg.Pool;
    let server: Listening;
    let failing = false;

    beforeAll(async () => {
      pool = openPool(await migratedDatabase(version));
      await pool.query("create table sessions (id text, amount int)");
      server = await listen(shop());
    });
    afterAll(() => server.close());

    function shop(): express.Express {
      const latchkey = createLatchkey({ store: postgresStore({ pool }), policy: acp });
      const create = latchkey.operation("checkout.create");
      const complete = latchkey.operation("checkout.complete");
      const protect = expressProtect(latchkey, { tenant });
      return express()
        .use(express.json({ verify: keepRawBody }))
        .post(
          "/checkout_sessions",
          protect(create, async (req, res, { tx, attempt }) => {
            await tx.query("insert into sessions values ($1, $2)", [attempt.id, req.body.amount]);
            if (failing) return res.status(502).json({ type: "processing_error" });
            return res.status(201).json({ id: attempt.id });
          }),
        )
        .post(
          "/checkout_sessions/:id/complete",
          protect(complete, async (req, res, { tx }) => {
            await tx.query("update sessions set amount = 0 where id = $1", [req.params.id]);
            return res.status(200).json({ completed: req.params.id });
          }),
        );
    }
    const post = (target: string, call: HttpCall = {}) => send(server.url, { target, key, ...call });
    const rows = async () =>
      (await pool.query("select amount from sessions")).rows.map(({ amount }) => amount);

    test("one key counts once for each endpoint path", async () => {
      const created = await post("/checkout_sessions");
      const one = await post("/checkout_sessions/1/complete", { body: "{}" });
      const two = await post("/checkout_sessions/2/complete", { body: "{}" });
      expect([created.status, one.json(), two.json()]).toEqual([201, { completed: "1" }, { completed: "2" }]);
      for (const [target, body, first] of [
        ["/checkout_sessions", undefined, created],
        ["/checkout_sessions/1/complete", "{}", one],
        ["/checkout_sessions/2/complete", "{}", two],
      ] as const) {
        const replay = await post(target, body === undefined ? {} : { body });
        expect(replay.header("idempotent-replayed")).toBe("true");
        expect(replay.body).toEqual(first.body);
        expect(replay.header("idempotency-key")).toBe(key);
      }
      expect(await rows()).toEqual([1]);
    });

    test("the record and the business write are one transaction: a 5xx leaves neither", async () => {
      await pool.query("truncate sessions");
      failing = true;
      const call = { key: "a key with spaces", body: '{"amount":7}' };
      expect((await post("/checkout_sessions", call)).status).toBe(502);
      const records = () => pool.query("select 1 from latchkey.records where key = $1", [call.key]);
      expect([await rows(), (await records()).rowCount]).toEqual([[], 0]);
      failing = false;
      expect((await post("/checkout_sessions", call)).status).toBe(201);
      expect([await rows(), (await records()).rowCount]).toEqual([[7], 1]);
      expect((await post("/checkout_sessions", call)).header("idempotent-replayed")).toBe("true");
      expect(await rows()).toEqual([7]);
    });
  });
});

/** A shop in memory that counts what it has done, with its routes under a lease. */
async function leased(policy: Policy, answer: () => number = () => 201) {
  const done: string[] = [];
  const ids: string[] = [];
  const latchkey = createLatchkey({ store: memoryStore(), policy });
  const operation = latchkey.operation("checkouts.complete", { execution: "lease" });
  const app = express().post(
    "/checkout-sessions/:id/complete",
    expressProtect(latchkey, { tenant })(operation, async (req, res, { attempt }) => {
      done.push(`${req.params.id} ${attempt.key}`);
      ids.push(attempt.id);
      res.status(answer()).json({ id: req.params.id });
    }),
  );
  const server = await listen(app);
  const call = (target: string, more: HttpCall = {}) => send(server.url, { target, key, ...more });
  return { done, ids, call, [Symbol.asyncDispose]: () => server.close() };
}

test("acp: what runs again after a 5xx under a lease has another id, and the client's key", async () => {
  let runs = 0;
  await using shop = await leased(acp, () => {
    runs += 1;
    return runs === 1 ? 502 : 200;
  });
  expect((await shop.call("/checkout-sessions/1/complete")).status).toBe(502);
  expect((await shop.call("/checkout-sessions/1/complete")).status).toBe(200);
  expect(shop.done).toEqual([`1 ${key}`, `1 ${key}`]);
  expect(new Set(shop.ids).size).toBe(2);
});

test("ucp: a key of one checkout never gets another checkout's answer", async () => {
  await using shop = await leased(ucp);
  const first = await shop.call("/checkout-sessions/1/complete", { body: "", contentType: null });
  const other = await shop.call("/checkout-sessions/2/complete", { body: "", contentType: null });
  expect([first.status, other.status]).toEqual([201, 409]);
  expect(other.json()).toMatchObject({ code: "idempotency_conflict" });
  expect(shop.done).toHaveLength(1);
});

test("ucp: a key is another platform's own", async () => {
  await using shop = await leased(ucp);
  const target = "/checkout-sessions/1/complete";
  expect((await shop.call(target, { tenant: "a" })).status).toBe(201);
  expect((await shop.call(target, { tenant: "b" })).header("idempotent-replayed")).toBeNull();
  expect(shop.done).toHaveLength(2);
});

test("ucp: a mount covers updates, which are PUT", async () => {
  let updates = 0;
  const latchkey = createLatchkey({ store: memoryStore(), policy: ucp });
  const record = expressRecord(latchkey, { tenant });
  const app = express()
    .use(express.json({ verify: keepRawBody }))
    .use(record(latchkey.operation("shop", { execution: "lease" })))
    .put("/checkout-sessions/:id", (_req, res) => {
      updates += 1;
      res.json({ updates });
    });
  const server = await listen(app);
  const put = () => send(server.url, { method: "PUT", target: "/checkout-sessions/1", key });
  const first = await put();
  const replay = await put();
  await server.close();
  expect([first.json(), replay.json(), replay.header("idempotent-replayed")]).toEqual([
    { updates: 1 },
    { updates: 1 },
    "true",
  ]);
});

test("an operation without a path says so under acp, and says what to do", async () => {
  const latchkey = createLatchkey({ store: memoryStore(), policy: acp });
  const request = { tenant: "a", key, input: {} };
  const operation = latchkey.operation("mail", { execution: "lease" });
  await expect(latchkey.run(operation, request, async () => 1)).rejects.toThrow('keyScope "operation"');
  const other = latchkey.operation("post", { execution: "lease", keyScope: "operation" });
  expect(await latchkey.run(other, request, async () => 1)).toMatchObject({ kind: "executed", value: 1 });
});
