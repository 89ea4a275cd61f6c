import type { Client } from "../../client.ts";

export const postgresJs: Client = {
  name: "postgres-js",
  docs: {
    title: "postgres.js",
    versions: "`postgres` 3.4",
    tx: "`TransactionSql`",
    nested: "`tx.savepoint()`",
    connection: "a reserved connection",
    traps:
      "outside of Latchkey, a query sent after its connection breaks (in `begin()` or after `reserve()`) ends the process",
    gives: "`postgresJsTransactions`, so that handlers get the `TransactionSql` of postgres.js",
  },
  ways: {
    "postgres.js, with a cursor": {
      package: "postgres",
      reports: "success",
      when: "when the error comes from a cursor",
      onGivenPool: false,
    },
    "postgres.js": {
      package: "postgres",
      reports: "failure",
      failure: "the swallowed error",
      when: "otherwise",
      onGivenPool: false,
    },
  },
  bridge: { factory: "postgresJsTransactions", options: { sql: {} } },
  adapter: () => import("../../../../packages/latchkey/src/sql/postgres-js.ts"),
  open: () => import("./ways.ts"),
};
