import type { Client } from "../../client.ts";

export const knex: Client = {
  name: "knex",
  docs: {
    title: "Knex and Objection",
    versions: "Knex 2 and 3 on `pg`, Objection 3",
    tx: "`Knex.Transaction`",
    nested: "`tx.transaction()`",
    connection: "`knex.transaction()` on a given connection",
    traps: "messages of errors contain the statement's values",
    gives:
      "`knexTransactions`, so that handlers get Knex's own `trx`, also for Objection's models, and `knexPool`",
  },
  ways: {
    Knex: { package: "knex", reports: "success", onGivenPool: true },
    Objection: { package: "objection", reports: "success", onGivenPool: true },
  },
  moreExamples: ["objection"],
  bridge: {
    factory: "knexTransactions",
    options: {
      knex: {
        client: { driverName: "pg", acquireConnection: async () => null },
        transaction: async () => null,
      },
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/sql/knex.ts"),
  open: () => import("./ways.ts"),
};
