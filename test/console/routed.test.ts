/** People on call over a routed store: a schema for each tenant in one database, on one pool. */
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { createOperator } from "../../packages/latchkey/src/operator/index.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { routedStore } from "../../packages/latchkey/src/routing/routed.ts";
import { migratePostgres, type PgTx, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { consoleHandler, serveConsole } from "../../packages/latchkey-console/src/index.ts";
import { callInDoubt, keyOf, type Place } from "../cli/arrange.ts";
import { openPool } from "../postgres/harness.ts";
import { onRelease } from "../support/resources.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { token } from "./arrange.ts";

type Tx = PgTx<pg.Pool>;
type Tenant = "ada" | "bob";

const tenants: readonly Tenant[] = ["ada", "bob"];
const schemaOf = (tenant: Tenant) => `latchkey_${tenant}`;
const by = { operator: "eve", reason: "the mail server is back" };

async function openService() {
  const database = await freshDatabase();
  onRelease(database.drop);
  // One connection first: what is prepared for one schema must not be taken for another's.
  const pool = openPool(database.url, { max: 2 });
  const places = {} as Record<Tenant, Place>;
  for (const tenant of tenants) {
    const schema = schemaOf(tenant);
    await migratePostgres(pool, { schema });
    await pool.query(`create schema ${tenant}; create table ${tenant}.orders (key text)`);
    const store = postgresStore({ pool, schema });
    places[tenant] = { url: database.url, pool, store, close: async () => store.close() };
  }
  const store = routedStore<Tx>({
    route(tenant) {
      const place = tenants.find((one) => one === tenant);
      if (place === undefined) throw new Error(`no tenant ${tenant}`);
      return places[place].store;
    },
    stores: () => tenants.map((tenant) => places[tenant].store),
  });
  await store.verify();
  const latchkey = createLatchkey<Tx>({ store });
  const sent: string[] = [];
  const receipt = latchkey.effect("receipt.send", {
    deduplication: "none",
    execute: async ({ to }: { to: string }) => void sent.push(to),
  });
  const order = latchkey.operation("orders.create");
  const place = (tenant: Tenant, key: string) =>
    latchkey.run(order, { tenant, key, input: null }, async ({ tx, attempt }) => {
      await tx.query(`insert into ${tenant}.orders values ($1)`, [key]);
      attempt.enqueue(receipt, { to: `${tenant} ${key}` });
      return { id: key };
    });
  /** Has the effects die that are due. */
  const killEffects = async () => {
    const want = [{ effect: "receipt.send", limit: 100 }];
    const claimed = (await store.outbox?.claim(want, systemPorts.random.token(), 60_000)) ?? [];
    const ends = claimed.map(({ id, fence }) => ({ id, fence, event: "die", returned: false }) as const);
    await store.outbox?.end(ends.map((end) => ({ ...end, errorCode: "attempts-spent" })));
  };
  const rowsOf = async (text: string) => (await pool.query<Record<string, unknown>>(text)).rows;
  return { pool, places, latchkey, sent, place, killEffects, rowsOf };
}

let service: Awaited<ReturnType<typeof openService>>;
let site: Awaited<ReturnType<typeof serveConsole>>;
beforeAll(async () => {
  service = await openService();
  site = await serveConsole(consoleHandler({ latchkey: service.latchkey, token }), { port: 0 });
});
afterAll(async () => {
  await site?.close();
  await service?.latchkey.close();
});

async function ask(path: string, fields?: unknown) {
  const headers = {
    authorization: `Bearer ${token}`,
    "x-latchkey-operator": by.operator,
    "x-latchkey-console": "1",
  };
  const init = fields === undefined ? {} : { method: "POST", body: JSON.stringify(fields) };
  const response = await fetch(`http://127.0.0.1:${site.port}/api/${path}`, { headers, ...init });
  // biome-ignore lint/suspicious/noExplicitAny: the answer's form is what is tested
  return { status: response.status, body: (await response.json()) as any };
}

const auditOf = (tenant: Tenant) =>
  service.rowsOf(`select actor, reason from ${schemaOf(tenant)}.audit order by id`);

test("each tenant's records, effects and business rows are in its own schema, and one worker serves both", async () => {
  const { place, rowsOf, latchkey, sent } = service;
  for (let round = 0; round < 6; round++) {
    for (const tenant of tenants)
      expect(await place(tenant, `k ${round}`)).toMatchObject({ kind: "executed" });
  }
  expect(await place("bob", "k 0")).toMatchObject({ kind: "replay", value: { id: "k 0" } });
  for (const tenant of tenants) {
    const own = `select distinct tenant from ${schemaOf(tenant)}.records`;
    expect(await rowsOf(own)).toEqual([{ tenant }]);
    expect(await rowsOf(`select key from ${tenant}.orders`)).toHaveLength(6);
  }
  await latchkey.work();
  expect(sent.filter((to) => to.startsWith("ada"))).toHaveLength(6);
  expect(sent).toHaveLength(12);
  expect(await rowsOf("show search_path"), "the session's is left alone").toEqual([
    { search_path: '"$user", public' },
  ]);
});

test("dead effects of all schemas are one queue; each decision is written where its effect is", async () => {
  const { place, killEffects, latchkey, sent } = service;
  sent.length = 0;
  for (const tenant of tenants) await place(tenant, "dead");
  await killEffects();
  const operator = createOperator({ latchkey });
  const { items } = await operator.deadEffects();
  expect(items.map(({ tenant }) => tenant).sort()).toEqual(["ada", "bob"]);
  const deathOf = (tenant: Tenant) => items.find((item) => item.tenant === tenant)?.death ?? "";
  const [redriven, discarded] = [
    await operator.decide(deathOf("ada"), { decision: "redrive", doubt: "kept" }, by),
    await operator.decide(deathOf("bob"), { decision: "discard" }, by),
  ];
  expect([redriven, discarded]).toMatchObject([
    { kind: "decided", what: "effect" },
    { kind: "decided", what: "effect" },
  ]);
  await latchkey.work();
  expect(sent).toEqual(["ada dead"]);
  expect((await operator.deadEffects()).items).toEqual([]);
  const again = await operator.decide(deathOf("bob"), { decision: "redrive", doubt: "kept" }, by);
  expect(again).toMatchObject({ kind: "refused" });
  for (const tenant of tenants)
    expect(await auditOf(tenant)).toEqual([{ actor: by.operator, reason: by.reason }]);
});

test("the console counts, shows and settles over HTTP what is in any schema", async () => {
  const { places, latchkey } = service;
  latchkey.operation("payments.charge", { execution: "lease" });
  await callInDoubt(places.ada, keyOf("order-1", { tenant: "ada" }));
  const { id, downstream } = await callInDoubt(places.bob, keyOf("order-1", { tenant: "bob" }));
  const overview = await ask("overview");
  expect(overview).toMatchObject({ status: 200, body: { overview: { unknown: { count: 2 } } } });
  const { body } = await ask("records?state=unknown");
  expect(body.items.map(({ tenant }: { tenant: string }) => tenant)).toEqual(["ada", "bob"]);
  const shown = await ask(`inspect?name=${id}`);
  expect(shown.body).toMatchObject({ kind: "record", report: { tenant: "bob" } });
  const before = await auditOf("ada");
  const settled = await ask("settle", {
    recordId: id,
    attempt: shown.body.report.attempt,
    outcome: "not-executed",
    proof: "operator",
    downstreamKey: downstream,
    reason: by.reason,
  });
  expect(settled).toMatchObject({ status: 200, body: { kind: "settled" } });
  expect((await ask("records?state=unknown")).body.items).toMatchObject([{ tenant: "ada" }]);
  expect((await auditOf("bob")).at(-1)).toEqual({ actor: by.operator, reason: by.reason });
  expect(await auditOf("ada")).toEqual(before);
});
