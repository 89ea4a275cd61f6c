/** Transactions through `pg` that open in one pipeline with their handler's first statement. */
import pg from "pg";
import Cursor from "pg-cursor";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  committedRows,
  expectNoLeak,
  migratedDatabase,
  openPool,
  type TestTx,
  turnableClock,
} from "../../../../test/postgres/harness.ts";
import { emptyTables } from "../../../../test/support/empty-tables.ts";
import { startProxy } from "../../../../test/support/tcp-proxy.ts";
import { deferred, untilBlocked } from "../../../../test/support/until.ts";
import { storeConformance } from "../../../latchkey-conformance/src/store-conformance.ts";
import { isLatchkeyError } from "../errors.ts";
import { postgresStore } from "../stores/postgres.ts";
import type { TransactionSupport } from "../stores/transactions.ts";
import { pgTransactions } from "./pg.ts";
import type { BridgeRequest, BridgeSession, OptimisticSession, SqlStatement } from "./transaction.ts";

let url: string;
beforeAll(async () => {
  url = await migratedDatabase();
});

const isRefused = (error: unknown) => isLatchkeyError(error) && error.code === "not-admitted";
const statement = (name: string, text: string): SqlStatement => ({ name: `test_${name}`, text, values: [] });
const opening = [
  statement("session", "select 'yes' as open, pg_current_xact_id_if_assigned()::text as xact"),
];
const request: BridgeRequest = { isolation: null, opening };

type Opened = BridgeSession<TestTx>["opened"];
type Tx = TestTx;

