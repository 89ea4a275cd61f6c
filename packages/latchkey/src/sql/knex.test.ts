import makeKnex, { type Knex } from "knex";
import makeKnex2 from "knex2";
import type pg from "pg";
import { beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import {
  type ClientUnderTest,
  handlerCases,
  paymentsDatabase,
} from "../../../../test/postgres/client-handlers.ts";
import { openPool } from "../../../../test/postgres/harness.ts";
import { onRelease } from "../../../../test/support/resources.ts";
import { forEachPostgres } from "../../../../test/support/shared-postgres.ts";
import { isThorough } from "../../../../test/support/thorough.ts";
import { until } from "../../../../test/support/until.ts";
import { transactionConformance } from "../../../latchkey-conformance/src/transaction-conformance.ts";
import { migratePostgres, postgresStore } from "../stores/postgres.ts";
import { type KnexDatabase, type KnexTx, knexPool, knexTransactions } from "./knex.ts";
import type { SqlRow, SqlValue } from "./transaction.ts";

const quiet = { warn() {}, error() {}, debug() {}, deprecate() {} };

function openKnex(connection: string, pool: Knex.PoolConfig = {}, make: typeof makeKnex = makeKnex): Knex {
  const knex = make({ client: "pg", connection, pool: { min: 0, max: 6, ...pool }, log: quiet });
  onRelease(() => knex.destroy());
  return knex;
}

/** A text with `$1` placeholders as Knex's own. */
function rawOf(tx: Knex, source: string, values: readonly SqlValue[] = []) {
  const order = [...source.matchAll(/\$(\d+)/gu)].map(([, number]) => values[Number(number) - 1] ?? null);
  return tx.raw(source.replace(/\$\d+/gu, "?"), order as Knex.RawBinding[]);
}

const conforming = {
  execute: async (tx: Knex.Transaction, source: string, values: readonly SqlValue[] = []) =>
    (await rawOf(tx, source, values)).rows as SqlRow[],
  /** A builder sends nothing until it is awaited. */
  prepare(tx: Knex.Transaction, source: string) {
    const builder = rawOf(tx, source);
    return async () => builder;
  },
};

const setUps = {
  "Knex 3 with its own pool": (url: string, max: number) => openKnex(url, { max }),
  "Knex 3 on a pg Pool": (url: string, max: number) =>
    makeKnex({ client: "pg", connectionPool: openPool(url, { max }) } as Knex.Config),
  "Knex 2": (url: string, max: number) => openKnex(url, { max }, makeKnex2 as unknown as typeof makeKnex),
};

forEachPostgres((_version, database) => {
  const names = Object.keys(setUps) as (keyof typeof setUps)[];
  describe.each(isThorough ? names : names.slice(0, 2))("%s keeps the bridge contract", (name) => {
    transactionConformance<Knex.Transaction>({
      test,
      sessions: "many",
      commitNotice: true,
      factory({ connections }) {
        const knex = setUps[name](database.url, connections);
        const observer = openPool(database.url, { max: 2 });
        const given: pg.Pool | undefined = knex.client.config.connectionPool;
        const bridge = knexTransactions({ knex });
        const pool = given ?? knexPool(knex);
        return {
          bridge,
          ...conforming,
          outside: async (source, values = []) => (await observer.query(source, [...values])).rows,
          async makeStore() {
            await migratePostgres(pool);
            return postgresStore({ pool, transactions: bridge });
          },
          busyConnections: () =>
            given === undefined ? knex.client.pool.numUsed() : given.totalCount - given.idleCount,
          async close() {
            await Promise.all([knex.destroy(), given?.end(), observer.end()]);
          },
        };
      },
    });
  });
});

const client: ClientUnderTest<Knex, Knex.Transaction> = {
  open: (url, max = 6) => openKnex(url, { max }),
  transactions: (knex) => knexTransactions({ knex }),
  pool: (knex) => knexPool(knex),
  insert: (trx, account) => insert(trx, account),
  query: async (trx, text) => (await trx.raw(text)).rows[0],
  nested: (trx, work) => trx.transaction(async (nested) => work(nested)),
};

const insert = (trx: Knex, account: string) => trx("payments").insert({ account });

describe("Knex as every client", () => handlerCases(client));

describe("a handler under Knex", () => {
  const payments = paymentsDatabase(client);
  const { accounts, payThrough } = payments;
  let knex: Knex;

  beforeAll(() => {
    knex = openKnex(payments.url);
  });

  test("`tx` is Knex's own, and a second request gets the first answer", async () => {
    expectTypeOf<KnexTx<Knex>>().toEqualTypeOf<Knex.Transaction>();
    const pay = payThrough(knex);
    const first = await pay("typed", async (trx) => {
      expectTypeOf(trx).toEqualTypeOf<Knex.Transaction>();
      expect(trx.isTransaction).toBe(true);
      const [row] = await trx("payments").insert({ account: "typed" }).returning("*");
      return [row, await trx("payments").where({ account: "typed" }).first()];
    });
    const row = { id: expect.any(Number), account: "typed" };
    expect(first).toMatchObject({ kind: "executed", value: [row, row] });
    const second = await pay("typed", () => Promise.reject(new Error("must not run")));
    expect(second).toEqual({ ...first, kind: "replay" });
    expect(await accounts()).toEqual(["typed"]);
  });

  test("a nested transaction is a savepoint", async () => {
    await payThrough(knex)("nested", async (trx) => {
      await insert(trx, "outer");
      const inner = trx.transaction(async (nested) => {
        await insert(nested, "inner");
        throw new Error("only the inner one");
      });
      await expect(inner).rejects.toThrow("only the inner one");
      const undone = await trx.transaction();
      await insert(undone, "inner, undone");
      await undone.rollback();
      await trx.transaction(async (nested) => {
        await nested.transaction((deeper) => insert(deeper, "inner, kept"));
      });
    });
    expect((await accounts()).filter((account) => /inner|outer/u.test(account))).toEqual([
      "outer",
      "inner, kept",
    ]);
  });

  test("`commit()` is refused, says what to do instead, and changes nothing", async () => {
    const pay = payThrough(knex);
    const result = await pay("control", async (trx) => {
      await insert(trx, "control");
      await expect(trx.commit()).rejects.toMatchObject({
        code: "transaction-control",
        message: expect.stringContaining("return from the handler to commit, throw to roll back"),
      });
      await expect(trx.raw("commit")).rejects.toMatchObject({ code: "transaction-control" });
      const raw = await trx.client.acquireConnection();
      await expect(raw.query("commit")).rejects.toMatchObject({ code: "transaction-control" });
      expect(trx.isCompleted()).toBe(false);
    });
    expect(result).toMatchObject({ kind: "executed" });
    expect(await accounts()).toContain("control");
  });

  test.each(["awaited", "not awaited"])("after `rollback()`, %s, nothing is committed", async (way) => {
    const run = payThrough(knex)(`rolled back, ${way}`, async (trx) => {
      await insert(trx, "rolled back");
      const refused = trx.rollback();
      if (way === "awaited") await refused.catch(() => {});
      return "paid";
    });
    await expect(run).rejects.toMatchObject({ code: "transaction-control" });
    expect(await accounts()).not.toContain("rolled back");
  });

  test("what was built, and a nested transaction, is not sent after the end", async () => {
    const late: (() => PromiseLike<unknown>)[] = [];
    const pay = payThrough(knex);
    await pay("late", async (trx) => {
      await insert(trx, "in time");
      const builder = insert(trx, "late");
      late.push(
        () => builder,
        () => trx.transaction(async (inside) => insert(inside, "late")),
      );
    });
    await pay("late and nested", async (trx) => {
      const nested = await trx.transaction();
      late.push(() => insert(nested, "late"));
    });
    for (const send of late)
      await expect(Promise.resolve(send())).rejects.toMatchObject({ code: "tx-revoked" });
    expect(await accounts()).not.toContain("late");
  });

  test("`executionPromise` settles by what became of the transaction", async () => {
    const pay = payThrough(knex);
    const settled: string[] = [];
    const watch = (trx: Knex.Transaction, name: string) =>
      void trx.executionPromise.then(
        async () => settled.push(`${name}: there (${(await accounts()).includes(name)})`),
        () => settled.push(`${name}: not there`),
      );
    await pay("kept", async (trx) => {
      watch(trx, "kept");
      await insert(trx, "kept");
    });
    await pay("dropped", async (trx) => {
      watch(trx, "dropped");
      await insert(trx, "dropped");
      throw new Error("no");
    }).catch(() => {});
    await until(() => settled.length === 2);
    expect(settled.sort()).toEqual(["dropped: not there", "kept: there (true)"]);
  });

  test("a statement that comes again and again gets a name", async () => {
    const pay = payThrough(openKnex(payments.url, { max: 2 }));
    let named = 0;
    for (let count = 0; count < 8; count++) {
      await pay(`named ${count}`, async (trx) => {
        await insert(trx, "named");
        const { rows } = await trx.raw(
          "select count(*)::int as n from pg_prepared_statements where name like 'lk\\_tx\\_%'",
        );
        named = rows[0].n;
      });
    }
    expect(named).toBe(1);
  });

  test("a stream that is still open is an error; one that was read is not", async () => {
    const pay = payThrough(knex);
    const read = await pay("read", async (trx) => {
      const rows: unknown[] = [];
      for await (const row of trx.select(trx.raw("generate_series(1, 3) as n")).stream()) rows.push(row);
      return rows;
    });
    expect(read).toMatchObject({ kind: "executed", value: [{ n: 1 }, { n: 2 }, { n: 3 }] });
    const left = pay("left", async (trx) => {
      const stream = trx.select(trx.raw("generate_series(1, 100000) as n")).stream();
      await new Promise((resolve) => stream.once("data", resolve));
      stream.pause();
    });
    await expect(left).rejects.toMatchObject({ code: "query-open" });
  });

  test("a pool whose connections are all in use is an overload, in Knex's limit as in Latchkey's", async () => {
    for (const [acquireTimeoutMillis, connectTimeoutMs] of [
      // The one that ends it also limits how long the first connection may take to open.
      [2_000, 60_000],
      [60_000, 50],
    ] as const) {
      const own = openKnex(payments.url, { max: 1, acquireTimeoutMillis });
      const bridge = knexTransactions({ knex: own, connectTimeoutMs });
      const blocker = await own.transaction();
      const full = bridge.transact({ isolation: null, opening: [] }, async () => ({
        end: "rollback",
        value: 0,
      }));
      await expect(full).rejects.toMatchObject({ certainty: "not_sent", overload: true });
      await blocker.rollback();
      await own.destroy();
    }
  });

  test("a Knex that hides its client is refused, and nothing is left open", async () => {
    const own = openKnex(payments.url);
    const hiding = { client: own.client, transaction: async (_scope: (trx: Knex) => void) => own };
    const opening = knexTransactions({ knex: hiding }).transact({ isolation: null, opening: [] }, () =>
      Promise.reject(new Error("must not run")),
    );
    await expect(opening).rejects.toThrow(/version of Knex is not supported/u);
    expect(own.client.pool.numUsed()).toBe(0);
  });

  test("only an instance on `pg` can have transactions", async () => {
    const trx = await knex.transaction();
    const others = [
      trx,
      makeKnex({ client: "pgnative" }),
      makeKnex({ client: "cockroachdb" }),
      {},
      undefined,
    ];
    for (const other of others) {
      expect(() => knexTransactions({ knex: other as KnexDatabase })).toThrow(TypeError);
      expect(() => knexPool(other as KnexDatabase)).toThrow(TypeError);
    }
    await trx.rollback();
    expect(() => knexTransactions({ knex, connectTimeoutMs: 0 })).toThrow(TypeError);
  });
});
