import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Guard, RecordKey } from "../../packages/latchkey/src/engine/record.ts";
import { sql } from "../../packages/latchkey/src/stores/postgres/sql/texts.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { emptyTables } from "../support/empty-tables.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { within } from "../support/until.ts";
import { onlyShortCheck } from "../support/whole-shapes.ts";
import { answer, newKey, newLife, retention, terms } from "./arrange.ts";
import { expectNoLeak, migratedDatabase, openPool, type TestTx } from "./harness.ts";
import { begin, beginUnknown, input, intent, note, ownerOf, writingPhase } from "./owned.ts";

const operations = ["orders.create"];
const notExecuted = {
  event: "settle_not_executed",
  calls: "may-repeat",
  reopen: null,
  resumeAfterMs: 0,
} as const;
const completed = { event: "settle_completed", answer, retention } as const;
const charged = {
  event: "settle_call",
  call: "charge",
  generation: 0,
  result: input,
  resumeAfterMs: 0,
} as const;

describe.each(postgresVersions())("settling on PostgreSQL %i", (version) => {
  let observer: pg.Pool;
  let pool: pg.Pool;
  let store: PostgresStore<TestTx>;
  let other: PostgresStore<TestTx>;

  beforeAll(async () => {
    observer = openPool(await migratedDatabase(version));
  });

  beforeEach(async () => {
    await observer.query(emptyTables);
    pool = openPool(String(observer.options.connectionString), { max: 8 });
    [store, other] = [postgresStore({ pool }), postgresStore({ pool })];
    return async () => {
      await store.close();
      await other.close();
      await expectNoLeak(pool);
      await pool.end();
    };
  });

  async function stepsLeft(): Promise<number> {
    const { rows } = await observer.query<{ count: number }>(
      "select count(*)::int as count from latchkey.steps",
    );
    return rows[0]?.count ?? -1;
  }

  test("two sessions that claim at once share the records, each taken by one", async () => {
    const made = await Promise.all(Array.from({ length: 12 }, () => beginUnknown(store)));
    for (let round = 0; round < 6; round++) {
      const claims = await Promise.all(
        [store, other].map((one) => one.settlement.claimUnknowns(operations, 1, 60_000)),
      );
      const ids = claims.flat().map(({ record }) => record.id);
      expect(new Set(ids).size).toBe(ids.length);
    }
    const rest = await store.settlement.claimUnknowns(operations, 100, 60_000);
    const { rows } = await observer.query<{ tries: number }>(
      "select reconcile_tries as tries from latchkey.records",
    );
    expect(rows.map(({ tries }) => tries)).toEqual(made.map(() => 1));
    expect(rest.every(({ tries }) => tries === 1)).toBe(true);
    expect(await store.settlement.claimUnknowns(operations, 100, 60_000)).toEqual([]);
  });

  test("a record that somebody is changing is skipped, and the next one claimed in its place", async () => {
    const first = await beginUnknown(store);
    const second = await beginUnknown(store);
    const busy = await observer.connect();
    await busy.query("begin");
    await busy.query("select 1 from latchkey.records where id = $1 for update", [first.owner.id]);
    const claim = within(store.settlement.claimUnknowns(operations, 1, 60_000), "it does not wait", 5_000);
    expect((await claim).map(({ record }) => record.id)).toEqual([second.owner.id]);
    await busy.query("rollback");
    busy.release();
  });

  test("a settlement waits for a claim under way, and wins", async () => {
    const { owner, guard } = await beginUnknown(store);
    const busy = await observer.connect();
    await busy.query("begin");
    await busy.query("update latchkey.records set reconcile_tries = 1 where id = $1", [owner.id]);
    const settled = store.settlement.settle(owner.key, guard, completed, note());
    await busy.query("commit");
    busy.release();
    expect(await settled).toBe(true);
  });

  test("of many settlements of one record exactly one is written, with its audit row", async () => {
    for (let round = 0; round < 20; round++) {
      const { owner, guard } = await beginUnknown(store);
      const settle = (
        one: PostgresStore<TestTx>,
        what: Parameters<typeof one.settlement.settle>[2],
        actor: string,
      ) => one.settlement.settle(owner.key, guard, what, note(actor));
      const results = await Promise.all([
        settle(store, charged, "owner"),
        settle(other, notExecuted, "outcome-reconciler"),
        settle(store, completed, "operator"),
        settle(other, charged, "outcome-reconciler"),
      ]);
      expect(results.filter((one) => one)).toHaveLength(1);
      const entries = await store.settlement.audit(owner.key);
      expect(entries).toHaveLength(1);
      const journal = await store.journal.read(owner.key, owner.id);
      const state = entries[0]?.event === "settle_call" ? "finished" : "started";
      expect(journal?.steps, "what lost has changed no step").toMatchObject([{ state }]);
      expect(journal?.recoveryPoint).toBe(state === "finished" ? "charge" : null);
      expect((await store.read(owner.key)).record?.state).toBe(entries[0]?.to);
    }
  });

  test("the same settlement twice at once: one audit row, and both hear that it is done", async () => {
    for (let round = 0; round < 20; round++) {
      const { owner, guard } = await beginUnknown(store);
      const same = note();
      const results = await Promise.all(
        [store, other].map((one) => one.settlement.settle(owner.key, guard, charged, same)),
      );
      expect(results).toEqual([true, true]);
      expect(await store.settlement.audit(owner.key)).toHaveLength(1);
    }
  });

  test("an audit row that cannot be written undoes its settlement", async () => {
    const [one, two] = [await beginUnknown(store), await beginUnknown(store)];
    const same = note();
    expect(await store.settlement.settle(one.owner.key, one.guard, charged, same)).toBe(true);
    const clash = store.settlement.settle(two.owner.key, two.guard, charged, same);
    await expect(clash).rejects.toMatchObject({ code: "store-unavailable", certainty: "rolled_back" });
    expect((await store.read(two.owner.key)).record?.state).toBe("unknown");
    expect((await store.journal.read(two.owner.key, two.owner.id))?.steps).toMatchObject([
      { state: "started" },
    ]);
  });

  test("after a settlement exactly one of many takes over, and resumes after what was settled", async () => {
    const { owner, guard } = await beginUnknown(store);
    await store.settlement.settle(owner.key, guard, charged, note());
    const [found] = await store.settlement.resumable(operations, 10);
    if (found === undefined) throw new Error("it must be resumable");
    const retryable: Guard = { id: owner.id, state: "retryable", fence: owner.fence };
    const taken = await Promise.all(
      ["a", "b", "c", "d"].map((token) =>
        (token < "c" ? store : other).takeOver(
          owner.key,
          retryable,
          found.fingerprint,
          token.repeat(32),
          terms,
        ),
      ),
    );
    expect(taken.filter((record) => record !== null)).toHaveLength(1);
    expect(await store.journal.read(owner.key, owner.id)).toMatchObject({ recoveryPoint: "charge", input });
    expect(await other.settlement.settle(owner.key, guard, completed, note())).toBe(false);
  });

  test("an owner's late write and a settlement: the fence of a record that was taken over settles nothing", async () => {
    const { owner, guard } = await beginUnknown(store);
    expect(await store.journal.startCall(owner, intent("charge"))).toBeNull();
    const end = { event: "finish", result: input } as const;
    expect(await store.journal.endCall(owner, { name: "charge", generation: 0 }, end)).toBe(false);
    expect((await writingPhase(store, owner)).kind).toBe("lost");
    const foreign: Guard = { ...guard, fence: { attempt: 1, token: "f".repeat(32) } };
    expect(await store.settlement.settle(owner.key, foreign, charged, note())).toBe(false);
  });

  test("the end of a call that had to wait for its own first try gets the reply that it is done", async () => {
    const owner = ownerOf(await begin(store));
    await store.journal.startCall(owner, intent("charge"));
    const end = { event: "finish", result: input } as const;
    for (let round = 0; round < 10; round++) {
      const ends = [store, other].map((one) =>
        one.journal.endCall(owner, { name: "charge", generation: 0 }, end),
      );
      expect(await Promise.all(ends)).toEqual([true, true]);
    }
  });

  test("an intent that had to wait for its own first try counts both", async () => {
    const owner = ownerOf(await begin(store));
    const same = intent("charge");
    const started = await Promise.all([store, other].map((one) => one.journal.startCall(owner, same)));
    expect(started.map((one) => one?.step.sends).sort()).toEqual([1, 2]);
  });

  test("steps go with their records, however these go", async () => {
    const step = async (key: RecordKey) => {
      const owner = ownerOf(await begin(store, {}, key));
      await store.journal.startCall(owner, intent("charge"));
      await writingPhase(store, owner);
      return owner;
    };
    const gone = { retentionMs: 0, forgetAfterMs: 0 };
    const end = { event: "complete", answer, retention: gone, errorCode: null } as const;
    const released = await step(newKey());
    await store.end(released.key, released.id, released.fence, { event: "release" });
    expect(await stepsLeft()).toBe(0);
    const forgotten = await step(newKey());
    await store.end(forgotten.key, forgotten.id, forgotten.fence, end);
    expect(await stepsLeft()).toBe(2);
    expect((await store.clean(10)).forgotten).toBe(1);
    expect(await stepsLeft()).toBe(0);
    const replaced = await step(newKey());
    await store.end(replaced.key, replaced.id, replaced.fence, end);
    const guard: Guard = { id: replaced.id, state: "completed", fence: replaced.fence };
    expect(await store.create(newLife(replaced.key), guard, terms)).not.toBeNull();
    expect(await stepsLeft()).toBe(0);
  });
});

