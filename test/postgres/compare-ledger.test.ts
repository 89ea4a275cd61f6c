/** What the other side has, compared with steps and deliveries that Postgres keeps. */
import type pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { faultyStore } from "../../packages/latchkey/src/testing/index.ts";
import { effectDispatcher } from "../../packages/latchkey/src/workers/effect-dispatcher.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { isThorough } from "../support/thorough.ts";
import { migratedDatabase, openPool } from "./harness.ts";

interface Charge {
  readonly key: string;
  readonly n: number;
}

async function* each<T>(things: readonly T[]): AsyncGenerator<T> {
  yield* things;
}

const versions = isThorough ? postgresVersions() : postgresVersions().slice(-1);

describe.each(versions)("a ledger on PostgreSQL %i", (version) => {
  let pool: pg.Pool;

  beforeAll(async () => {
    pool = openPool(await migratedDatabase(version));
  });

  /** Steps' calls, effects of transactions and of phases, each of which charges. */
  async function serviceOf(orders: number) {
    const store = postgresStore({ pool });
    const calls: string[] = [];
    const watched = faultyStore(store, ({ port }) => {
      calls.push(port);
      return "proceed";
    });
    const latchkey = createLatchkey({ store: watched.store });
    const provider: Charge[] = [];
    const effect = latchkey.effect<{ n: number }, Charge>(`charge-${orders}`, {
      deduplication: "provider",
      dedupeWindowMs: 3_600_000,
      async execute({ n }, { key }) {
        const charge = { key, n };
        provider.push(charge);
        return charge;
      },
    });
    const placed = latchkey.operation(`placed-${orders}`);
    const charged = latchkey.operation(`charged-${orders}`, {
      execution: "lease",
      version: "1",
      run: async ({ n }: { n: number }, attempt) => {
        await attempt.phase("kept", async () => void attempt.enqueue(effect, { n: n + 1 }));
        return { body: await attempt.call("charged", effect, { n }) };
      },
    });
    const from = Date.now() - 60_000;
    for (let n = 0; n < orders; n++) {
      await latchkey.run(placed, { tenant: "t", key: `o${n}`, input: null }, async ({ attempt }) => {
        attempt.enqueue(effect, { n });
      });
    }
    await latchkey.run(charged, { tenant: "t", key: "c", input: { n: 1_000 } });
    while ((await effectDispatcher(latchkey).runOnce()).claimed > 0);
    const compare = (objects: readonly Charge[], to = Date.now() + 60_000) =>
      latchkey.compareLedger({
        effect,
        objects: each(objects),
        from,
        to,
        matches: (object, result) => object.n === result.n,
      });
    return { store, calls, provider, compare, from };
  }

  test("agrees with what was sent, and says what is lost, strange, doubled and different", async () => {
    const { provider, compare, store, from } = await serviceOf(6);
    expect(provider).toHaveLength(8);
    expect(await compare(provider)).toEqual({ matched: 8, missing: [], extra: [], mismatched: [] });
    const [lost, different, doubled] = provider.filter(({ n }) => n !== 1_000);
    if (!lost || !different || !doubled) throw new Error("too few");
    const called = provider.find(({ n }) => n === 1_000);
    const unknownEntry = { key: `lk_${"A".repeat(44)}`, n: 1 };
    const objects = provider
      .filter((charge) => charge !== lost && charge !== called)
      .map((charge) => (charge === different ? { ...charge, n: 99 } : charge));
    const report = await compare([...objects, doubled, unknownEntry, { key: "other\u0000", n: 1 }]);
    expect(report).toMatchObject({
      matched: 5,
      extra: [doubled, unknownEntry, { n: 1 }],
      mismatched: [{ object: { key: different.key }, state: "delivered" }],
    });
    expect(new Set(report.missing.map(({ downstreamKey }) => downstreamKey))).toEqual(
      new Set([lost.key, called?.key]),
    );
    expect((await compare([], from)).missing, "before any").toEqual([]);
    await store.close();
  });

  test("asks the outbox once for each page of objects", async () => {
    const { provider, compare, store, calls } = await serviceOf(20);
    calls.length = 0;
    expect(await compare(provider)).toMatchObject({ matched: 22, missing: [] });
    const ofOutbox = ["effectsOfRecord", "effectsByKey", "finishedEffects"];
    expect(calls.filter((port) => ofOutbox.includes(port))).toEqual(["effectsByKey", "finishedEffects"]);
    await store.close();
  });
});
