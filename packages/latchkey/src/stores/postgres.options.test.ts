/** What a Postgres store is made of, and what it refuses to be made of. */
import pg from "pg";
import { describe, expect, expectTypeOf, test } from "vitest";
import type { TransactionBridge } from "../sql/transaction.ts";
import { migratePostgres, type PostgresStore, postgresStore } from "./postgres.ts";
import type { Store } from "./store.ts";

const capabilities = {
  transactions: true,
  optimisticAdmission: true,
  inProgress: "immediate",
  durability: "synced",
  commitNotice: true,
  fenceSurvivesFailover: true,
  statusReads: "primary",
} as const;

describe("types", () => {
  test("`tx` follows from the pool, or from the bridge that is given", () => {
    const pool = new pg.Pool();
    const store = postgresStore({ pool });
    expectTypeOf(store).toEqualTypeOf<PostgresStore<Omit<pg.PoolClient, "release">>>();
    expectTypeOf(store).toExtend<Store<Pick<pg.ClientBase, "query">>>();
    const transactions: TransactionBridge<{ orm: true }> = {
      name: "orm",
      commitNotice: false,
      transact: () => Promise.reject(new Error("not called")),
    };
    const withOrm = postgresStore({ pool, transactions });
    expectTypeOf(withOrm).toEqualTypeOf<PostgresStore<{ orm: true }>>();
    expect(store.capabilities).toEqual(capabilities);
    expect(withOrm.capabilities).toEqual({
      ...capabilities,
      optimisticAdmission: false,
      commitNotice: false,
    });
  });
});

describe("options", () => {
  const pool = new pg.Pool();

  test.each([
    "",
    "Latchkey",
    "a.b",
    'a"b',
    "a b",
    "1a",
    "a-b",
    "schéma",
    "a".repeat(64),
    "a;drop schema public",
    "a\u0000",
    "a\n",
  ])("schema %j is refused", (schema) => {
    expect(() => postgresStore({ pool, schema })).toThrow(TypeError);
    expect(() => migratePostgres(pool, { schema })).toThrow(TypeError);
  });

  test.each(["now", "now() ", "now(1)", "a.b.c()", "f();select 1", "F()", '"f"()'])(
    "time function %j is refused",
    (timeFunction) => {
      expect(() => postgresStore({ pool, timeFunction })).toThrow(TypeError);
    },
  );

  test("plain names are taken", () => {
    expect(postgresStore({ pool, schema: `_a9${"x".repeat(60)}`, timeFunction: "a_1.b_2()" }).name).toBe(
      "postgres",
    );
  });

  test("limits must be positive whole numbers, and a pool a pool", () => {
    expect(() => postgresStore({ pool, statementTimeoutMs: 0 })).toThrow(TypeError);
    // @ts-expect-error a connection string is not a pool
    expect(() => postgresStore({ pool: "postgres://" })).toThrow(TypeError);
  });
});