describe.each([false, true])("pool with pipeline: %s", (pipeline) => {
  let pool: pg.Pool;
  beforeEach(async () => {
    pool = openPool(url, { max: 3, pipeline });
    await pool.query("truncate business");
  });

  /** Runs `work`, which commits what it returns, and says what was seen on the way. */
  async function run<T>(
    work: (tx: Tx, session: OptimisticSession<Tx>) => Promise<T>,
    admit: (opened: Opened) => Promise<boolean> = async () => true,
    options: { readonly pool?: pg.Pool; readonly request?: BridgeRequest } = {},
  ) {
    const bridge = pgTransactions({ pool: options.pool ?? pool });
    if (bridge.transactOptimistic === undefined) throw new Error("unreachable");
    return bridge.transactOptimistic<T>(options.request ?? request, admit, async (session) => {
      const value = await work(session.tx, session);
      const ok = await session.admitted().catch(() => false);
      session.revoke();
      return ok ? { end: "commit", value, closing: [] } : { end: "rollback", value };
    });
  }

  /** Every way in which `pg` can be asked for a statement; each writes `row` and returns its text. */
  const ways: Readonly<Record<string, (tx: Tx, row: string) => Promise<unknown>>> = {
    "text and values": (tx, row) => tx.query("insert into business values ($1) returning row", [row]),
    "a config": (tx, row) =>
      tx.query({ text: "insert into business values ($1) returning row", values: [row] }),
    "a config and values": (tx, row) =>
      tx.query({ text: "insert into business values ($1) returning row" }, [row]),
    "rows as arrays": async (tx, row) => {
      const { rows } = await tx.query({
        text: "insert into business values ($1) returning row",
        values: [row],
        rowMode: "array",
      });
      return { rows: rows.map(([text]) => ({ row: text as unknown })) };
    },
    "a name": (tx, row) =>
      tx.query({ name: "named", text: "insert into business values ($1) returning row", values: [row] }),
    "a simple query": (tx, row) => tx.query(`insert into business values ('${row}') returning row`),
    "two statements at once": async (tx, row) => {
      const results = (await tx.query(
        `insert into business values ('${row}') returning row; select 1`,
      )) as unknown as pg.QueryResult[];
      return results[0];
    },
    "a callback": (tx, row) =>
      new Promise((resolve, reject) => {
        tx.query("insert into business values ($1) returning row", [row], (error, result) =>
          error ? reject(error) : resolve(result),
        );
      }),
    "a query object": (tx, row) =>
      new Promise((resolve, reject) => {
        const query = new pg.Query("insert into business values ($1) returning row", [row]);
        query.on("error", reject);
        query.on("end", resolve as () => void);
        tx.query(query);
      }),
    "a cursor": async (tx, row) => {
      const cursor = tx.query(
        new Cursor<{ row: string }>("insert into business values ($1) returning row", [row]),
      );
      const rows = await cursor.read(10);
      await cursor.close();
      return { rows };
    },
  };

  // A client in pipeline mode takes no foreign query objects.
  const possible = Object.entries(ways).filter(([name]) => !(pipeline && name === "a cursor"));

  test.each(possible)("%s as the first statement: in the transaction, or not at all", async (_, way) => {
    const seen: Opened[] = [];
    const first = await run(
      async (tx) => ({ result: await way(tx, "kept"), again: await way(tx, "kept too") }),
      async (opened) => {
        seen.push(opened);
        return true;
      },
    );
    expect(first.kind).toBe("committed");
    expect(first.value.result).toMatchObject({ rows: [{ row: "kept" }] });
    expect(seen).toMatchObject([[[{ open: "yes", xact: null }]]]);
    expect((await committedRows(pool)).toSorted()).toEqual(["kept", "kept too"]);

    const refused = await run(
      (tx) => way(tx, "refused").catch((error: unknown) => error),
      async () => false,
    );
    expect(refused).toMatchObject({ kind: "rolled_back" });
    expect(refused.value).toSatisfy(isRefused);
    expect(await committedRows(pool)).toHaveLength(2);
    await expectNoLeak(pool);
  });

  test.each(possible)(
    "%s as the first statement runs nowhere when the transaction cannot be opened",
    async (_, way) => {
      const broken = [...opening, statement("broken", "select 1 / (random() * 0)::int as never")];
      const outcome = await run((tx) => way(tx, "outside").catch((error: unknown) => error), undefined, {
        request: { isolation: null, opening: broken },
      });
      expect(outcome.kind).toBe("rolled_back");
      expect(outcome.value).toBeInstanceOf(Error);
      expect(await committedRows(pool)).toEqual([]);
      await expectNoLeak(pool);
    },
  );

  test("a first statement that fails does so with the server's error, and the transaction is rolled back", async () => {
    const outcome = await run(async (tx) => {
      const error = await tx.query("insert into nowhere values ($1)", [1]).catch((thrown: unknown) => thrown);
      await expect(tx.query("select $1::int", [1])).rejects.toMatchObject({ code: "25P02" });
      return error;
    });
    expect(outcome).toMatchObject({ kind: "refused", value: { code: "42P01" } });
    expect(await committedRows(pool)).toEqual([]);
    await expectNoLeak(pool);
  });

  test("values that `pg` cannot send fail the first statement alone", async () => {
    const hostile = {
      toPostgres() {
        throw new Error("no such value");
      },
    };
    const outcome = await run(async (tx) => {
      await expect(tx.query("select $1", [hostile])).rejects.toThrow("no such value");
      await tx.query("insert into business values ($1)", ["after"]);
    });
    expect(outcome.kind).toBe("committed");
    expect(await committedRows(pool)).toEqual(["after"]);
    await expectNoLeak(pool);
  });

  test("type parsers of the pool, of the statement, and rows without any are as in any other statement", async () => {
    const types = {
      getTypeParser: () => (text: string) => `parsed ${text}`,
    } as unknown as pg.CustomTypesConfig;
    const own = openPool(url, { max: 1, pipeline, types });
    const { value } = await run((tx) => tx.query("select $1::int as n", [1]), undefined, { pool: own });
    expect(value.rows).toEqual([{ n: "parsed 1" }]);
    const { value: given } = await run((tx) => tx.query({ text: "select $1::int as n", values: [1], types }));
    expect(given.rows).toEqual([{ n: "parsed 1" }]);
    const { value: none } = await run((tx) => tx.query("select $1::int as n where false", [1]));
    expect(none).toMatchObject({ rows: [], rowCount: 0, command: "SELECT" });
  });

  test("several at once wait for the first, and keep their order", async () => {
    const rows = ["a", "b", "c"];
    const admitted = deferred();
    const running = run(
      (tx) => Promise.all(rows.map((row) => tx.query("insert into business values ($1)", [row]))),
      async () => {
        await admitted.promise;
        return true;
      },
    );
    admitted.resolve();
    expect((await running).kind).toBe("committed");
    expect(await committedRows(pool)).toEqual(rows);
  });

  test("the first statement returns no sooner than it was admitted", async () => {
    const order: string[] = [];
    await run(
      async (tx) => {
        await tx.query("select $1::int", [1]);
        order.push("returned");
      },
      async () => {
        await new Promise((resolve) => setImmediate(resolve));
        order.push("admitted");
        return true;
      },
    );
    expect(order).toEqual(["admitted", "returned"]);
  });

  test("a statement that repeats gets its name on the way, and the connection goes on with it", async () => {
    const one = openPool(url, { max: 1, pipeline });
    for (let round = 0; round < 12; round++) {
      const { kind, value } = await run(
        async (tx) => (await tx.query<{ n: number }>("select $1::int + 1 as n", [round])).rows[0]?.n,
        undefined,
        { pool: one },
      );
      expect([kind, value]).toEqual(["committed", round + 1]);
    }
    await one.query("deallocate all");
    const after = await run((tx) => tx.query("select $1::int + 1 as n", [1]).catch(() => null), undefined, {
      pool: one,
    });
    expect(["rolled_back", "refused", "committed"]).toContain(after.kind);
    const healed = await run((tx) => tx.query("select $1::int + 1 as n", [1]), undefined, { pool: one });
    expect(healed).toMatchObject({ kind: "committed", value: { rows: [{ n: 2 }] } });
    await expectNoLeak(one);
  });

  test("a connection that has died idle opens nothing: the statement fails, and nothing of it is there", async () => {
    const proxy = await startProxy({ to: { port: Number(new URL(url).port) } });
    const through = openPool(proxy.url(url), { max: 1, pipeline });
    await through.query("select 1");
    await proxy.cut();
    const outcome = await run(
      (tx) => tx.query("insert into business values ($1)", ["lost"]).catch((error: unknown) => error),
      undefined,
      { pool: through },
    );
    expect(outcome).toMatchObject({ kind: "rolled_back" });
    expect(outcome.value).toBeInstanceOf(Error);
    expect(await committedRows(pool)).toEqual([]);
  });

  test("a handler that gives up while its first statement is blocked leaves nothing", async () => {
    const other = await pool.connect();
    await other.query("begin; lock table business");
    const { transactOptimistic } = pgTransactions({ pool });
    const outcome = await transactOptimistic?.<null>(
      request,
      async () => true,
      async ({ tx, revoke }) => {
        const pid = Number((tx as unknown as { processID: number }).processID);
        tx.query("insert into business values ($1)", ["blocked"]).catch(() => {});
        await untilBlocked(url, pid);
        revoke();
        return { end: "abandon", value: null };
      },
    );
    expect(outcome).toEqual({ kind: "rolled_back", value: null });
    await other.query("rollback");
    other.release();
    expect(await committedRows(pool)).toEqual([]);
    await expectNoLeak(pool);
  });

  test("a handler that has sent nothing gives its connection back unused", async () => {
    const bridge = pgTransactions({ pool });
    const { totalCount } = pool;
    const outcome = await bridge.transactOptimistic?.<number>(
      request,
      () => Promise.reject(new Error("it was opened")),
      async () => ({ end: "rollback", value: 1 }),
    );
    expect(outcome).toEqual({ kind: "rolled_back", value: 1 });
    expect(pool.totalCount).toBe(Math.max(totalCount, 1));
    await expectNoLeak(pool);
  });
});

