import type { Client } from "../../client.ts";
import { pool } from "../../untyped-pool.ts";

export const mikroOrm: Client = {
  name: "mikro-orm",
  docs: {
    title: "MikroORM",
    versions: "MikroORM 7 on `pg`",
    tx: "`EntityManager`",
    nested: "`tx.transactional()`",
    connection: "a fork of its EntityManager on such a Kysely transaction",
    traps: "the flush comes at the end, so errors come late; pin all packages of `@mikro-orm` to one version",
    gives: "`mikroOrmTransactions`, so that handlers get MikroORM's own `EntityManager`, and `mikroOrmPool`",
  },
  ways: {
    MikroORM: { package: "@mikro-orm/postgresql", reports: "success", onGivenPool: true },
  },
  bridge: { factory: "mikroOrmTransactions", options: { orm: {}, pool } },
  adapter: () => import("../../../../packages/latchkey/src/sql/mikro-orm.ts"),
  open: () => import("./ways.ts"),
};