describe("what a record may be", () => {
  const insert = `insert into latchkey.records (tenant, scope, key, id, operation, state, fingerprint_version, fingerprint,
    attempt, token, input, answer, created_at, finished_at, expires_at, forget_at, reconcile_after)
    values ('t', 's', $1, gen_random_uuid(), 'o', $2, 1, '', 1, gen_random_uuid(), $3, $4, now(), $5, $6, $7, $8)`;
  const [bytes, time] = [Buffer.from("x"), new Date()];

  test.each([
    ["pending", { input: bytes, expires: time }, "fits"],
    ["pending", { expires: time, reconcile: time }, "found"],
    ["in_progress", { input: bytes, expires: time }, "fits"],
    ["in_progress", { expires: time, reconcile: time }, "found"],
    ["retryable", { input: bytes }, "fits"],
    ["retryable", { input: bytes, reconcile: time }, "fits"],
    ["retryable", { input: bytes, expires: time }, "found"],
    ["unknown", { input: bytes, reconcile: time }, "fits"],
    ["unknown", { input: bytes, answer: bytes }, "found"],
    ["completed", { answer: bytes, finished: time, expires: time, forget: time }, "fits"],
    ["completed", { answer: bytes, finished: time, expires: time, forget: time, input: bytes }, "found"],
    ["completed", { answer: bytes, finished: time, expires: time, forget: time, reconcile: time }, "found"],
    ["failed", { finished: time, expires: time, forget: time }, "fits"],
    ["failed", { finished: time, expires: time, forget: time, input: bytes }, "found"],
    ["failed", { finished: time, expires: time, forget: time, reconcile: time }, "found"],
    ["expired", { finished: time, forget: time }, "fits"],
    ["expired", { finished: time, forget: time, input: bytes }, "found"],
    ["expired", { finished: time, forget: time, reconcile: time }, "found"],
    ["in_progress", { expires: time, forget: time }, "refused"],
    ["unknown", { forget: time }, "refused"],
    ["completed", { finished: time, expires: time, forget: time }, "refused"],
    ["completed", { answer: bytes, finished: time, expires: time }, "refused"],
    ["failed", { finished: time, expires: time }, "refused"],
    ["expired", { answer: bytes, finished: time, forget: time }, "refused"],
    ["settled", { answer: bytes, finished: time, expires: time, forget: time }, "refused"],
  ] as const)("%s %o: %s", async (state, row, verdict) => {
    const own = openPool(await database());
    const { input, answer, finished, expires, forget, reconcile }: Shape = row;
    const values = [newKey().key, state, input, answer, finished, expires, forget, reconcile];
    const client = await own.connect();
    const write = () =>
      client.query(
        insert,
        values.map((value) => value ?? null),
      );
    await client.query("begin");
    // So no statement that ran in these tests has written such a row.
    if (verdict !== "fits") {
      await client.query("savepoint whole");
      await expect(write()).rejects.toMatchObject({ code: "23514" });
      await client.query("rollback to whole");
    }
    await client.query(onlyShortCheck);
    if (verdict === "refused") {
      await expect(write(), "nor can anybody").rejects.toMatchObject({ constraint: "records_state" });
    } else {
      await write();
      const { rows } = await client.query(sql.examineShapes);
      expect(rows).toMatchObject([{ looked_at: 1, wrong: verdict === "fits" ? 0 : 1 }]);
    }
    await client.query("rollback");
    client.release();
    await own.end();
  });

  interface Shape {
    readonly input?: Buffer;
    readonly answer?: Buffer;
    readonly finished?: Date;
    readonly expires?: Date;
    readonly forget?: Date;
    readonly reconcile?: Date;
  }

  let made: Promise<string> | undefined;
  function database(): Promise<string> {
    made ??= migratedDatabase();
    return made;
  }
});
