/** Facts are for people who look, so keeping them must not wait for anybody. */
import { beforeAll, expect, test } from "vitest";
import type { RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import type { FactGroup } from "../../packages/latchkey/src/stores/facts.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { within } from "../support/until.ts";
import { expectNoLeak, migratedDatabase, openPool } from "./harness.ts";
import { begin, ownerOf } from "./owned.ts";

let url = "";
beforeAll(async () => {
  url = await migratedDatabase();
});

const repeatOf = (key: RecordKey): FactGroup => ({
  key,
  recordId: null,
  kind: "repeat",
  count: 1,
  facts: [{ what: "in_progress", because: null, traceId: null, agoMs: 0 }],
});

test("a record that another transaction has locked is passed over, and those of the others are kept", async () => {
  const pool = openPool(url);
  const store = postgresStore({ pool });
  const { facts } = store;
  if (facts === undefined) throw new Error("Postgres keeps facts");
  const [locked, free] = [ownerOf(await begin(store)), ownerOf(await begin(store))];
  const other = await pool.connect();
  try {
    await other.query("begin");
    await other.query("select 1 from latchkey.records where id = $1 for update", [locked.id]);
    await within(facts.keep([repeatOf(locked.key), repeatOf(free.key)]), "it waits for no lock");
    expect(await facts.of(free.key, free.id)).toMatchObject([{ kind: "repeat", count: 1 }]);
    expect(await facts.of(locked.key, locked.id)).toEqual([]);
  } finally {
    await other.query("rollback");
    other.release();
  }
  await facts.keep([repeatOf(locked.key)]);
  expect(await facts.of(locked.key, locked.id)).toMatchObject([{ kind: "repeat", count: 1 }]);
  await store.close();
  await expectNoLeak(pool);
});
