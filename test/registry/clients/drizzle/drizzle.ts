import type { Client } from "../../client.ts";
import { pool } from "../../untyped-pool.ts";

export const drizzle: Client = {
  name: "drizzle",
  docs: {
    title: "Drizzle",
    versions: "Drizzle 0.45 on `pg` or PGlite",
    tx: "the type of `db.transaction()`",
    nested: "`tx.transaction()`",
    connection: "its session runs on a stand-in for its client that drops BEGIN and COMMIT",
    traps: "errors are wrapped, and their messages contain the statement's values",
    gives: "`drizzleTransactions`, so that handlers get Drizzle's own `tx`",
  },
  ways: {
    Drizzle: { package: "drizzle-orm", reports: "success", onGivenPool: true },
  },
  bridge: { factory: "drizzleTransactions", options: { db: { $client: pool } } },
  adapter: () => import("../../../../packages/latchkey/src/sql/drizzle.ts"),
  open: () => import("./ways.ts"),
};
