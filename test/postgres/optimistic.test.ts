/** Optimistic admission on a real Postgres, through `pg` and Drizzle: what it saves, and what duplicates may not do. */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import type pg from "pg";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/latchkey.ts";
import { drizzleTransactions } from "../../packages/latchkey/src/sql/drizzle.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import type { LatchkeyEvent } from "../../packages/latchkey/src/telemetry/events.ts";
import { startProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import { committedRows, expectNoLeak, migratedDatabase, openPool } from "./harness.ts";

type Insert = (row: string) => Promise<void>;

/** One request through a process of its own, whose handler writes as `run` says. */
interface Subject {
  request(key: string, run: (insert: Insert) => Promise<unknown>): Promise<{ readonly kind: string }>;
}

type Open = (pool: pg.Pool, onEvent?: (event: LatchkeyEvent) => void) => Subject;
const options = { execution: "transaction", admission: "optimistic", waitMs: 10_000 } as const;
const noEvents = () => {};

const throughPg: Open = (pool, onEvent = noEvents) => {
  const latchkey = createLatchkey({ store: postgresStore({ pool }), onEvent });
  const operation = latchkey.operation("orders", options);
  return {
    request: (key, run) =>
      latchkey.run(operation, { tenant: "t", key, input: 1 }, ({ tx }) =>
        run(async (row) => {
          await tx.query("insert into business values ($1)", [row]);
        }),
      ),
  };
};

const throughDrizzle: Open = (pool, onEvent = noEvents) => {
  const transactions = drizzleTransactions({ db: drizzle(pool) });
  const latchkey = createLatchkey({ store: postgresStore({ pool, transactions }), onEvent });
  const operation = latchkey.operation("orders", options);
  return {
    request: (key, run) =>
      latchkey.run(operation, { tenant: "t", key, input: 1 }, ({ tx }) =>
        run(async (row) => {
          await tx.execute(sql`insert into business values (${row})`);
        }),
      ),
  };
};

let direct: string;
let proxy: TcpProxy;
/** No two subjects share a key. */
let keys = 0;
beforeAll(async () => {
  direct = await migratedDatabase();
  proxy = await startProxy({ to: { port: Number(new URL(direct).port) } });
});

describe.each([
  ["pg", throughPg],
  ["Drizzle", throughDrizzle],
] as const)("through %s", (_, open) => {
  let pool: pg.Pool;
  beforeEach(async () => {
    pool = openPool(direct);
    await pool.query("truncate business");
  });

  test("a request with one write takes two round trips, one with two three", async () => {
    const one = openPool(proxy.url(direct), { max: 1 });
    const subject = open(one);
    const flightsOf = async (statements: number) => {
      // So that a reply never slips between two writes of one flight.
      proxy.delay({ down: 5 });
      const { flights } = proxy.counts();
      await subject.request(`flights ${++keys}`, async (insert) => {
        for (let count = 0; count < statements; count++) await insert("x");
      });
      const after = proxy.counts().flights;
      await proxy.pass();
      return after - flights;
    };
    for (let warm = 0; warm < 3; warm++) await flightsOf(1);
    expect([await flightsOf(1), await flightsOf(2)]).toEqual([2, 3]);
  });

  test("of many duplicates in several processes one takes effect, and all get its answer", async () => {
    const events: LatchkeyEvent[] = [];
    const pools = [1, 2, 3].map(() => openPool(direct, { max: 4 }));
    const subjects = pools.map((one) => open(one, (event) => events.push(event)));
    for (let round = 0; round < 5; round++) {
      const key = `many ${++keys}`;
      const results = await Promise.all(
        Array.from({ length: 12 }, (__, index) =>
          subjects[index % 3]?.request(key, async (insert) => {
            await insert(key);
            await insert(key);
            return { order: key };
          }),
        ),
      );
      const executed = results.filter((result) => result?.kind === "executed");
      expect(executed).toHaveLength(1);
      expect(results.filter((result) => result?.kind === "replay")).toHaveLength(11);
      expect((await committedRows(pool)).filter((row) => row === key)).toHaveLength(2);
    }
    expect(events.filter(({ type }) => type === "executed")).toHaveLength(5);
    for (const one of pools) await expectNoLeak(one);
  });

  test("a duplicate that blocks on the first one's rows is rolled back, and gets the answer of the first", async () => {
    await pool.query(
      "create table if not exists unique_orders (id text primary key); truncate unique_orders",
    );
    await pool.query(
      "create or replace function order_once() returns trigger language plpgsql as $$ begin insert into unique_orders values (new.row); return new; end $$",
    );
    await pool.query(
      "create or replace trigger once before insert on business for each row execute function order_once()",
    );
    try {
      const [first, second] = [open(openPool(direct)), open(openPool(direct))];
      const key = `blocks ${++keys}`;
      const wrote = Promise.withResolvers<void>();
      const held = Promise.withResolvers<void>();
      const running = first.request(key, async (insert) => {
        await insert(key);
        wrote.resolve();
        await held.promise;
        return 1;
      });
      await wrote.promise;
      const duplicate = second.request(key, async (insert) => {
        await insert(key);
        return 2;
      });
      const blocked = async () =>
        (
          await pool.query(
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
          )
        ).rowCount;
      await expect.poll(blocked).toBe(1);
      held.resolve();
      expect(await Promise.all([running, duplicate])).toMatchObject([
        { kind: "executed", value: 1 },
        { kind: "replay", value: 1 },
      ]);
      expect(await committedRows(pool)).toEqual([key]);
    } finally {
      await pool.query("drop trigger once on business");
    }
  });

  test("connections that died in the pool cost a run, and no request", async () => {
    const through = openPool(proxy.url(direct), { max: 1 });
    const subject = open(through);
    await subject.request(`warm ${++keys}`, (insert) => insert("warm"));
    await proxy.cut();
    await proxy.pass();
    const key = `cut ${++keys}`;
    expect(await subject.request(key, (insert) => insert(key))).toMatchObject({ kind: "executed" });
    expect((await committedRows(pool)).filter((row) => row === key)).toHaveLength(1);
  });

  test("a session at SERIALIZABLE is served in the ordinary way", async () => {
    const strict = openPool(direct, { options: "-c default_transaction_isolation=serializable" });
    const key = `serializable ${++keys}`;
    const subject = open(strict);
    expect(await subject.request(key, (insert) => insert(key))).toMatchObject({ kind: "executed" });
    expect(await subject.request(key, (insert) => insert(key))).toMatchObject({ kind: "replay" });
    expect(await committedRows(pool)).toEqual([key]);
  });
});
