/** Prisma on a transaction that Latchkey has opened: Prisma's own `$transaction` makes the `tx` that handlers expect. */
import { LatchkeyError } from "../../errors.ts";
import type { BridgeSession, BridgeWork } from "../transaction.ts";

/** A `PrismaClient`, extended or not, as far as Latchkey needs it. */
export interface PrismaDatabase {
  $transaction: (...args: never[]) => unknown;
  $extends: unknown;
}

/** The argument of the callback of `prisma.$transaction()`, like `Prisma.TransactionClient`. */
export type PrismaTx<P extends PrismaDatabase> = P["$transaction"] extends (
  work: (tx: infer Tx) => infer _,
  options?: infer _,
) => unknown
  ? Tx
  : never;

/** A PrismaClient as Latchkey calls it. */
export interface PrismaClient<Tx> {
  $transaction(
    work: (tx: Tx) => Promise<void>,
    options: { readonly timeout: number; readonly maxWait: number },
  ): Promise<void>;
}

interface Operation {
  readonly args: unknown;
  readonly query: (args: unknown) => Promise<unknown>;
}

/** The longest delay of a timer. How long a handler may take is up to the operation's `transactionLimitMs`. */
const unlimitedMs = 2_147_483_647;

/**
 * The client through which handlers' transactions are opened.
 *
 * @throws {TypeError} when `prisma` is not a PrismaClient
 */
export function clientOf<P extends PrismaDatabase>(prisma: P | undefined): PrismaClient<PrismaTx<P>> {
  if (typeof prisma?.$extends !== "function" || typeof prisma.$transaction !== "function") {
    throw new TypeError("prisma must be a PrismaClient");
  }
  return prisma.$extends({ name: "latchkey", query: { $allOperations: revoking } });
}

/** Turns Prisma's error for a statement after the end (P2028) into the error that all bridges have for it. */
async function revoking({ args, query }: Operation): Promise<unknown> {
  try {
    return await query(args);
  } catch (cause) {
    const isClosed = cause instanceof Error && "code" in cause && cause.code === "P2028";
    throw isClosed ? new LatchkeyError("tx-revoked", { cause }) : cause;
  }
}

/** How Prisma's transaction is opened on Latchkey's, and how it ends. */
export interface PrismaOpening<Tx> {
  readonly client: PrismaClient<Tx>;
  /** Runs a function in which Prisma takes its client out of the pool. */
  within<T>(open: () => T): T;
  started(): boolean;
  ended(): void;
}

export async function workThroughPrisma<Tx, T>(
  opening: PrismaOpening<Tx>,
  session: Omit<BridgeSession<unknown>, "tx">,
  work: (session: BridgeSession<Tx>) => Promise<BridgeWork<T>>,
): Promise<BridgeWork<T>> {
  const handler = Promise.withResolvers<void>();
  const { tx, closed } = await openThroughPrisma(opening, handler.promise);
  try {
    const result = await work({ ...session, tx });
    opening.ended();
    handler.resolve();
    // Prisma waits for its own savepoints, which may hang as the handler does; an abandoned transaction must not wait for them.
    if (result.end === "commit") await closed;
    return result;
  } finally {
    opening.ended();
    handler.resolve();
  }
}

async function openThroughPrisma<Tx>(
  { client, within, started }: PrismaOpening<Tx>,
  handled: Promise<void>,
): Promise<{ readonly tx: Tx; readonly closed: Promise<void> }> {
  const opened = Promise.withResolvers<Tx>();
  const closed = within(() =>
    client.$transaction(
      (tx) => {
        if (!started()) throw new TypeError(otherPool);
        opened.resolve(tx);
        return handled;
      },
      { timeout: unlimitedMs, maxWait: unlimitedMs },
    ),
  );
  closed.catch(opened.reject);
  return { tx: await opened.promise, closed };
}

const otherPool =
  "Prisma opened its transaction on another connection: make its adapter with `new PrismaPg(prismaPool(pool))`, and give the same `pool` to prismaTransactions";
