/** Transactions through Prisma: handlers get Prisma's own `tx`. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { pgBridge } from "./pg/bridge.ts";
import type { PgPool } from "./pg/client.ts";
import { openConnections, type PgOptions, pgOptionNames } from "./pg/options.ts";
import { PrismaClientFacade, type PrismaPgClient } from "./prisma/client-facade.ts";
import { originalOf, prismaPool, withFacade } from "./prisma/pool.ts";
import { clientOf, type PrismaDatabase, type PrismaTx, workThroughPrisma } from "./prisma/session.ts";
import type { TransactionBridge } from "./transaction.ts";

export { type PrismaDatabase, type PrismaTx, prismaPool };

export interface PrismaOptions<P extends PrismaDatabase> extends PgOptions<PgPool> {
  /** A `PrismaClient` of Prisma 7, extended or not, whose adapter is `new PrismaPg(prismaPool(pool))`. */
  readonly prisma: P;
  /** The `pg` Pool under Prisma's adapter, in the same database as the store's records. */
  readonly pool: PgPool;
}

const prismaOptionNames = {
  ...pgOptionNames,
  prisma: true,
} as const satisfies OptionNames<PrismaOptions<PrismaDatabase>>;

/**
 * Makes the bridge that runs handlers inside Prisma's transactions. Latchkey opens and commits them on a client of
 * `pool`, with its own statements pipelined and COMMIT's tag checked; Prisma builds the handler's `tx` on that client.
 *
 * - `tx.$transaction()` inside a handler is a savepoint.
 * - Prisma's `timeout` and `maxWait` do not apply; the operation's `transactionLimitMs` does.
 * - A refused statement is a `PrismaClientKnownRequestError` with the `code` `transaction-control` or `tx-revoked`; once
 *   the transaction has ended, it is a `LatchkeyError`.
 *
 * @throws {TypeError} when `prisma` is not a PrismaClient, or an option is out of range; before the first handler, when
 * Prisma's adapter was not made with `prismaPool`
 */
export function prismaTransactions<P extends PrismaDatabase>(
  options: PrismaOptions<P>,
): TransactionBridge<PrismaTx<P>> {
  checkOptions("prismaTransactions", options, prismaOptionNames);
  checkPorts("prismaTransactions", options.ports);
  const { prisma, pool: given, ...limits } = options;
  const client = clientOf(prisma);
  const pool = originalOf(given) as PrismaPool;
  const bridge = pgBridge<PrismaPool>(openConnections({ ...limits, pool }));
  return {
    name: "prisma",
    commitNotice: bridge.commitNotice,
    verify: () => bridge.verify?.(),
    transact: (request, work) =>
      bridge.transact(request, ({ tx, ...session }) => {
        const facade = new PrismaClientFacade(tx, request.isolation);
        const opening = {
          client,
          within: <T>(open: () => T) => withFacade(pool, facade, open),
          started: () => facade.started(),
          ended: () => facade.ended(),
        };
        return workThroughPrisma(opening, session, work);
      }),
  };
}

interface PrismaPool extends PgPool {
  connect: () => Promise<PrismaPgClient>;
}
