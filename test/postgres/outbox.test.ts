/** What only a real server can show of the outbox: order of commits, locks, lost replies, rows that refuse. */
import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { outboxStatements } from "../../packages/latchkey/src/stores/postgres/outbox/outbox-statements.ts";
import { defaultTimeFunction } from "../../packages/latchkey/src/stores/postgres/statements/names.ts";
import { type PostgresStore, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { emptyTables } from "../support/empty-tables.ts";
import { isCommit, isCommitReply } from "../support/postgres-messages.ts";
import { postgresVersions } from "../support/shared-postgres.ts";
import { startProxy } from "../support/tcp-proxy.ts";
import { backendPid, deferred, untilBlocked } from "../support/until.ts";
import { countRows, newKey, newLife, request, supportOf, terms } from "./arrange.ts";
import { endlessMs, expectNoLeak, migratedDatabase, openPool, patientClock, type TestTx } from "./harness.ts";
import {
  claim,
  claimOf,
  delivered,
  enqueuing,
  idsOf,
  leaseMs,
  newEffect,
  outboxOf,
  removed,
  result,
} from "./outbox-arrange.ts";
import { begin, completing, isolationLevels, ownerOf, writingPhase } from "./owned.ts";

const names = {
  records: "latchkey.records",
  leases: "latchkey.leases",
  steps: "latchkey.steps",
  outbox: "latchkey.outbox",
  messages: "latchkey.messages",
  audit: "latchkey.audit",
  early: "latchkey.early",
  facts: "latchkey.facts",
  settings: "latchkey.settings",
  clock: defaultTimeFunction,
  synced: true,
  serverLimits: true,
};

interface Explained {
  readonly "QUERY PLAN": readonly { readonly Plan: Readonly<Record<string, unknown>> }[];
}

describe.each(postgresVersions())("the outbox on PostgreSQL %i", (version) => {
  let url: string;
  let observer: pg.Pool;
  let pool: pg.Pool;
  let store: PostgresStore<TestTx>;
  let second: PostgresStore<TestTx>;

  beforeAll(async () => {
    url = await migratedDatabase(version);
    observer = openPool(url);
  });

  beforeEach(async () => {
    await observer.query(emptyTables);
    pool = openPool(url, { max: 8 });
    [store, second] = [postgresStore({ pool }), postgresStore({ pool })];
    return async () => {
      await store.close();
      await expectNoLeak(pool);
      await pool.end();
    };
  });

  test("every write of a page is on disk before it is acknowledged, where the session has synchronous_commit off", async () => {
    await enqueuing(
      store,
      [0, 1, 2, 3].map((index) => newEffect({ index })),
    );
    await observer.query(`
      create table if not exists public.seen (value text);
      create or replace function public.see() returns trigger language plpgsql as
        $$ begin insert into public.seen values (coalesce(new.state, 'removed') || ' ' || current_setting('synchronous_commit')); return null; end $$;
      create constraint trigger see after update or delete on latchkey.outbox
        deferrable initially deferred for each row execute function public.see()`);
    const lax = openPool(url, { max: 4, options: "-c synchronous_commit=off" });
    const laxStore = postgresStore({ pool: lax });
    const [one, two, three, four] = await claim(laxStore);
    if (one === undefined || two === undefined || three === undefined || four === undefined)
      throw new Error("four are due");
    await outboxOf(laxStore).start([one, two, three].map(claimOf), leaseMs);
    await outboxOf(laxStore).end([delivered(one), delivered(two)]);
    await outboxOf(laxStore).end([{ ...claimOf(three), event: "die", errorCode: "test", returned: true }]);
    await outboxOf(laxStore).end([removed(four)]);
    await laxStore.close();
    await lax.end();
    const { rows } = await observer.query<{ value: string }>("select value from public.seen");
    await observer.query("drop trigger see on latchkey.outbox; drop table public.seen");
    const written = [...new Array<string>(7).fill("claimed"), "delivered", "delivered", "dead", "removed"];
    expect(rows.map(({ value }) => value)).toEqual(written.map((state) => `${state} on`));
  });

  test("a delivery of which nothing is kept removes its row, under its claim alone", async () => {
    await enqueuing(
      store,
      [0, 1].map((index) => newEffect({ index })),
    );
    const [mine, lost] = await claim(store);
    if (mine === undefined || lost === undefined) throw new Error("two are due");
    const others = { ...lost, fence: { ...lost.fence, token: systemPorts.random.token() } };
    const stale = { ...lost, fence: { ...lost.fence, attempt: lost.fence.attempt + 1 } };
    expect(await outboxOf(store).end([removed(others)])).toEqual([]);
    expect(await outboxOf(store).end([removed(stale)])).toEqual([]);
    expect(await outboxOf(store).end([removed(mine)])).toEqual([mine.id]);
    expect(await outboxOf(store).end([removed(mine)])).toEqual([]);
    expect(idsOf(await outboxOf(store).ofRecord(lost.recordId))).toEqual([lost.id]);
    await outboxOf(store).end([{ ...claimOf(lost), event: "give_back" }]);
    expect(await outboxOf(store).end([removed(lost)])).toEqual([]);
    expect(await count()).toBe(1);
  });

  test("deliveries of which some are kept end together", async () => {
    await enqueuing(
      store,
      [0, 1].map((index) => newEffect({ index })),
    );
    const [kept, other] = await claim(store);
    if (kept === undefined || other === undefined) throw new Error("two are due");
    const ended = await outboxOf(store).end([delivered(kept), removed(other)]);
    expect([...ended].sort()).toEqual([kept.id, other.id].sort());
    expect(await store.clean(10)).toMatchObject({ effects: 1 });
    expect(idsOf(await outboxOf(store).ofRecord(kept.recordId))).toEqual([kept.id]);
  });

  async function count(): Promise<number> {
    const { rows } = await observer.query<{ count: number }>(
      "select count(*)::int as count from latchkey.outbox",
    );
    return rows[0]?.count ?? 0;
  }

  async function endLeases(): Promise<void> {
    await observer.query(
      "update latchkey.outbox set locked_until = now() - interval '1 second' where state = 'claimed'",
    );
  }

  /** Many are due at one time where they were written at once. */
  async function spreadDueTimes(): Promise<void> {
    await observer.query(
      "update latchkey.outbox set available_at = now() - (1000 - index) * interval '1 second'",
    );
  }

  test("an effect whose transaction commits late is delivered, although later ones were before", async () => {
    const inserted = deferred<number>();
    const blocker = await observer.connect();
    await blocker.query("begin; lock table latchkey.records in share mode");
    const late = newEffect();
    const running = enqueuing(store, [late], async ({ tx }) => inserted.resolve(await backendPid(tx)));
    await untilBlocked(url, await inserted.promise);
    const early = newEffect();
    await observer.query(
      `insert into latchkey.outbox (id, aggregatetype, aggregateid, type, payload, tenant, scope, key, record_id,
         fingerprint, step, index, downstream_key, ordered, available_at, created_at)
       values ($1, 'send', 'x', 'o', '', 't', 's', 'k', gen_random_uuid(), '', '', 0, 'x', false, now(), now())`,
      [early.id],
    );
    const [first] = await claim(second, 1);
    expect(first?.id).toBe(early.id);
    await outboxOf(second).end(first === undefined ? [] : [delivered(first)]);
    await blocker.query("rollback");
    blocker.release();
    expect((await running).kind).toBe("committed");
    const { rows } = await observer.query<{ id: string }>("select id from latchkey.outbox order by position");
    expect(
      rows.map(({ id }) => id),
      "the late one has the lower position",
    ).toEqual([late.id, early.id]);
    expect(idsOf(await claim(second, 1))).toEqual([late.id]);
  });

  test("has the columns that Debezium's outbox event router reads", async () => {
    const own = newEffect({ aggregate: "order-7", ordered: true });
    const alone = newEffect({ effect: "notify" });
    const life = newLife(newKey());
    await enqueuing(store, [own, alone], async () => {}, life);
    const { rows } = await observer.query(
      "select id, aggregatetype, aggregateid, type, payload from latchkey.outbox order by position",
    );
    const row = ({ id, effect, input }: typeof own, aggregateid: string) => ({
      ...{ id, aggregatetype: effect, aggregateid, type: life.operation },
      payload: Buffer.from(input),
    });
    expect(rows).toEqual([row(own, "order-7"), row(alone, alone.downstreamKey)]);
  });

  test("four claimers at once get every effect once", async () => {
    const effects = Array.from({ length: 60 }, (_, index) => newEffect({ index }));
    await enqueuing(store, effects);
    const stores = Array.from({ length: 4 }, () => postgresStore({ pool }));
    const claimed: string[] = [];
    const drain = async (own: PostgresStore<TestTx>) => {
      for (let empty = 0; empty < 3; ) {
        const page = await claim(own, 7);
        claimed.push(...idsOf(page));
        empty = page.length === 0 ? empty + 1 : 0;
      }
    };
    await Promise.all(stores.map(drain));
    expect(claimed.sort()).toEqual(idsOf(effects).sort());
  });

  test("of an ordered aggregate two claimers have one effect at a time, in order", async () => {
    const aggregates = ["a", "b", "c"];
    for (let index = 0; index < 4; index++) {
      await enqueuing(
        store,
        aggregates.map((aggregate) =>
          newEffect({ aggregate, ordered: true, downstreamKey: `${aggregate}${index}` }),
        ),
      );
    }
    const seen: string[] = [];
    let underWay = 0;
    const drain = async (own: PostgresStore<TestTx>) => {
      while (seen.length < 12) {
        const page = await claim(own, 2);
        underWay += page.length;
        expect(underWay).toBeLessThanOrEqual(aggregates.length);
        seen.push(...page.map(({ downstreamKey }) => downstreamKey));
        underWay -= page.length;
        await outboxOf(own).end(page.map((effect) => delivered(effect)));
      }
    };
    await Promise.all([drain(store), drain(second)]);
    for (const aggregate of aggregates) {
      expect(seen.filter((key) => key.startsWith(aggregate))).toEqual(
        [0, 1, 2, 3].map((n) => `${aggregate}${n}`),
      );
    }
  });

  test("a late commit before what is under way in its aggregate waits for that", async () => {
    const late = newEffect({ aggregate: "a", ordered: true, downstreamKey: "late" });
    await enqueuing(store, [newEffect({ aggregate: "a", ordered: true })]);
    const [under] = await claim(second);
    await enqueuing(store, [late]);
    // As if its transaction had begun first and committed last.
    await observer.query("alter table latchkey.outbox alter column position set generated by default");
    await observer.query("update latchkey.outbox set position = 0 where downstream_key = 'late'");
    await observer.query("alter table latchkey.outbox alter column position set generated always");
    expect(await claim(store)).toEqual([]);
    await outboxOf(second).end(under === undefined ? [] : [delivered(under)]);
    expect(idsOf(await claim(store))).toEqual([late.id]);
  });

  test.each([
    ["one dead head", 20_000, 1],
    ["many aggregates, each with a dead head", 2_000, 200],
  ])("a claim does not walk over what is queued behind %s", async (_, count, aggregates) => {
    await observer.query(
      `insert into latchkey.outbox (id, aggregatetype, aggregateid, aggregate, type, payload, tenant, scope, key, record_id,
         fingerprint, step, index, downstream_key, ordered, state, available_at, created_at, finished_at)
       select gen_random_uuid(), 'send', 'a' || n % $2::int, 'a' || n % $2::int, 'o', '', 't', 's', 'k', gen_random_uuid(),
         '', '', 0, n::text, true, case when n < $2::int then 'dead' else 'pending' end, now(), now(),
         case when n < $2::int then now() end
       from generate_series(0, $1::int - 1) n`,
      [count, aggregates],
    );
    await observer.query("analyze latchkey.outbox");
    const free = newEffect({ aggregate: "b", ordered: true });
    await enqueuing(store, [free, newEffect()]);
    const { text, values } = outboxStatements(names).claimEffects.bind({
      ...{ wants: JSON.stringify([{ effect: "send", room: 100 }]), quarantined: "[]", starting: "[]" },
      ...{ token: systemPorts.random.token(), lease_ms: leaseMs },
    });
    const { rows } = await observer.query<Explained>(`explain (analyze, buffers, format json) ${text}`, [
      ...values,
    ]);
    const plan = rows[0]?.["QUERY PLAN"][0]?.Plan ?? {};
    expect(plan["Actual Rows"]).toBe(2);
    const blocks = Number(plan["Shared Hit Blocks"]) + Number(plan["Shared Read Blocks"]);
    expect(blocks).toBeLessThan(aggregates * 10 + 200);
  });

  test("what becomes due behind the place where claims begin is found within a second of full claims", async () => {
    let nowMs = 0;
    const ports = { clock: { ...systemPorts.clock, monotonicMs: () => nowMs } };
    const own = postgresStore({ pool, ports });
    await enqueuing(
      store,
      Array.from({ length: 9 }, (_, index) => newEffect({ index })),
    );
    await spreadDueTimes();
    const [behind] = await claim(own, 1);
    await claim(own, 2);
    if (behind === undefined) throw new Error("one was claimed");
    // By another process, so that this one does not know.
    await outboxOf(second).end([{ ...claimOf(behind), event: "give_back" }]);
    expect(idsOf(await claim(own, 2))).not.toContain(behind.id);
    nowMs = 1_000;
    expect(idsOf(await claim(own, 2))).toContain(behind.id);
  });

  test("a claim that finds less than it wants looks behind its place at once", async () => {
    await enqueuing(
      store,
      Array.from({ length: 4 }, (_, index) => newEffect({ index })),
    );
    await spreadDueTimes();
    const [behind] = await claim(store, 1);
    await claim(store, 2);
    if (behind === undefined) throw new Error("one was claimed");
    await outboxOf(second).end([{ ...claimOf(behind), event: "give_back" }]);
    expect(idsOf(await claim(store, 2))).toContain(behind.id);
  });

  test("a rescue skips a row that another transaction is changing, and one whose claim has been ended since", async () => {
    await enqueuing(store, [newEffect()]);
    const [claimed] = await claim(store);
    if (claimed === undefined) throw new Error("it was claimed");
    await endLeases();
    const blocker = await observer.connect();
    await blocker.query("begin");
    await blocker.query("select 1 from latchkey.outbox for update");
    expect(await outboxOf(second).rescue(10), "a row that somebody is changing is skipped").toEqual({
      unstarted: 0,
      started: 0,
    });
    await blocker.query("rollback");
    blocker.release();
    expect(await outboxOf(store).end([delivered(claimed)])).toEqual([claimed.id]);
    expect(await outboxOf(second).rescue(10)).toEqual({ unstarted: 0, started: 0 });
    const [effect] = await outboxOf(store).ofRecord(claimed.recordId);
    expect(effect?.state).toBe("delivered");
  });

  test("a claim older than the place where rescues begin is found by the next one from the front", async () => {
    let nowMs = 0;
    const ports = { clock: { ...systemPorts.clock, monotonicMs: () => nowMs } };
    const own = outboxOf(postgresStore({ pool, ports }));
    await enqueuing(store, [newEffect(), newEffect()]);
    await claim(store, 1);
    const none = { unstarted: 0, started: 0 };
    expect(await own.rescue(10)).toEqual(none);
    await claim(store, 1);
    await endLeases();
    expect(await own.rescue(10), "claims made since").toEqual({ unstarted: 2, started: 0 });
    await claim(store, 2);
    await observer.query("update latchkey.outbox set claimed_at = claimed_at - interval '1 hour'");
    await endLeases();
    expect(await own.rescue(10)).toEqual(none);
    nowMs = 60_000;
    expect(await own.rescue(10)).toEqual({ unstarted: 2, started: 0 });
  });

  test("an expired claim is fenced: it neither starts, ends nor finishes a delivery", async () => {
    await enqueuing(store, [newEffect()]);
    const [claimed] = await claim(store);
    if (claimed === undefined) throw new Error("it was claimed");
    await endLeases();
    expect(await outboxOf(store).start([claimed], leaseMs)).toEqual([]);
    await outboxOf(second).rescue(10);
    const [again] = await claim(second);
    expect(again?.fence.attempt).toBe(2);
    expect(await outboxOf(store).end([delivered(claimed)])).toEqual([]);
    const row = newKey();
    const finish = supportOf(store).deliver(
      { claim: claimOf(claimed), tenant: claimed.tenant, idleLimitMs: 30_000, keepMs: 1_000 },
      async ({ tx }) => {
        await tx.query("insert into business values ($1)", [row.key]);
        return { end: "commit", value: "value", answers: null };
      },
    );
    expect((await finish).kind).toBe("lost");
    expect(await countRows(observer, row)).toBe(0);
    const [effect] = await outboxOf(store).ofRecord(claimed.recordId);
    expect(effect).toEqual(again);
  });

  test("a delivery that is rescued while its COMMIT is on the way loses, and leaves no row", async () => {
    await enqueuing(store, [newEffect()]);
    const [claimed] = await claim(store);
    if (claimed === undefined) throw new Error("it was claimed");
    const row = newKey();
    const outcome = await supportOf(store).deliver(
      { claim: claimOf(claimed), tenant: claimed.tenant, idleLimitMs: 30_000, keepMs: 1_000 },
      async ({ tx }) => {
        await tx.query("insert into business values ($1)", [row.key]);
        await endLeases();
        await outboxOf(second).rescue(10);
        return { end: "commit", value: "value", answers: null };
      },
    );
    expect(outcome.kind).toBe("lost");
    expect(await countRows(observer, row)).toBe(0);
  });

  describe("is there exactly when its transaction has committed", () => {
    test("not after a rollback, a lost guard, or an error", async () => {
      const life = newLife(newKey());
      const support = supportOf(store);
      await support.run(request(life), async () => ({ end: "rollback", value: "" }));
      const lost = await enqueuing(
        store,
        [newEffect()],
        () => store.create(newLife(life), null, terms),
        life,
      );
      expect(lost.kind).toBe("lost");
      await expect(enqueuing(store, [newEffect()], () => Promise.reject(new Error("no")))).rejects.toThrow(
        "no",
      );
      const twice = newEffect();
      expect((await enqueuing(store, [twice, twice])).kind).toBe("lost");
      expect(await count()).toBe(0);
    });

    test.each([["commit"], ["commit", "begin"]])(
      "nor when the transaction that reached the end is another one (%s %s)",
      async (...ends) => {
        // In pipeline mode our last flight leaves before the server has answered what the handler sent past `tx`.
        const fast = openPool(url, { max: 3, pipeline: true });
        let raw: pg.PoolClient | undefined;
        fast.on("acquire", (client) => {
          raw = client;
        });
        const own = postgresStore({ pool: fast });
        let escaped: Promise<unknown> = Promise.resolve();
        const endPast = async () => {
          escaped = Promise.all(ends.map((end) => raw?.query(end)));
        };
        expect((await enqueuing(own, [newEffect()], endPast)).kind).toBe("changed");
        await escaped;
        expect(await count()).toBe(0);
        await enqueuing(store, [newEffect()]);
        const [claimed] = await claim(store);
        if (claimed === undefined) throw new Error("it was claimed");
        const outcome = await supportOf(own).deliver(
          { claim: claimOf(claimed), tenant: claimed.tenant, idleLimitMs: 30_000, keepMs: 1_000 },
          async () => {
            await endPast();
            return { end: "commit", value: "value", answers: null };
          },
        );
        await escaped;
        expect(outcome.kind).toBe("changed");
        expect((await outboxOf(store).ofRecord(claimed.recordId))[0]?.state).toBe("claimed");
        await fast.end();
      },
    );

    test.each(isolationLevels)(
      "of a phase at %s, with the record's operation and fingerprint",
      async (isolation) => {
        const record = await begin(store);
        const effects = [0, 1, 2].map((index) =>
          newEffect({ step: "one", index, aggregate: index === 1 ? "a" : null }),
        );
        const outcome = await writingPhase(store, ownerOf(record), { isolation, end: { effects } });
        expect(outcome.kind).toBe("committed");
        const last = newEffect({ step: "two" });
        await writingPhase(store, ownerOf(record), {
          name: "two",
          isolation,
          end: { ...completing, effects: [last] },
        });
        const found = await outboxOf(store).ofRecord(record.id);
        expect(idsOf(found)).toEqual(idsOf([...effects, last]));
        for (const effect of found) {
          expect(effect).toMatchObject({
            operation: record.operation,
            fingerprint: record.fingerprint.digest,
          });
        }
        expect(found.map(({ aggregate }) => aggregate)).toEqual([null, "a", null, null]);
        const fenced = { ...ownerOf(record), fence: { attempt: 9, token: "f".repeat(32) } };
        expect(
          (await writingPhase(store, fenced, { name: "three", end: { effects: [newEffect()] } })).kind,
        ).toBe("lost");
        expect(await count()).toBe(4);
      },
    );

    test.each([
      ["whose bytes never arrive", "rolled_back"],
      ["whose reply is lost", "committed"],
    ] as const)("after a COMMIT %s: %s", async (_what, settled) => {
      const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
      const through = openPool(proxy.url(url), { max: 4 });
      const patience = patientClock();
      const own = postgresStore({ pool: through, statementTimeoutMs: endlessMs, ports: patience.ports });
      await enqueuing(own, [newEffect()]);
      const life = newLife(newKey());
      const hold = settled === "committed" ? proxy.holdReplyWhen(isCommitReply) : proxy.holdWhen(isCommit);
      const running = enqueuing(own, [newEffect()], async () => {}, life);
      await hold.held();
      patience.giveUp();
      expect((await running).kind).toBe("in_doubt");
      hold.drop();
      expect(await supportOf(own).resolve(life, life.id, life.fence, 10_000)).toBe(settled);
      const there = settled === "committed" ? 1 : 0;
      expect([(await outboxOf(store).ofRecord(life.id)).length, await countRows(observer, life)]).toEqual([
        there,
        there,
      ]);
      await through.end();
    });
  });

  describe("a row that refuses", () => {
    /** Raises for rows of this downstream key, whatever changes them. */
    async function refusing(key: string, when: string): Promise<void> {
      await observer.query(`
        create or replace function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
        drop trigger if exists refuse on latchkey.outbox;
        create trigger refuse before update on latchkey.outbox for each row
          when (new.downstream_key = '${key}' and ${when}) execute function refuse()`);
    }
    beforeEach(() => () => observer.query("drop trigger if exists refuse on latchkey.outbox"));

    test("to be claimed does not stop the others, and is left alone for a while", async () => {
      const effects = Array.from({ length: 5 }, (_, index) =>
        newEffect({ index, downstreamKey: `key-${index}` }),
      );
      await enqueuing(store, effects);
      await refusing("key-0", "new.state = 'claimed'");
      expect(idsOf(await claim(store, 2))).toEqual([effects[1]?.id]);
      expect(idsOf(await claim(store, 2)), "it takes no place of others").toEqual(idsOf(effects.slice(2, 4)));
      await observer.query("drop trigger refuse on latchkey.outbox");
      expect(idsOf(await claim(second, 9))).toEqual(
        idsOf([effects[0], effects[4]].flatMap((one) => one ?? [])),
      );
    });

    test("to be started or ended does not stop the others", async () => {
      const effects = Array.from({ length: 5 }, (_, index) =>
        newEffect({ index, downstreamKey: `key-${index}` }),
      );
      await enqueuing(store, effects);
      const claimed = await claim(store);
      const others = idsOf(effects).filter((id) => id !== effects[3]?.id);
      await refusing("key-3", "new.started_at is not null");
      expect([...(await outboxOf(store).start(claimed, leaseMs))].sort()).toEqual(others.sort());
      await refusing("key-3", "new.state = 'delivered'");
      expect([...(await outboxOf(store).end(claimed.map((one) => delivered(one))))].sort()).toEqual(others);
      const bad = claimed.find(({ downstreamKey }) => downstreamKey === "key-3");
      if (bad === undefined) throw new Error("it was claimed");
      await expect(outboxOf(store).end([delivered(bad)]), "alone it is reported").rejects.toMatchObject({
        certainty: "rolled_back",
      });
    });

    test("to be rescued does not stop the others, and is freed once it can be", async () => {
      const effects = Array.from({ length: 5 }, (_, index) =>
        newEffect({ index, downstreamKey: `key-${index}` }),
      );
      await enqueuing(store, effects);
      const claimed = await claim(store);
      await outboxOf(store).start(claimed.slice(0, 2), leaseMs);
      // Claimed by one statement at one moment; the order in which they are rescued would be any.
      await observer.query("update latchkey.outbox set claimed_at = claimed_at + index * interval '1 ms'");
      await endLeases();
      await refusing("key-0", "new.state = 'pending'");
      expect(await outboxOf(store).rescue(3)).toEqual({ unstarted: 1, started: 1 });
      expect(await outboxOf(store).rescue(1), "it takes no place of others").toEqual({
        unstarted: 1,
        started: 0,
      });
      expect(await outboxOf(store).rescue(9)).toEqual({ unstarted: 1, started: 0 });
      await observer.query("drop trigger refuse on latchkey.outbox");
      expect(await outboxOf(second).rescue(9)).toEqual({ unstarted: 0, started: 1 });
    });

    test("because of what is to be written does not stop the others", async () => {
      await enqueuing(store, [newEffect(), newEffect()]);
      const [bad, good] = await claim(store);
      if (bad === undefined || good === undefined) throw new Error("both were claimed");
      const nul = { ...claimOf(bad), event: "die", errorCode: "a\0b", returned: false } as const;
      expect(await outboxOf(store).end([nul, delivered(good)])).toEqual([good.id]);
    });
  });

  test("a server that refuses every row is asked once", async () => {
    await enqueuing(store, [newEffect(), newEffect()]);
    const claimed = await claim(store);
    const standing = openPool(url, { max: 2, options: "-c statement_timeout=1" });
    const blocker = await observer.connect();
    await blocker.query("begin; lock table latchkey.outbox in share mode");
    const ends = claimed.map((effect) => delivered(effect, result));
    await expect(outboxOf(postgresStore({ pool: standing })).end(ends)).rejects.toMatchObject({
      cause: { code: "57014" },
    });
    await blocker.query("rollback");
    blocker.release();
    expect(await outboxOf(store).end(ends)).toHaveLength(2);
    await standing.end();
  });

  test("a record with an effect that is not delivered is not forgotten", async () => {
    const life = newLife(newKey());
    await enqueuing(store, [newEffect()], async () => {}, life);
    await observer.query("update latchkey.records set expires_at = now(), forget_at = now()");
    expect((await store.clean(10)).forgotten).toBe(0);
    const [claimed] = await claim(store);
    if (claimed === undefined) throw new Error("it was claimed");
    await outboxOf(store).end([{ ...claimOf(claimed), event: "die", errorCode: "x", returned: false }]);
    expect((await store.clean(10)).forgotten).toBe(0);
    const note = { id: systemPorts.random.uuid(0), actor: "a", reason: null };
    await outboxOf(store).decide(
      claimed.id,
      { event: "discard", attempt: claimed.fence.attempt, keepMs: 0 },
      note,
    );
    expect(await store.clean(10)).toMatchObject({ forgotten: 1, effects: 1 });
  });

  test("what the write before a send changes is in no index, so that it can be a HOT update", async () => {
    const { rows } = await observer.query<{ definition: string }>(
      "select pg_get_indexdef(indexrelid) as definition from pg_index where indrelid = 'latchkey.outbox'::regclass",
    );
    expect(rows.length).toBeGreaterThan(5);
    const [, set = ""] = /set (.*?) from/.exec(outboxStatements(names).startEffects.text) ?? [];
    const columns = [...set.matchAll(/(\w+) = /g)].map(([, column]) => column ?? "");
    expect(columns).toContain("started_at");
    for (const { definition } of rows) {
      expect(
        columns.filter((column) => definition.includes(column)),
        definition,
      ).toEqual([]);
    }
  });
});
