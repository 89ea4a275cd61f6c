import type { Client } from "../../client.ts";
import { pool } from "../../untyped-pool.ts";

export const typeorm: Client = {
  name: "typeorm",
  docs: {
    title: "TypeORM",
    versions: "TypeORM 0.3 and 1 on `pg`",
    tx: "`EntityManager`",
    nested: "`tx.transaction()`",
    connection: "a `QueryRunner` on a given client",
    traps: "repositories that do not come from `tx` are outside of the transaction",
    gives: "`typeormTransactions`, so that handlers get TypeORM's own `EntityManager`, and `typeormPool`",
  },
  ways: {
    TypeORM: { package: "typeorm", reports: "success", onGivenPool: false },
  },
  bridge: {
    factory: "typeormTransactions",
    options: { dataSource: { isInitialized: true, options: { type: "postgres" }, driver: { master: pool } } },
  },
  adapter: () => import("../../../../packages/latchkey/src/sql/typeorm.ts"),
  open: () => import("./ways.ts"),
};
