/** Phases where there is one session for everybody, and through Drizzle on both databases. */

import type { PGlite } from "@electric-sql/pglite";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { drizzle as drizzlePglite } from "drizzle-orm/pglite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { InProgressRecord } from "../../packages/latchkey/src/engine/record.ts";
import { drizzleTransactions } from "../../packages/latchkey/src/sql/drizzle.ts";
import { migratePglite, pgliteStore } from "../../packages/latchkey/src/stores/pglite.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { Store } from "../../packages/latchkey/src/stores/store.ts";
import { newKey, newLife, terms } from "../postgres/arrange.ts";
import { expectNoLeak, openPool } from "../postgres/harness.ts";
import { completing, ownerOf, phaseEnd } from "../postgres/owned.ts";
import { readyPglite } from "../support/ready-pglite.ts";
import { freshDatabase } from "../support/shared-postgres.ts";
import { deferred, within } from "../support/until.ts";

const payments = pgTable("payments", {
  id: integer().generatedAlwaysAsIdentity().primaryKey(),
  account: text().notNull(),
});
const paymentsTable =
  "create table payments (id integer generated always as identity primary key, account text not null)";

function supportOf<Tx>(store: Store<Tx>) {
  if (store.transactions === null) throw new Error("the store has transactions");
  return store.transactions;
}

async function begin<Tx>(store: Store<Tx>): Promise<InProgressRecord> {
  const record = await store.create(newLife(newKey()), null, { ...terms, leaseEnd: "resume" });
  if (record === null) throw new Error("the attempt must begin");
  return record;
}

const open = { isolation: null, idleLimitMs: 30_000 } as const;

describe("phases on PGlite", () => {
  let database: PGlite;
  let store: ReturnType<typeof pgliteStore<PGlite>>;

  beforeAll(async () => {
    database = await readyPglite();
    await migratePglite(database);
    store = pgliteStore({ database });
    await database.exec(paymentsTable);
  });
  afterAll(() => database.close());

  test("while one is open, a request with its key gets the reply at once that it is running", async () => {
    const record = await begin(store);
    const [entered, leave] = [deferred(), deferred()];
    const phase = supportOf(store).phase({ owner: ownerOf(record), ...open }, async () => {
      entered.resolve();
      await leave.promise;
      return phaseEnd("one");
    });
    await entered.promise;
    const reading = await within(store.read(record), "the look-up", 5_000);
    expect(reading.record).toMatchObject({ state: "in_progress", id: record.id });
    leave.resolve();
    expect((await phase).kind).toBe("committed");
    expect((await store.journal.read(record, record.id))?.recoveryPoint).toBe("one");
  });

  test("a refence that waited too long for its turn does nothing when it comes", async () => {
    const record = await begin(store);
    const [entered, leave] = [deferred(), deferred()];
    const phase = supportOf(store).phase({ owner: ownerOf(record), ...open }, async () => {
      entered.resolve();
      await leave.promise;
      return phaseEnd("one");
    });
    await entered.promise;
    const refenced = store.journal.refence(ownerOf(record), "c".repeat(32), 60_000, 50);
    await expect(refenced).rejects.toMatchObject({ code: "store-unavailable", certainty: "in_doubt" });
    leave.resolve();
    expect((await phase).kind).toBe("committed");
    expect((await store.read(record)).record?.fence).toEqual(record.fence);
  });

  test("one that is idle for too long is ended, and the database serves again", async () => {
    const record = await begin(store);
    const [entered, late] = [deferred(), deferred()];
    const phase = supportOf(store).phase(
      { owner: ownerOf(record), isolation: null, idleLimitMs: 50 },
      async ({ tx }) => {
        await tx.query("insert into payments (account) values ('idle')");
        entered.resolve();
        await late.promise;
        return phaseEnd("one");
      },
    );
    await entered.promise;
    // Waits for the session, which is free again when the phase has been ended.
    await database.query("select 1");
    late.resolve();
    expect(await phase).toMatchObject({ kind: "refused", because: "other" });
    expect((await store.journal.read(record, record.id))?.steps).toEqual([]);
    const { rows } = await database.query("select 1 from payments where account = 'idle'");
    expect(rows).toEqual([]);
  });

  test("through Drizzle its rows and its step are one, and the last one completes the attempt", async () => {
    const db = drizzlePglite(database);
    const through = pgliteStore({ database, transactions: drizzleTransactions({ db }) });
    const record = await begin(through);
    const outcome = await supportOf(through).phase({ owner: ownerOf(record), ...open }, async ({ tx }) => {
      await tx.insert(payments).values({ account: "embedded" });
      return phaseEnd("one", completing);
    });
    expect(outcome).toMatchObject({ kind: "committed", expiresAt: expect.any(Number) });
    expect((await store.read(record)).record?.state).toBe("completed");
    const lost = await supportOf(through).phase({ owner: ownerOf(record), ...open }, async ({ tx }) => {
      await tx.insert(payments).values({ account: "embedded" });
      return phaseEnd("two");
    });
    expect(lost.kind).toBe("lost");
    expect(await db.select().from(payments)).toMatchObject([{ account: "embedded" }]);
  });
});

test("a phase through Drizzle on a pool: its rows and its step are one, and one that lost leaves neither", async () => {
  const fresh = await freshDatabase();
  const pool = openPool(fresh.url, { max: 4 });
  await migratePostgres(pool);
  await pool.query(paymentsTable);
  const db = drizzle(pool);
  const store = postgresStore({ pool, transactions: drizzleTransactions({ db }) });
  const record = await begin(store);
  const pay = (name: string, isolation: "repeatable read" | null) =>
    supportOf(store).phase({ owner: ownerOf(record), isolation, idleLimitMs: 30_000 }, async ({ tx }) => {
      await tx.insert(payments).values({ account: name });
      return phaseEnd(name);
    });
  expect((await pay("one", null)).kind).toBe("committed");
  expect((await pay("two", "repeatable read")).kind).toBe("committed");
  expect((await pay("two", null)).kind, "a step is written once").toBe("refused");
  await store.end(record, record.id, record.fence, {
    event: "retry_later",
    errorCode: "x",
    resumeAfterMs: null,
  });
  expect((await pay("three", null)).kind).toBe("lost");
  expect(await db.select().from(payments)).toMatchObject([{ account: "one" }, { account: "two" }]);
  expect((await store.journal.read(record, record.id))?.steps.map(({ name }) => name).sort()).toEqual([
    "one",
    "two",
  ]);
  await store.close();
  await expectNoLeak(pool);
  await pool.end();
  await fresh.drop();
});
