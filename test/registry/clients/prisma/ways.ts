import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "../../../../examples/transactions/prisma/generated/client.ts";
import { prismaPool, prismaTransactions } from "../../../../packages/latchkey/src/sql/prisma.ts";
import type { OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  Prisma(pool) {
    const prisma = new PrismaClient({ adapter: new PrismaPg(prismaPool(pool)) });
    type Speaker = Pick<typeof prisma, "$executeRawUnsafe">;
    // As a statement without rows: Prisma cannot read a result of type void.
    const say =
      (tx: Speaker): Say =>
      (text, ...values) =>
        tx.$executeRawUnsafe(text, ...values);
    return {
      alone: (work) => prisma.$transaction((tx) => work(say(tx))),
      handle: through(pool, prismaTransactions({ prisma, pool }), say),
    };
  },
};
