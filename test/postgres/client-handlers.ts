/** What handlers get under every database client, with the client's real library: the cases that need nothing of its own. */
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import type { PgPool } from "../../packages/latchkey/src/sql/pg/client.ts";
import type { TransactionBridge } from "../../packages/latchkey/src/sql/transaction.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { migratedDatabase, openPool } from "./harness.ts";

export interface ClientUnderTest<Db, Tx> {
  /** Opens it on a pool of at most `max` connections. It is closed with the test file. */
  open(url: string, max?: number): Db | Promise<Db>;
  transactions(db: Db): TransactionBridge<Tx>;
  /** The client's own pool, for records and migrations. */
  pool(db: Db): PgPool;
  insert(tx: Tx, account: string, db: Db): PromiseLike<unknown>;
  /** The first row. */
  query(tx: Tx, text: string, db: Db): Promise<Readonly<Record<string, unknown>>>;
  /** The client's nested transaction. */
  nested(tx: Tx, work: (nested: Tx) => PromiseLike<unknown>, db: Db): Promise<unknown>;
}

export interface PaymentsDatabase<Db, Tx> {
  readonly url: string;
  readonly observer: pg.Pool;
  /** What is committed, in the order of insertion. */
  accounts(): Promise<readonly string[]>;
  /** An operation of its own, whose records share the connections of the client's pool. */
  payThrough(
    db: Db,
  ): (
    key: string,
    handler: (tx: Tx) => Promise<unknown>,
  ) => ReturnType<ReturnType<typeof createLatchkey>["run"]>;
}

/** A database with a table of payments, made before the tests of a `describe` and closed after them. */
export function paymentsDatabase<Db, Tx>(client: ClientUnderTest<Db, Tx>): PaymentsDatabase<Db, Tx> {
  let url = "";
  let observer: pg.Pool;
  let operations = 0;
  beforeAll(async () => {
    url = await migratedDatabase();
    observer = openPool(url, { max: 2 });
    await observer.query(
      "create table payments (id integer generated always as identity primary key, account text not null)",
    );
  });
  afterAll(() => observer?.end());
  return {
    get url() {
      return url;
    },
    get observer() {
      return observer;
    },
    async accounts() {
      const { rows } = await observer.query<{ account: string }>("select account from payments order by id");
      return rows.map(({ account }) => account);
    },
    payThrough(db) {
      const transactions = client.transactions(db);
      const latchkey = createLatchkey({ store: postgresStore({ pool: client.pool(db), transactions }) });
      const operation = latchkey.operation(`payments-${++operations}`);
      return (key, handler) =>
        latchkey.run(operation, { tenant: "t", key, input: key }, ({ tx }) => handler(tx));
    },
  };
}

interface Bench<Db, Tx> {
  readonly client: ClientUnderTest<Db, Tx>;
  readonly payments: ReturnType<typeof paymentsDatabase<Db, Tx>>;
  /** Opened before the first case. */
  readonly db: () => Db;
  readonly insert: (tx: Tx, account: string, over?: Db) => Promise<string>;
}

/** Registers the cases; call it inside a `describe` named after the client. */
export function handlerCases<Db, Tx>(client: ClientUnderTest<Db, Tx>): void {
  const payments = paymentsDatabase(client);
  let opened: Db;
  beforeAll(async () => {
    opened = await client.open(payments.url);
  });
  const insert = async (tx: Tx, account: string, over = opened) => {
    await client.insert(tx, account, over);
    return account;
  };
  const bench = { client, payments, db: () => opened, insert };
  casesInOneTransaction(bench);
  casesOfThePool(bench);
}

function casesInOneTransaction<Db, Tx>({ client, payments, db, insert }: Bench<Db, Tx>): void {
  test("a nested transaction is a savepoint", async () => {
    await payments.payThrough(db())("nested", async (tx) => {
      await insert(tx, "outer");
      const inner = client.nested(
        tx,
        async (nested) => {
          await insert(nested, "inner");
          throw new Error("only the inner one");
        },
        db(),
      );
      await expect(inner).rejects.toThrow("only the inner one");
      await client.nested(tx, (nested) => insert(nested, "inner, kept"), db());
    });
    expect((await payments.accounts()).filter((account) => /inner|outer/u.test(account))).toEqual([
      "outer",
      "inner, kept",
    ]);
  });

  test("an error that the handler swallows is Latchkey's error, and the key is free", async () => {
    const pay = payments.payThrough(db());
    const swallowing = pay("swallowed", async (tx) => {
      await insert(tx, "swallowed");
      await client.query(tx, "select 1 / 0", db()).catch(() => {});
      return "paid";
    });
    await expect(swallowing).rejects.toMatchObject({ code: "transaction-aborted" });
    expect(await payments.accounts()).not.toContain("swallowed");
    expect(await pay("swallowed", (tx) => insert(tx, "no more"))).toMatchObject({ kind: "executed" });
  });

  test("a serialization failure inside the client's wrapping runs the handler again", async () => {
    let runs = 0;
    const result = await payments.payThrough(db())("conflict", async (tx) => {
      runs += 1;
      await insert(tx, `run ${runs}`);
      const conflict = "do $$ begin raise exception 'conflict' using errcode = '40001'; end $$";
      if (runs === 1) await client.query(tx, conflict, db());
      return runs;
    });
    expect(result).toMatchObject({ kind: "executed", value: 2 });
    expect((await payments.accounts()).filter((account) => account.startsWith("run"))).toEqual(["run 2"]);
  });
}

function casesOfThePool<Db, Tx>({ client, payments, insert }: Bench<Db, Tx>): void {
  test("after its connections were killed, the next request is served", async () => {
    const own = await client.open(payments.url, 3);
    const pay = payments.payThrough(own);
    await Promise.all(["a", "b"].map((key) => pay(`warm ${key}`, (tx) => insert(tx, "warm", own))));
    const killed = pay("killed", async (tx) => {
      const { pid } = await client.query(tx, "select pg_backend_pid() as pid", own);
      await payments.observer.query("select pg_terminate_backend($1)", [pid]);
      return insert(tx, "killed", own);
    });
    await expect(killed).rejects.toThrow();
    expect(await pay("next", (tx) => insert(tx, "after the kill", own))).toMatchObject({ kind: "executed" });
    expect(await payments.accounts()).not.toContain("killed");
  });
}
