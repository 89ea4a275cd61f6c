/** Deleting a tenant, on a real Postgres and in memory. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  begin,
  callInDoubt,
  complete,
  jsonAnswer,
  keyOf,
  openPlace,
  ownerOf,
  type Place,
} from "../../../../test/cli/arrange.ts";
import { manualPorts } from "../../../../test/support/manual-ports.ts";
import { cached } from "../caching/cached.ts";
import { StoreError } from "../errors.ts";
import { createLatchkey } from "../latchkey.ts";
import { memoryStore } from "../stores/memory.ts";
import type { Store } from "../stores/store.ts";
import type { TenantData } from "../stores/tenant-data.ts";
import { createOperator, type TenantCounts } from "./index.ts";

const ada = { operator: "ada", reason: "contract ended" };
const nothing = { records: 0, effects: 0, messages: 0, auditRows: 0 };

let place: Place;
beforeAll(async () => {
  place = await openPlace();
});
afterAll(() => place.close());

const operatorOf = <Tx>(store: Store<Tx>) => createOperator({ latchkey: createLatchkey({ store }) });

async function finish(tenant: string, key: string): Promise<void> {
  const name = keyOf(key, { tenant });
  await complete(place, ownerOf(name, await begin(place, name)), jsonAnswer(201, { id: 1 }));
}

/** How many rows of each table name the tenant. */
async function rowsOf(tenant: string): Promise<Readonly<Record<string, number>>> {
  const tables = ["records", "leases", "steps", "outbox", "messages", "early", "facts", "audit"];
  const counts: Record<string, number> = {};
  for (const table of tables) {
    const text = `select count(*)::int as n from latchkey.${table} where tenant = $1`;
    const { rows } = await place.pool.query<{ n: number }>(text, [tenant]);
    counts[table] = rows[0]?.n ?? -1;
  }
  return counts;
}

