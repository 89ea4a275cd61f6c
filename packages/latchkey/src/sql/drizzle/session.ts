/**
 * Drizzle on a transaction that Latchkey has opened. Drizzle's own `transaction()` makes the `tx` that handlers expect,
 * but on a facade for its client: its BEGIN, COMMIT and ROLLBACK are not sent, everything else goes to the guarded client.
 * So the guard sees every statement that the driver sends, however it was built.
 */
import type { BridgeWork } from "../transaction.ts";

/** A database made by `drizzle()` from `drizzle-orm/node-postgres` or `drizzle-orm/pglite`. */
export interface DrizzleDatabase {
  readonly $client: unknown;
  readonly _: { readonly session: object };
  transaction: (work: never, config?: never) => Promise<unknown>;
}

/** The argument of the callback of `db.transaction()`. */
export type DrizzleTx<D extends DrizzleDatabase> = D["transaction"] extends (
  work: (tx: infer Tx) => Promise<infer _>,
  ...config: never[]
) => unknown
  ? Tx
  : never;

/** Drizzle's session, with members that its published types leave out. */
interface DrizzleSession<Tx> {
  client: unknown;
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

/** How a client's transactions look to Drizzle. */
export interface ClientFacade {
  /** Takes the place of the client that Drizzle's session holds. */
  readonly client: object;
  /** Called when Drizzle has passed on its `tx`. False if it opened that on something else. */
  started(): boolean;
  /** Called when the handler is done with it. */
  ended(): void;
}

/** @param session the client's session; Drizzle's `tx` replaces the one in it */
export async function workThroughDrizzle<D extends DrizzleDatabase, S extends object, T>(
  db: D,
  facade: ClientFacade,
  session: S,
  work: (session: S & { readonly tx: DrizzleTx<D> }) => Promise<BridgeWork<T>>,
): Promise<BridgeWork<T>> {
  const original = db._.session as DrizzleSession<DrizzleTx<D>>;
  const own: DrizzleSession<DrizzleTx<D>> = Object.create(original, { client: { value: facade.client } });
  return own.transaction(async (tx) => {
    if (!facade.started())
      throw new TypeError("This version of Drizzle is not supported: it hides its client");
    try {
      return await work({ ...session, tx });
    } finally {
      facade.ended();
    }
  });
}
