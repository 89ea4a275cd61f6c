import type { TransactionBridge } from "latchkey";
import { pgTransactions } from "latchkey/pg";
import type pg from "pg";

/** Your client. Whatever it offers, it sends its statements through a client of `pg`. */
export class Db {
  readonly #client: Pick<pg.ClientBase, "query">;
  constructor(client: Pick<pg.ClientBase, "query">) {
    this.#client = client;
  }

  async rows<Row extends pg.QueryResultRow>(text: string, ...values: unknown[]): Promise<Row[]> {
    return (await this.#client.query<Row>(text, values)).rows;
  }

  /** A transaction inside of one is a savepoint. */
  async nested<T>(work: (db: Db) => Promise<T>): Promise<T> {
    await this.#client.query("savepoint nested");
    try {
      return await work(this);
    } catch (error) {
      await this.#client.query("rollback to savepoint nested");
      throw error;
    } finally {
      await this.#client.query("release savepoint nested");
    }
  }
}

export function dbTransactions({ pool }: { readonly pool: pg.Pool }): TransactionBridge<Db> {
  const bridge = pgTransactions({ pool });
  return {
    name: "db",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    transact: (request, work) =>
      bridge.transact(request, ({ tx, ...session }) => work({ ...session, tx: new Db(tx) })),
  };
}
