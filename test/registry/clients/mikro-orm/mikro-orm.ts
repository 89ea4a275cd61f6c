import type { Client } from "../../client.ts";
import { pool } from "../../untyped-pool.ts";

export const mikroOrm: Client = {
  name: "mikro-orm",
  docs: {
    title: "MikroORM",
    versions: "MikroORM 7 on `pg`",
    tx: "`EntityManager`",
    nested: "`tx.transactional()`",
    connection: "a fork of its EntityManager on a Kysely transaction, made as for Kysely",
    traps:
      "the flush comes after the handler, so its errors come late; pin all packages of `@mikro-orm` to one version",
    gives: "`mikroOrmTransactions`, so that handlers get MikroORM's own `EntityManager`, and `mikroOrmPool`",
  },
  ways: {
    MikroORM: { package: "@mikro-orm/postgresql", reports: "success", onGivenPool: true },
  },
  bridge: { factory: "mikroOrmTransactions", options: { orm: {}, pool } },
  adapter: () => import("../../../../packages/latchkey/src/sql/mikro-orm.ts"),
  open: () => import("./ways.ts"),
};