describe("deleteTenant", () => {
  test("removes everything in small steps, reports progress, and leaves the audit row", async () => {
    for (let at = 0; at < 5; at += 1) await finish("gone", `k-${at}`);
    await finish("kept", "k-0");
    // One fact belongs to a record that was removed while its facts were written.
    const fact = { what: "replay", because: null, traceId: null, agoMs: 0 };
    for (const tenant of ["gone", "kept"]) {
      const key = keyOf("k-0", { tenant });
      await place.store.facts?.keep([{ key, recordId: null, kind: "repeat", count: 1, facts: [fact] }]);
      await place.pool.query(
        `insert into latchkey.facts select tenant, scope, 'zz', kind, record_id, count, facts from latchkey.facts
        where tenant = $1`,
        [tenant],
      );
    }
    expect(await rowsOf("gone")).toMatchObject({ facts: 2 });
    const operator = operatorOf(place.store);
    const progress: TenantCounts[] = [];
    const before = await operator.deleteTenant("gone", ada, { dryRun: true });
    expect(before).toMatchObject({ kind: "counted", found: { over: { ...nothing, records: 5 } } });
    expect(await rowsOf("gone")).toMatchObject({ records: 5, audit: 0 });
    const onProgress = (removed: TenantCounts) => void progress.push(removed);
    const deleted = await operator.deleteTenant("gone", ada, { batchSize: 2, onProgress });
    expect(deleted).toMatchObject({ kind: "deleted", removed: { ...nothing, records: 5 } });
    expect(progress.map(({ records }) => records)).toEqual(expect.arrayContaining([2, 4, 5]));
    const rows = await rowsOf("gone");
    expect(rows).toEqual({
      ...rows,
      records: 0,
      leases: 0,
      steps: 0,
      outbox: 0,
      messages: 0,
      early: 0,
      facts: 0,
      audit: 1,
    });
    expect(await rowsOf("kept")).toMatchObject({ facts: 2 });
    expect(await place.store.settlement.audit({ tenant: "gone", scope: "", key: "" })).toMatchObject([
      { event: "delete_tenant", actor: "ada", reason: "contract ended" },
    ]);
    expect(await rowsOf("kept"), "another tenant's").toMatchObject({ records: 1 });
  });

  test("is refused, and changes nothing, while an attempt runs or something is undecided", async () => {
    const operator = operatorOf(place.store);
    const running = keyOf("running", { tenant: "busy" });
    const record = await begin(place, running);
    await callInDoubt(place, keyOf("doubt", { tenant: "busy" }));
    const first = await operator.deleteTenant("busy", ada, { undecided: true });
    expect(first).toMatchObject({
      kind: "refused",
      because: "under_way",
      found: { underWay: { records: 1 } },
    });
    await complete(place, ownerOf(running, record), jsonAnswer(201, {}));
    const second = await operator.deleteTenant("busy", ada);
    expect(second).toMatchObject({
      kind: "refused",
      because: "undecided",
      found: { undecided: { records: 1 } },
    });
    expect(await rowsOf("busy")).toMatchObject({ records: 2, steps: 2, audit: 0 });
    const third = await operator.deleteTenant("busy", ada, { undecided: true });
    expect(third).toMatchObject({ kind: "deleted", removed: { records: 2 } });
    expect(await rowsOf("busy")).toMatchObject({ records: 0, steps: 0, audit: 2 });
    expect(await operator.deleteTenant("busy", ada, { auditRows: true })).toMatchObject({
      removed: { ...nothing, auditRows: 0 },
    });
  });

  test("with waitMs, waits until nothing is under way", async () => {
    const ports = manualPorts();
    const memory = memoryStore({ ports, now: () => ports.clock.wallMs() });
    const latchkey = createLatchkey({ store: memory, ports });
    const operation = latchkey.operation("orders.create", { execution: "lease" });
    const answered = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const running = latchkey.run(operation, { tenant: "slow", key: "k", input: {} }, async () => {
      begun.resolve();
      await answered.promise;
      return { ok: true };
    });
    await begun.promise;
    const deleting = createOperator({ latchkey }).deleteTenant("slow", ada, { waitMs: 60_000 });
    await ports.clock.advance(5_000);
    expect((await memory.settlement.list({ ...everything, state: "in_progress" })).length, "it waits").toBe(
      1,
    );
    answered.resolve();
    await running;
    await ports.clock.advance(5_000);
    expect(await deleting).toMatchObject({ kind: "deleted", removed: { records: 1 } });

    const stuck = latchkey.run(
      operation,
      { tenant: "slow", key: "k2", input: {} },
      () => new Promise(() => {}),
    );
    stuck.catch(() => {});
    await ports.clock.advance(1);
    const refused = createOperator({ latchkey }).deleteTenant("slow", ada, { waitMs: 3_000 });
    await ports.clock.advance(3_000);
    expect(await refused).toMatchObject({ kind: "refused", because: "under_way" });
  });

  test("is incomplete if something was added meanwhile, and calling it again continues", async () => {
    const memory = memoryStore();
    const { latchkey, operation } = serviceOn(memory);
    const run = (key: string) =>
      latchkey.run(operation, { tenant: "t", key, input: {} }, async () => ({ ok: true }));
    for (const key of ["a", "b", "c"]) await run(key);
    const abort = new AbortController();
    const operator = createOperator({ latchkey });
    const cut = await operator.deleteTenant("t", ada, {
      batchSize: 1,
      signal: abort.signal,
      onProgress: ({ records }) => records === 1 && abort.abort(),
    });
    expect(cut).toMatchObject({ kind: "incomplete", removed: { records: 1 } });
    expect(await operator.deleteTenant("t", ada)).toMatchObject({ kind: "deleted", removed: { records: 2 } });
  });

  test("copies of a cached store go with their records", async () => {
    const memory = memoryStore();
    const store = cached(memory, null, { near: true });
    const { latchkey, operation } = serviceOn(store);
    let runs = 0;
    const run = () =>
      latchkey.run(operation, { tenant: "t", key: "k", input: {} }, async () => ({ runs: ++runs }));
    await run();
    expect(await run(), "replayed, and copied").toMatchObject({ value: { runs: 1 } });
    expect(await store.finished?.look({ tenant: "t", scope: "orders.create", key: "k" })).not.toBeNull();
    await createOperator({ latchkey }).deleteTenant("t", ada);
    expect(await run(), "runs as new").toMatchObject({ value: { runs: 2 } });
  });

  test("a call whose reply was lost is repeated", async () => {
    const memory = memoryStore();
    const { tenantData } = memory;
    if (tenantData === undefined) throw new Error("the memory store knows what a tenant has");
    let calls = 0;
    const lossy: TenantData = {
      ...tenantData,
      async sweep(sweep) {
        const page = await tenantData.sweep(sweep);
        calls += 1;
        if (calls % 2 === 1) throw new StoreError("in_doubt", { message: "the reply was lost" });
        return page;
      },
    };
    const { latchkey, operation } = serviceOn({ ...memory, tenantData: lossy });
    await latchkey.run(operation, { tenant: "t", key: "k", input: {} }, async () => ({ ok: true }));
    expect(await createOperator({ latchkey }).deleteTenant("t", ada)).toMatchObject({ kind: "deleted" });
    expect((await memory.read({ tenant: "t", scope: "orders.create", key: "k" })).record).toBeNull();
  });

  test("a call that the store never answers ends in doubt", async () => {
    const ports = manualPorts();
    const memory = memoryStore({ ports, now: () => ports.clock.wallMs() });
    if (memory.tenantData === undefined) throw new Error("the memory store knows what a tenant has");
    const sweep = () => new Promise<never>(() => {});
    const latchkey = createLatchkey({
      store: { ...memory, tenantData: { ...memory.tenantData, sweep } },
      ports,
    });
    const deleting = createOperator({ latchkey }).deleteTenant("t", ada);
    const ended = expect(deleting).rejects.toMatchObject({ name: "StoreError", certainty: "in_doubt" });
    await ports.clock.advance(120_000);
    await ended;
  });

  test("is refused by a store that cannot find a tenant's records", async () => {
    const { tenantData: _, ...store } = memoryStore();
    expect(await operatorOf(store).deleteTenant("t", ada)).toMatchObject({
      kind: "refused",
      because: "unsupported",
    });
  });

  test.each([
    [{ batchSize: 0 }, /batchSize/],
    [{ waitMs: -1 }, /waitMs/],
    [{ dry: true }, /dryRun/],
  ] as const)("refuses %j", async (options: object, message) => {
    await expect(operatorOf(memoryStore()).deleteTenant("t", ada, { ...options })).rejects.toThrow(message);
    const unsigned = { operator: " ", reason: "x" };
    await expect(operatorOf(memoryStore()).deleteTenant("t", unsigned)).rejects.toThrow(TypeError);
  });
});

const everything = { tenant: null, operation: null, limit: 100, after: null } as const;

function serviceOn<Tx>(store: Store<Tx>) {
  const latchkey = createLatchkey({ store, strict: false });
  return { latchkey, operation: latchkey.operation("orders.create") };
}
