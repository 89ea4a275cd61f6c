import type { Client } from "../../client.ts";

export const sequelize: Client = {
  name: "sequelize",
  docs: {
    title: "Sequelize",
    versions: "Sequelize 6 on `pg`",
    tx: "`Transaction`",
    nested: "`sequelize.transaction({ transaction: tx }, …)`",
    connection: "a `Transaction` on a given connection",
    traps: "a query without `{ transaction: tx }` is outside of the transaction, unless `useCLS()` is on",
    gives: "`sequelizeTransactions`, so that handlers get Sequelize's own `Transaction`, and `sequelizePool`",
  },
  ways: {
    Sequelize: { package: "sequelize", reports: "success", onGivenPool: false },
  },
  bridge: {
    factory: "sequelizeTransactions",
    options: {
      sequelize: {
        getDialect: () => "postgres",
        connectionManager: { getConnection: async () => null },
        options: {},
        transaction: async () => null,
      },
    },
  },
  adapter: () => import("../../../../packages/latchkey/src/sql/sequelize.ts"),
  open: () => import("./ways.ts"),
};
