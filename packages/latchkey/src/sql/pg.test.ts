import pg from "pg";
import { beforeAll, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import {
  committedRows,
  endlessMs,
  expectNoLeak,
  openPool,
  patientClock,
  type TestTx,
} from "../../../../test/postgres/harness.ts";
import { forEachPostgres } from "../../../../test/support/shared-postgres.ts";
import { startProxy } from "../../../../test/support/tcp-proxy.ts";
import { backendPid, deferred, untilBlocked, within } from "../../../../test/support/until.ts";
import type { ClientOf } from "./pg/client.ts";
import { type PgTx, pgTransactions } from "./pg.ts";
import type { BridgeRequest, BridgeSession, BridgeWork, SqlStatement } from "./transaction.ts";

type Work<T> = (session: BridgeSession<TestTx>) => Promise<BridgeWork<T>>;

const open: BridgeRequest = { isolation: null, opening: [] };

function sql(text: string, ...values: SqlStatement["values"]): SqlStatement {
  return { name: `test_${Buffer.from(text).toString("hex").slice(0, 50)}`, text, values };
}

const note = (row: string) => sql("insert into business values ($1::text)", row);

const writes =
  (row: string, closing: readonly SqlStatement[] = []): Work<string> =>
  async ({ tx }) => {
    await tx.query("insert into business values ($1)", [row]);
    return { end: "commit", value: "value", closing };
  };

/** The raw client under the next transaction, as a mistaken handler might get hold of it. */
function captureClient(pool: pg.Pool): () => pg.PoolClient {
  let client: pg.PoolClient | undefined;
  pool.on("acquire", (acquired) => {
    client = acquired;
  });
  return () => {
    if (client === undefined) throw new Error("no client was taken");
    return client;
  };
}

describe("types", () => {
  test("`tx` is the pool's own client, without `release`", () => {
    expectTypeOf<ClientOf<pg.Pool>>().toEqualTypeOf<pg.PoolClient>();
    expectTypeOf<PgTx<pg.Pool>>().toEqualTypeOf<Omit<pg.PoolClient, "release">>();
    expectTypeOf<PgTx<pg.Pool>>().toExtend<pg.ClientBase>();
    expectTypeOf<PgTx<pg.Pool>>().toExtend<pg.Client>();
    const rowsOf = (tx: PgTx<pg.Pool>) => tx.query<{ id: number }>("select 1 as id").then(({ rows }) => rows);
    expectTypeOf(rowsOf).returns.resolves.toEqualTypeOf<{ id: number }[]>();
    interface OwnClient {
      query(text: string): Promise<number>;
      release(): void;
    }
    expectTypeOf<ClientOf<{ connect(): Promise<OwnClient> }>>().toEqualTypeOf<OwnClient>();
    // @ts-expect-error a client is not a pool
    expect(() => pgTransactions({ pool: "no pool" })).toThrow(TypeError);
  });

  test.each([
    { connectTimeoutMs: 0 },
    { statementTimeoutMs: -1 },
    { transactionsMax: 1.5 },
    { connectTimeoutMs: Number.NaN },
  ])("%o is out of range", (options) => {
    expect(() => pgTransactions({ pool: new pg.Pool(), ...options })).toThrow(TypeError);
  });
});

forEachPostgres((version, database) => {
  beforeAll(async () => {
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query("create table business (row text)");
    await client.query("create table deferred_ids (id int, unique (id) deferrable initially deferred)");
    await client.end();
  });

  describe.each([false, true])("pool with pipeline: %s", (pipeline) => {
    let pool: pg.Pool;

    beforeEach(async () => {
      pool = openPool(database.url, { max: 3, pipeline });
      await pool.query("truncate business, deferred_ids");
      return async () => {
        await expectNoLeak(pool);
        await pool.end();
      };
    });

    const rows = () => committedRows(pool);
    const bridge = (options = {}) => pgTransactions({ pool, ...options });

    test("commits, with the rows of the opening and the closing statements", async () => {
      const opening = [
        sql("select 1::int as a, 2.5::float8 as b, true as c, null::text as d, 'x'::text as e"),
      ];
      const outcome = await bridge().transact({ isolation: null, opening }, async ({ tx, opened, used }) => {
        expect(opened).toEqual([[{ a: 1, b: 2.5, c: true, d: null, e: "x" }]]);
        expect(used()).toBe(false);
        await tx.query("insert into business values ('a')");
        expect(used()).toBe(true);
        return {
          end: "commit",
          value: 7,
          closing: [note("b"), sql("select $1::bytea as bytes", Buffer.from([0, 255]))],
        };
      });
      expect(outcome).toEqual({
        kind: "committed",
        value: 7,
        closed: [[], [{ bytes: Buffer.from([0, 255]) }]],
      });
      expect(await rows()).toEqual(["a", "b"]);
    });

    test("an undo behind a statement that does not end waits once, also at the transaction's end", async () => {
      await pool.query("insert into business values ('locked')");
      const holder = await pool.connect();
      await holder.query("begin");
      await holder.query("update business set row = row");
      const { ports, giveUp } = patientClock();
      const { transactParts } = bridge({ statementTimeoutMs: endlessMs, ports });
      const undoing = deferred();
      const ended = transactParts?.(open, async ({ part }) => {
        const { tx, revoke, undo } = part();
        const pid = await backendPid(tx);
        tx.query("update business set row = row").catch(() => {});
        await untilBlocked(database.url, pid);
        revoke();
        const undone = undo();
        // By then the savepoint is known to be set, and the undo waits for its reply.
        setImmediate(undoing.resolve);
        await expect(undone).rejects.toThrow();
        await expect(undo()).rejects.toThrow();
        return { end: "rollback", value: 7 };
      });
      await undoing.promise;
      giveUp();
      try {
        const outcome = await within(Promise.resolve(ended), "the transaction ends");
        expect(outcome).toEqual({ kind: "rolled_back", value: 7 });
      } finally {
        giveUp();
        await holder.query("rollback");
        holder.release();
      }
      expect(await rows()).toEqual(["locked"]);
    });

    test("statements under their names give the same rows every time", async () => {
      const opening = [sql("select $1::int as a, 'text'::text as b", 5)];
      const closing = [sql("select $1::text as c from generate_series(1, 2)", "x")];
      for (let round = 0; round < 4; round++) {
        const outcome = await bridge().transact({ isolation: null, opening }, async ({ opened }) => {
          expect(opened).toEqual([[{ a: 5, b: "text" }]]);
          return { end: "commit", value: 0, closing: [...closing, ...closing] };
        });
        const twice = [{ c: "x" }, { c: "x" }];
        expect(outcome).toEqual({ kind: "committed", value: 0, closed: [twice, twice] });
      }
    });

    test("values of every kind and size arrive as they are, with names and without", async () => {
      const texts = ["", "\u0001\t\u{1f511}\u20ac", "\u20ac".repeat(3_000), "\u20ac".repeat(20_000)];
      const bytes = [
        new Uint8Array(0),
        new Uint8Array(1_000_000).fill(255),
        Buffer.from("abcd").subarray(1, 3),
      ];
      const values = [...texts, ...bytes, 1.5, -7, true, false, null];
      const types = ["text", "bytea", "float8", "bool", "text"] as const;
      const typeOf = (index: number) => types[[4, 7, 9, 11, 12].findIndex((end) => index < end)];
      const list = values.map((_, index) => `$${index + 1}::${typeOf(index)} as v${index}`);
      const opening = [sql(`select ${list.join(", ")}`, ...values), sql("select 'after' as v0")];
      const expected = values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value));
      for (const namedStatements of [true, true, false]) {
        const outcome = await bridge({ namedStatements }).transact(
          { isolation: null, opening },
          async ({ opened }) => ({
            end: "rollback",
            value: opened.map((rows) => Object.values(rows[0] ?? {})),
          }),
        );
        expect(outcome.value).toEqual([expected, ["after"]]);
      }
    });

    test.each(["rollback", "abandon"] as const)("%s leaves nothing", async (end) => {
      const outcome = await bridge().transact(open, async ({ tx }) => {
        await tx.query("insert into business values ('a')");
        return { end, value: "kept" };
      });
      expect(outcome).toEqual({ kind: "rolled_back", value: "kept" });
      expect(pool.totalCount, "an abandoned connection is not used again").toBe(end === "rollback" ? 1 : 0);
      expect(await rows()).toEqual([]);
    });

    test("abandon ends a connection on which the handler still waits", async () => {
      const holder = await pool.connect();
      await holder.query("begin; lock table business");
      let late: Promise<unknown> = Promise.resolve();
      const outcome = await bridge().transact(open, async ({ tx }) => {
        late = tx.query("insert into business values ('a')").catch((error: unknown) => error);
        return { end: "abandon", value: "" };
      });
      expect(outcome.kind).toBe("rolled_back");
      expect(await within(late, "the handler is notified")).toBeInstanceOf(Error);
      await holder.query("rollback");
      holder.release();
      expect(await rows()).toEqual([]);
    });

    test("what the work throws comes out, after a rollback", async () => {
      const failure = new Error("the handler failed");
      const run = bridge().transact(open, async ({ tx }) => {
        await tx.query("insert into business values ('a')");
        throw failure;
      });
      await expect(run).rejects.toBe(failure);
      expect(await rows()).toEqual([]);
      expect(pool.totalCount, "the connection was kept").toBe(1);
    });

    test("each isolation level is what the server then has", async () => {
      for (const isolation of ["read committed", "repeatable read", "serializable"] as const) {
        await bridge().transact({ isolation, opening: [] }, async ({ tx }) => {
          const { rows } = await tx.query("show transaction_isolation");
          expect(rows).toEqual([{ transaction_isolation: isolation }]);
          return { end: "rollback", value: "" };
        });
      }
    });

    test("a closing statement that raises rolls back, though COMMIT was already sent", async () => {
      const closing = [note("b"), sql("select 1 / $1::int as x", 0), note("c")];
      const outcome = await bridge().transact(open, writes("a", closing));
      expect(outcome).toMatchObject({
        kind: "refused",
        sqlState: "22012",
        during: "closing",
        value: "value",
      });
      expect(await rows()).toEqual([]);
      expect(pool.totalCount, "the connection was kept").toBe(1);
    });

    test("a COMMIT that is refused is distinguished from a closing statement that is", async () => {
      const outcome = await bridge().transact(open, async ({ tx }) => {
        await tx.query("insert into deferred_ids values (1), (1)");
        return { end: "commit", value: "", closing: [note("a")] };
      });
      expect(outcome).toMatchObject({ kind: "refused", sqlState: "23505", during: "commit" });
      expect(await rows()).toEqual([]);
    });

    test("a swallowed error leaves nothing that could be committed", async () => {
      const outcome = await bridge().transact(open, async ({ tx }) => {
        await tx.query("select 1 / 0").catch(() => {});
        return { end: "commit", value: "", closing: [note("a")] };
      });
      expect(outcome).toMatchObject({ kind: "refused", sqlState: "25P02", during: "closing" });
      const bare = await bridge().transact(open, async ({ tx }) => {
        await tx.query("select 1 / 0").catch(() => {});
        return { end: "commit", value: "", closing: [] };
      });
      expect(bare, "COMMIT alone says ROLLBACK").toMatchObject({ kind: "refused", sqlState: "25P02" });
      expect(await rows()).toEqual([]);
    });

    test("a savepoint of the handler's own mends an error", async () => {
      const outcome = await bridge().transact(open, async ({ tx }) => {
        await tx.query("savepoint mine");
        await tx.query("select 1 / 0").catch(() => {});
        await tx.query("rollback to savepoint mine");
        return { end: "commit", value: "", closing: [note("a")] };
      });
      expect(outcome.kind).toBe("committed");
      expect(await rows()).toEqual(["a"]);
    });

    test("queries that were fired and not awaited are still before the end", async () => {
      let fired: Promise<unknown> = Promise.resolve();
      const outcome = await bridge().transact(open, async ({ tx }) => {
        fired = Promise.all(["a", "b"].map((row) => tx.query("insert into business values ($1)", [row])));
        return { end: "commit", value: "", closing: [note("c")] };
      });
      await fired;
      expect(outcome.kind).toBe("committed");
      expect(await rows()).toEqual(["a", "b", "c"]);
    });

    test("transaction control through `tx` is refused, in every shape", async () => {
      const outcome = await bridge().transact(open, async ({ tx }) => {
        await tx.query("insert into business values ('a')");
        for (const statement of ["commit", { text: "ROLLBACK", values: [] }, "select 1; end"]) {
          await expect(tx.query(statement)).rejects.toMatchObject({ code: "transaction-control" });
        }
        expect(() => tx.query(new pg.Query("begin"))).toThrow(
          expect.objectContaining({ code: "transaction-control" }),
        );
        await expect(tx.end()).rejects.toMatchObject({ code: "transaction-control" });
        await expect(tx.connect()).rejects.toMatchObject({ code: "transaction-control" });
        return { end: "commit", value: "", closing: [] };
      });
      expect(outcome.kind).toBe("committed");
      expect(await rows()).toEqual(["a"]);
    });

    describe("a transaction that was ended past `tx`", () => {
      test.each(["commit", "rollback", "commit; begin", "select 1; commit; begin; select 2"])(
        "by %j is not committed",
        async (how) => {
          const raw = captureClient(pool);
          const outcome = await bridge().transact(open, async ({ tx }) => {
            await tx.query("insert into business values ('early')");
            await raw().query(how);
            await raw()
              .query("insert into business values ('late')")
              .catch(() => {});
            return { end: "commit", value: "value", closing: [note("record")] };
          });
          expect(outcome).toMatchObject({ kind: "refused", sqlState: "25P01", value: "value" });
          expect(await rows()).not.toContain("record");
        },
      );

      test("and then thrown out of is an error of its own, for nothing is left to roll back", async () => {
        const raw = captureClient(pool);
        const failure = Object.assign(new Error("serialization"), { code: "40001" });
        const run = bridge().transact(open, async ({ tx }) => {
          await tx.query("insert into business values ('early')");
          await raw().query("commit");
          throw failure;
        });
        await expect(run).rejects.toMatchObject({ code: "transaction-changed", cause: failure });
        expect(await rows()).toEqual(["early"]);
      });

      test("and then abandoned is an error of its own too", async () => {
        const raw = captureClient(pool);
        const run = bridge().transact(open, async ({ tx }) => {
          await tx.query("insert into business values ('early')");
          await raw().query("commit");
          return { end: "abandon", value: "" };
        });
        await expect(run).rejects.toMatchObject({ code: "transaction-changed" });
      });

      test("by a COMMIT that nobody awaited is not committed again", async () => {
        const raw = captureClient(pool);
        let fired: Promise<unknown> = Promise.resolve();
        const outcome = await bridge().transact(open, async ({ tx }) => {
          await tx.query("insert into business values ('early')");
          fired = raw().query("commit");
          return { end: "commit", value: "", closing: [sql("select 1 / $1::int as x", 0)] };
        });
        await fired;
        expect(outcome).toMatchObject({ kind: "refused", sqlState: "25P01" });
      });
    });

    describe("prepared statements that the server has forgotten", () => {
      test("between two transactions cost nothing but a retry", async () => {
        const request = { isolation: null, opening: [sql("select 1::int as a")] };
        for (const forget of ["select 1", "discard all", "deallocate all", "deallocate lk_begin"]) {
          await pool.query(forget);
          const outcome = await bridge().transact(request, writes(forget, [note("record")]));
          expect(outcome.kind, forget).toBe("committed");
        }
        expect(await rows()).toHaveLength(8);
        expect(pool.totalCount).toBe(1);
      });

      test("within a transaction it is rolled back, and the next one succeeds", async () => {
        const closing = [note("record")];
        await bridge().transact(open, writes("first", closing));
        const outcome = await bridge().transact(open, async ({ tx }) => {
          await tx.query("insert into business values ('second')");
          await tx.query("deallocate all");
          return { end: "commit", value: "", closing };
        });
        expect(outcome).toMatchObject({ kind: "refused", sqlState: "26000" });
        expect((await bridge().transact(open, writes("third", closing))).kind).toBe("committed");
        expect((await rows()).sort()).toEqual(["first", "record", "record", "third"]);
      });

      test("a statement of somebody else's under our name is replaced", async () => {
        await pool.query("prepare lk_begin as select 1");
        expect((await bridge().transact(open, writes("a"))).kind).toBe("committed");
      });
    });

    test("without names nothing stays prepared", async () => {
      const outcome = await bridge({ namedStatements: false }).transact(open, writes("a", [note("b")]));
      expect(outcome.kind).toBe("committed");
      const { rows: prepared } = await pool.query("select name from pg_prepared_statements");
      expect(prepared).toEqual([]);
    });

    test("a client that came with an open transaction is not joined", async () => {
      const leaked = await pool.connect();
      await leaked.query("begin");
      await leaked.query("insert into business values ('leaked')");
      leaked.release();
      const outcome = await bridge().transact(open, writes("mine"));
      expect(outcome.kind).toBe("committed");
      expect(await rows()).toEqual(["mine"]);
    });

    test("an opening statement that fails: the work does not run", async () => {
      let ran = false;
      const request = { isolation: null, opening: [sql("select * from missing_table")] };
      const run = bridge().transact(request, async () => {
        ran = true;
        return { end: "rollback", value: "" };
      });
      await expect(run).rejects.toMatchObject({
        code: "store-unavailable",
        certainty: "rolled_back",
        cause: { code: "42P01" },
      });
      expect(ran).toBe(false);
      expect(pool.totalCount, "the connection was kept").toBe(1);
    });

    describe("a backend that is killed", () => {
      const kill = (pid: number) => pool.query("select pg_terminate_backend($1)", [pid]);

      test("while the handler thinks: the handler's next query says so", async () => {
        const run = bridge().transact(open, async ({ tx }) => {
          await kill(await backendPid(tx));
          await tx.query("select 1");
          return { end: "commit", value: "", closing: [] };
        });
        await expect(run).rejects.toBeInstanceOf(Error);
      });

      test("while the handler thinks and asks no more: COMMIT is not even sent", async () => {
        const ended = deferred();
        const raw = captureClient(pool);
        const outcome = await bridge().transact(open, async ({ tx }) => {
          await tx.query("insert into business values ('a')");
          const pid = await backendPid(tx);
          raw().once("end", () => ended.resolve());
          await kill(pid);
          await ended.promise;
          return { end: "commit", value: "value", closing: [note("b")] };
        });
        expect(outcome).toMatchObject({ kind: "refused", sqlState: "57P01", value: "value" });
        expect(await rows()).toEqual([]);
      });

      test("in the middle of the closing pipeline: in doubt", async () => {
        const holder = await pool.connect();
        await holder.query("select pg_advisory_lock(4711)");
        let pid = 0;
        const run = bridge().transact(open, async ({ tx }) => {
          await tx.query("insert into business values ('a')");
          pid = await backendPid(tx);
          return {
            end: "commit",
            value: "value",
            closing: [sql("select pg_advisory_xact_lock(4711)::text as x")],
          };
        });
        while (pid === 0) await new Promise(setImmediate);
        await untilBlocked(database.url, pid);
        await holder.query("select pg_terminate_backend($1)", [pid]);
        expect(await run).toMatchObject({ kind: "in_doubt", value: "value", error: { code: "57P01" } });
        await holder.query("select pg_advisory_unlock(4711)");
        holder.release();
        expect(await rows()).toEqual([]);
      });

      // Older servers have no limit that ends a session in the middle of a statement with a SQLSTATE of its own.
      if (version >= 17) {
        test("by a limit of its own, in the closing pipeline: in doubt, whatever SQLSTATE it gives", async () => {
          const closing = [
            sql("select set_config('transaction_timeout', '50', true)"),
            sql("select pg_sleep(30)::text as slept"),
          ];
          const outcome = await bridge().transact(open, writes("a", closing));
          expect(outcome).toMatchObject({ kind: "in_doubt", error: { code: "25P04" } });
          expect(await rows()).toEqual([]);
        });
      }

      test("while it was idle in the pool: the transaction gets another", async () => {
        const idle = await pool.connect();
        const pid = await backendPid(idle);
        const killer = await pool.connect();
        idle.release();
        await killer.query("select pg_terminate_backend($1)", [pid]);
        killer.release();
        expect((await bridge().transact(open, writes("a"))).kind).toBe("committed");
      });
    });

    test("a process that is frozen too long finds its transaction gone", async () => {
      const limit = sql("select set_config('idle_in_transaction_session_timeout', '50', true)");
      const raw = captureClient(pool);
      const ended = deferred();
      const outcome = await bridge().transact({ isolation: null, opening: [note("a"), limit] }, async () => {
        raw().once("end", () => ended.resolve());
        await ended.promise;
        return { end: "commit", value: "", closing: [] };
      });
      expect(outcome).toMatchObject({ kind: "refused", sqlState: "25P03" });
      expect(await rows()).toEqual([]);
    });
  });

  describe("limits", () => {
    test("no connection within the limit: not sent, and the late one goes back", async () => {
      const pool = openPool(database.url, { max: 1 });
      const held = await pool.connect();
      const bridge = pgTransactions({ pool, connectTimeoutMs: 30 });
      await expect(bridge.transact(open, writes("a"))).rejects.toMatchObject({
        code: "store-unavailable",
        certainty: "not_sent",
      });
      held.release();
      await expectNoLeak(pool);
      await pool.end();
    });

    test("a server that cannot be reached: not sent", async () => {
      const proxy = await startProxy({ to: { port: Number(new URL(database.url).port) } });
      const pool = openPool(proxy.url(database.url), { max: 2 });
      const bridge = pgTransactions({ pool });
      expect((await bridge.transact(open, writes("a"))).kind).toBe("committed");
      await proxy.cut();
      await expect(bridge.transact(open, writes("b"))).rejects.toMatchObject({ certainty: "not_sent" });
      await proxy.pass();
      expect((await bridge.transact(open, writes("c"))).kind, "back without a restart").toBe("committed");
      await expectNoLeak(pool);
      await pool.end();
    });

    test("too many connections: not sent", async () => {
      const admin = openPool(database.url, { max: 1 });
      await admin.query("create role narrow login connection limit 1");
      const url = new URL(database.url);
      url.username = "narrow";
      const first = new pg.Client({ connectionString: url.href });
      await first.connect();
      const pool = openPool(url.href, { max: 1 });
      await expect(pgTransactions({ pool }).transact(open, writes("a"))).rejects.toMatchObject({
        certainty: "not_sent",
        cause: { code: "53300" },
      });
      await first.end();
      await admin.query("drop role narrow");
      await admin.end();
      await pool.end();
    });

    test.each([
      ["Latchkey's own limit", { statementTimeoutMs: 500 }, {}],
      ["the pool's query_timeout", {}, { query_timeout: 500 }],
    ])(
      "a COMMIT that is not answered within %s is in doubt, and its connection is gone",
      async (_, own, pools) => {
        const proxy = await startProxy({ to: { port: Number(new URL(database.url).port) } });
        const pool = openPool(proxy.url(database.url), { max: 2, ...pools });
        const bridge = pgTransactions({ pool, ...own });
        await bridge.transact(open, writes("before"));
        const hold = proxy.holdWhen(({ sql: text }) => text === "commit");
        const outcome = await bridge.transact(open, writes("a"));
        expect(outcome).toMatchObject({ kind: "in_doubt", value: "value" });
        hold.drop();
        await expectNoLeak(pool);
        await pool.end();
      },
    );

    test("one connection of the pool stays free for handlers that use it beside their `tx`", async () => {
      const pool = openPool(database.url, { max: 3 });
      const bridge = pgTransactions({ pool });
      const outcomes = await Promise.all(
        Array.from({ length: 12 }, () =>
          bridge.transact(open, async () => {
            await pool.query("select 1");
            return { end: "commit", value: "", closing: [] };
          }),
        ),
      );
      expect(outcomes.every(({ kind }) => kind === "committed")).toBe(true);
      await expectNoLeak(pool);
      await pool.end();
    });

    test("one that waits for a place too long is refused, and the line goes on without it", async () => {
      const pool = openPool(database.url, { max: 4 });
      const { ports, giveUp } = patientClock();
      const bridge = pgTransactions({ pool, transactionsMax: 1, connectTimeoutMs: endlessMs, ports });
      const [inside, leave] = [deferred(), deferred()];
      const first = bridge.transact(open, async () => {
        inside.resolve();
        await leave.promise;
        return { end: "rollback", value: "" };
      });
      await inside.promise;
      const second = bridge.transact(open, writes("b"));
      giveUp();
      await expect(second).rejects.toMatchObject({ certainty: "not_sent" });
      leave.resolve();
      await first;
      expect((await bridge.transact(open, writes("c"))).kind).toBe("committed");
      await expectNoLeak(pool);
      await pool.end();
    });
  });
});
