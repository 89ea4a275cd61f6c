import type { Client } from "../../client.ts";
import { pool } from "../../untyped-pool.ts";

export const pg: Client = {
  name: "pg",
  docs: {
    title: "pg",
    alsoIn: ["postgres"],
    versions: "`pg` 8",
    tx: "the pool's client",
    nested: "`savepoint`, by hand",
    connection: "`tx` is that connection, behind a guard",
    traps: "`pool.query()` in a handler is outside the transaction",
    gives: "`pgTransactions`, for a store whose handlers use another `pg` pool than its records",
  },
  ways: {
    pg: { package: "pg", reports: "success", when: "COMMIT by hand", onGivenPool: true },
  },
  bridge: { factory: "pgTransactions", options: { pool } },
  adapter: () => import("../../../../packages/latchkey/src/sql/pg.ts"),
  open: () => import("./ways.ts"),
};
