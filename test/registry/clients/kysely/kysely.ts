import type { Client } from "../../client.ts";
import { pool } from "../../untyped-pool.ts";

export const kysely: Client = {
  name: "kysely",
  docs: {
    title: "Kysely",
    versions: "Kysely 0.28 and 0.29 on `pg` or PGlite",
    tx: "`ControlledTransaction`",
    nested: "`tx.savepoint()`",
    connection: "a dialect whose only connection is Latchkey's",
    traps:
      "`tx` has savepoints but no `transaction()`, which would commit; row counts are `bigint`s, which are not JSON",
    gives: "`kyselyTransactions`, so that handlers get Kysely's own `ControlledTransaction`",
  },
  ways: {
    Kysely: {
      package: "kysely",
      reports: "failure",
      failure: "`AbortedTransactionError`",
      onGivenPool: true,
    },
  },
  bridge: { factory: "kyselyTransactions", options: { db: {}, pool } },
  adapter: () => import("../../../../packages/latchkey/src/sql/kysely.ts"),
  open: () => import("./ways.ts"),
};
