import type { Client } from "../../client.ts";
import { pool } from "../../untyped-pool.ts";

export const prisma: Client = {
  name: "prisma",
  docs: {
    title: "Prisma",
    versions: "Prisma 7 on `@prisma/adapter-pg`",
    tx: "`Prisma.TransactionClient`",
    nested: "`tx.$transaction()`",
    connection: "`prismaPool`, which gives its adapter Latchkey's client for one transaction",
    traps:
      "an adapter made without `prismaPool` uses another connection, so every protected request is refused; pin its packages to one version",
    gives: "`prismaTransactions` and `prismaPool`, so that handlers get Prisma's own `tx`",
  },
  ways: {
    Prisma: { package: "@prisma/client", reports: "success", onGivenPool: true },
  },
  bridge: { factory: "prismaTransactions", options: { prisma: {}, pool } },
  adapter: () => import("../../../../packages/latchkey/src/sql/prisma.ts"),
  open: () => import("./ways.ts"),
};