/** `run` as `runOptimistic` does it, so that the whole contract of transactions can be asked of it. */
function startedOptimistic<Tx>(support: TransactionSupport<Tx>): TransactionSupport<Tx> {
  const { runOptimistic } = support;
  if (runOptimistic === undefined) throw new Error("unreachable");
  return {
    ...support,
    run(transaction, work) {
      type Seen = Parameters<Parameters<typeof runOptimistic>[1]>[0];
      const seen: Seen[] = [];
      return runOptimistic(
        transaction,
        async (admission) => {
          seen.push(admission);
          return true;
        },
        async (open) => {
          await open.admitted();
          const [admission] = seen;
          if (admission === undefined) throw new Error("unreachable");
          return work({ ...open, ...admission });
        },
      );
    },
  };
}

/** A pool on a database whose clock moves only by hand. */
async function turnable(): Promise<pg.Pool> {
  const pool = openPool(await migratedDatabase(), { max: 8 });
  await pool.query(turnableClock);
  return pool;
}

describe("the contract of transactions, over transactions that open early", () => {
  let shared: pg.Pool | undefined;
  storeConformance<TestTx>({
    test: (name, body) => {
      // Under SERIALIZABLE and for a lease they are opened in the ordinary way.
      if (/^(transactions|resolve):/u.test(name) && !/serializable|in_progress/u.test(name)) test(name, body);
    },
    capabilities: {
      transactions: true,
      optimisticAdmission: true,
      inProgress: "immediate",
      durability: "synced",
      commitNotice: true,
      fenceSurvivesFailover: true,
      statusReads: "primary",
    },
    clock: "frozen",
    async factory() {
      shared ??= await turnable();
      const pool = shared;
      await pool.query(emptyTables);
      const stores = [0, 1].map(() => {
        const store = postgresStore({ pool, timeFunction: "public.my_clock()" });
        if (store.transactions === null) throw new Error("unreachable");
        return { ...store, transactions: startedOptimistic(store.transactions) };
      });
      const [store, secondStore] = stores as [(typeof stores)[0], (typeof stores)[0]];
      return {
        store,
        secondStore,
        async advance(milliseconds) {
          await pool.query("update clock set at = at + $1 * interval '1 millisecond'", [milliseconds]);
        },
        business: {
          async write(tx, row) {
            await tx.query("insert into business values ($1)", [row]);
          },
          committedRows: () => committedRows(pool),
        },
        async close() {
          await store.close();
          await secondStore.close();
        },
      };
    },
  });
});
