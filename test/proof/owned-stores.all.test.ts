/** Phase, call, phase on real databases: a reply of the provider is lost, others go on, and the answer stays the same. */

import type { PGlite } from "@electric-sql/pglite";
import { afterAll, describe, expect, test } from "vitest";
import {
  createLatchkey,
  leaseRescuer,
  outcomeReconciler,
  type Store,
} from "../../packages/latchkey/src/index.ts";
import { migratePglite, pgliteStore } from "../../packages/latchkey/src/stores/pglite.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { migratedDatabase, openPool } from "../postgres/harness.ts";
import {
  type ChargeInput,
  chargeEffect,
  DownstreamLedger,
  type EffectKind,
} from "../support/downstream-ledger.ts";
import { readyPglite } from "../support/ready-pglite.ts";
import { until } from "../support/until.ts";

interface Queries {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}

const insert = "insert into business (row) values ($1)";

async function story<Tx extends Queries>(store: Store<Tx>, database: Queries, kind: EffectKind) {
  const ledger = new DownstreamLedger({ deduplicates: kind === "provider" });
  const latchkey = createLatchkey<Tx>({ store });
  let sent = 0;
  const made = chargeEffect(ledger, kind, () => (++sent === 1 ? "lost_after" : "proceed"));
  const effect = latchkey.effect(`charge.${kind}`, made);
  const operation = latchkey.operation(`charge.${kind}`, {
    execution: "lease",
    leaseEnd: "resume",
    version: "1",
    run: async ({ amount }: ChargeInput, attempt) => {
      const order = await attempt.phase("order", async (tx) => {
        await tx.query(insert, [`${kind} order`]);
        return `order ${amount}`;
      });
      const charge = await attempt.call("charged", effect, { amount });
      return attempt.finish("settled", async (tx) => {
        await tx.query(insert, [`${kind} settled`]);
        return { status: 201, body: { order, charge: charge.id } };
      });
    },
  });
  const submit = () => latchkey.run(operation, { tenant: "t", key: "k", input: { amount: 5 } });
  const first = await submit();
  const [rescuer, reconciler] = [leaseRescuer(latchkey), outcomeReconciler(latchkey)];
  if (first.kind === "unknown" && kind !== "none") {
    // The record's own time has to come: a second after the doubt.
    await until(async () => (await reconciler.runOnce()).settled > 0, { what: "the outcome is known" });
    await until(async () => (await rescuer.runOnce()).resumed > 0, { what: "a worker has gone on" });
  }
  const last = await submit();
  const { rows } = await database.query("select row from business where row like $1 order by row", [
    `${kind} %`,
  ]);
  const from = Date.now() - 60_000;
  const objects = (async function* () {
    yield* ledger.charges.map(({ key, charge }) => ({ key, ...charge }));
  })();
  const matches = (object: { id: string }, result: { id: string }) => object.id === result.id;
  const report = await latchkey.compareLedger({ effect, objects, from, to: from + 120_000, matches });
  return { first, last, charges: ledger.charges.length, rows, report };
}

function tellsTheStory(open: () => Promise<{ store: Store<never>; database: Queries }>) {
  const completed = { kind: "replay", status: 201, value: { order: "order 5", charge: "ch_1" } };
  test.each<[EffectKind, string]>([
    ["provider", "executed"],
    ["lookup", "unknown"],
    ["close", "unknown"],
    ["none", "unknown"],
  ])("%s", async (kind, expected) => {
    const { store, database } = await open();
    const { first, last, charges, rows, report } = await story(store as Store<Queries>, database, kind);
    expect(first.kind).toBe(expected);
    expect(charges).toBe(1);
    if (kind === "none") {
      expect(last).toMatchObject({ kind: "unknown" });
      expect(rows).toHaveLength(1);
      expect(report).toMatchObject({ matched: 0, mismatched: [{ state: "started" }] });
    } else {
      expect(last).toMatchObject(completed);
      expect(rows).toHaveLength(2);
      expect(report).toMatchObject({ matched: 1, missing: [], extra: [], mismatched: [] });
    }
  });
}

describe("on Postgres", () => {
  let opened: Promise<{ store: Store<never>; database: Queries }> | null = null;
  const open = async () => {
    const pool = openPool(await migratedDatabase());
    return { store: postgresStore({ pool }) as unknown as Store<never>, database: pool };
  };
  tellsTheStory(() => {
    opened ??= open();
    return opened;
  });
});

describe("on PGlite", () => {
  let opened: Promise<PGlite> | null = null;
  afterAll(async () => (await opened)?.close());
  const prepare = async () => {
    const database = await readyPglite();
    await migratePglite(database);
    await database.exec("create table business (row text)");
    return database;
  };
  tellsTheStory(async () => {
    opened ??= prepare();
    const database = await opened;
    return { store: pgliteStore({ database }) as unknown as Store<never>, database };
  });
});
