import type pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { guardOf } from "../../packages/latchkey/src/engine/record.ts";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { newKey, newLife, request, supportOf, terms, writing } from "./arrange.ts";
import { migratedDatabase, openPool } from "./harness.ts";
import { claim, delivered, enqueuing, leaseMs, newEffect, outboxOf } from "./outbox-arrange.ts";
import { begin, completing, input, intent, isolationLevels, ownerOf, writingPhase } from "./owned.ts";

/** Enough that a reply never slips between two writes of one flight. */
const replyDelayMs = 5;

describe.each(postgresVersions())("round trips on PostgreSQL %i", (version) => {
  let url: string;
  let proxy: TcpProxy;

  beforeAll(async () => {
    const direct = await migratedDatabase(version);
    proxy = await startProxy({ to: { port: Number(new URL(direct).port) } });
    url = proxy.url(direct);
  });

  async function flightsOf(act: () => Promise<unknown>): Promise<number> {
    proxy.delay({ down: replyDelayMs });
    const { flights } = proxy.counts();
    await act();
    const after = proxy.counts().flights;
    await proxy.pass();
    return after - flights;
  }

  /** The same work as anybody would write it by hand. */
  async function byHand(pool: pg.Pool, statements: number) {
    const client = await pool.connect();
    await client.query("begin");
    for (let count = 0; count < statements; count++) {
      await client.query("insert into business values ($1)", ["by hand"]);
    }
    await client.query("commit");
    client.release();
  }

  test.each([
    { pipeline: false, named: true },
    { pipeline: true, named: true },
    { pipeline: false, named: false },
  ])("a protected transaction takes as many as BEGIN … COMMIT by hand (%o)", async ({ pipeline, named }) => {
    const pool = openPool(url, { max: 2, pipeline });
    const store = postgresStore({ pool, namedStatements: named });
    await writing(store, newLife(newKey()));
    for (const statements of [1, 3]) {
      const protectedFlights = await flightsOf(async () => {
        const outcome = await writing(store, newLife(newKey()), async ({ tx }) => {
          for (let count = 1; count < statements; count++) {
            await tx.query("insert into business values ($1)", ["more"]);
          }
        });
        expect(outcome.kind).toBe("committed");
      });
      expect(protectedFlights).toBe(statements + 2);
      expect(await flightsOf(() => byHand(pool, statements))).toBe(protectedFlights);
    }
    await pool.end();
  });

  test("a savepoint and its undoing cost nothing more", async () => {
    const pool = openPool(url, { max: 2 });
    const store = postgresStore({ pool });
    await writing(store, newLife(newKey()));
    const flights = await flightsOf(() => writing(store, newLife(newKey()), undefined, { savepoint: true }));
    expect(flights).toBe(3);
    await pool.end();
  });

  test("effects cost no round trip: in a transaction, in a phase, and at the end of a delivery", async () => {
    const pool = openPool(url, { max: 3 });
    const store = postgresStore({ pool });
    await enqueuing(store, [newEffect(), newEffect()]);
    expect(await flightsOf(() => enqueuing(store, [newEffect(), newEffect({ index: 1 })]))).toBe(3);
    expect(await flightsOf(() => enqueuing(store, []))).toBe(3);

    const owner = ownerOf(await begin(store));
    const effects = [newEffect({ step: "one" })];
    await writingPhase(store, owner, { name: "first", end: { effects } });
    const phase = () =>
      writingPhase(store, owner, { name: "one", end: { effects: [newEffect({ step: "one" })] } });
    expect(await flightsOf(phase)).toBe(3);

    const outbox = outboxOf(store);
    const claimed = await claim(store);
    expect(claimed).toHaveLength(6);
    expect(await flightsOf(() => outbox.start(claimed, leaseMs)), "many starts").toBe(1);
    const [first, ...others] = claimed;
    if (first === undefined) throw new Error("some were claimed");
    const deliver = () =>
      supportOf(store).deliver(
        { claim: first, tenant: first.tenant, idleLimitMs: 30_000, keepMs: 1_000 },
        async ({ tx }) => {
          await tx.query("insert into business values ('delivered')");
          return { end: "commit", value: "value", answers: null };
        },
      );
    expect(await flightsOf(deliver)).toBe(3);
    expect(await flightsOf(() => outbox.end(others.map((one) => delivered(one)))), "many ends").toBe(1);
    await store.close();
    await pool.end();
  });

  test("a replay, a duplicate and each step of a lease", async () => {
    const pool = openPool(url, { max: 4 });
    const store = postgresStore({ pool });
    const life = newLife(newKey());
    await writing(store, life);
    const replay = () =>
      supportOf(store).run(request(life), async ({ reading }) => ({ end: "rollback", value: reading }));
    expect(await flightsOf(replay), "BEGIN with the look-up, ROLLBACK").toBe(2);
    expect(await flightsOf(() => store.read(life))).toBe(1);

    const held = await store.create(newLife(newKey()), null, terms);
    expect(held, "takes the connection for heartbeats").not.toBeNull();
    const key = newKey();
    const leased = newLife(key);
    expect(await flightsOf(() => store.create(leased, null, terms))).toBe(1);
    expect(await flightsOf(() => store.create(newLife(key), null, terms))).toBe(1);
    await store.renew(key, leased.id, leased.fence, 60_000);
    expect(await flightsOf(() => store.renew(key, leased.id, leased.fence, 60_000))).toBe(1);
    const { record } = await store.read(key);
    if (record === null) throw new Error("the record must be there");
    expect(await flightsOf(() => store.giveUp(key, guardOf(record), "x", null))).toBe(1);
    const retry = { event: "retry_later", errorCode: "x", resumeAfterMs: null } as const;
    expect(await flightsOf(() => store.end(key, leased.id, leased.fence, retry))).toBe(1);
    await store.close();
    await pool.end();
  });

  test("a replay of a key that the process has seen finished takes one flight", async () => {
    const pool = openPool(url, { max: 2 });
    const processes = [1, 2].map(() => {
      const latchkey = createLatchkey({ store: postgresStore({ pool }) });
      return { latchkey, operation: latchkey.operation("seen", { writes: "none" }) };
    });
    const tenant = newKey().tenant;
    const run = (index: number, key: string) => async () => {
      const { latchkey, operation } = processes[index] ?? expect.unreachable();
      return latchkey.run(operation, { tenant, key, input: 1 }, async () => "done");
    };
    await run(0, "warm")();
    await run(1, "warm")();
    expect(await flightsOf(run(0, "k")), "BEGIN with the look-up, COMMIT with the record").toBe(2);
    expect(await flightsOf(run(0, "k")), "the record").toBe(1);
    expect(await flightsOf(run(1, "k")), "BEGIN with the look-up, ROLLBACK").toBe(2);
    expect(await flightsOf(run(1, "k")), "the record").toBe(1);
    expect(await run(1, "k")()).toMatchObject({ kind: "replay", value: "done" });
    await pool.end();
  });

  test.each(isolationLevels)("a phase at %s takes as many as BEGIN … COMMIT by hand", async (isolation) => {
    const pool = openPool(url, { max: 3 });
    const store = postgresStore({ pool });
    const owner = ownerOf(await begin(store));
    await writingPhase(store, owner, { name: "first", isolation });
    for (const statements of [1, 3]) {
      const flights = await flightsOf(async () => {
        const name = `with ${statements}`;
        const outcome = await writingPhase(store, owner, { name, isolation }, async ({ tx }) => {
          for (let count = 1; count < statements; count++) {
            await tx.query("insert into business values ($1)", ["more"]);
          }
        });
        expect(outcome.kind).toBe("committed");
      });
      expect(flights).toBe(statements + 2);
    }
    const last = await flightsOf(() =>
      writingPhase(store, owner, { name: "last", isolation, end: completing }),
    );
    expect(last, "the lease of a phase above READ COMMITTED is deleted after it").toBe(
      isolation === "read committed" ? 3 : 4,
    );
    await store.close();
    await pool.end();
  });

  test("a call takes two writes around its send", async () => {
    const pool = openPool(url, { max: 3 });
    const store = postgresStore({ pool });
    const owner = ownerOf(await begin(store));
    const [name, generation, result] = ["charge", 0, input];
    expect(await flightsOf(() => store.journal.startCall(owner, intent(name)))).toBe(1);
    const end = { event: "finish", result } as const;
    expect(await flightsOf(() => store.journal.endCall(owner, { name, generation }, end))).toBe(1);
    expect(await flightsOf(() => store.journal.read(owner.key, owner.id))).toBe(1);
    await store.close();
    await pool.end();
  });

  test("a refence takes one flight", async () => {
    const pool = openPool(url, { max: 3 });
    const store = postgresStore({ pool });
    const owner = ownerOf(await begin(store));
    expect(await flightsOf(() => store.journal.refence(owner, "c".repeat(32), 60_000, 5_000))).toBe(1);
    await store.close();
    await pool.end();
  });

  test("one transaction leaves one row version", async () => {
    const pool = openPool(url, { max: 2 });
    const store = postgresStore({ pool });
    const life = newLife(newKey());
    await writing(store, life);
    const { rows } = await pool.query<{ xmin: string; ctid: string; commits: number }>(
      `select r.xmin::text, (select count(distinct b.xmin::text)::int from business b where b.row = r.key) as commits
       from latchkey.records r where r.key = $1 and exists (
         select from business b where b.row = r.key and b.xmin = r.xmin)`,
      [life.key],
    );
    expect(rows, "the record and the business row carry the same transaction").toHaveLength(1);
    await pool.end();
  });
});
