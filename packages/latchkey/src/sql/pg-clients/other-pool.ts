/** Pools other than `pg`'s own whose connections are `pg` clients. */

interface Releasable {
  release?: (destroyed?: boolean) => void;
}

/** Clients that come out of a `pg` Pool have `release`; those of other pools get it here, once. */
export function releasable<C extends Releasable>(client: C, release: (destroyed: boolean) => void): C {
  if (client.release === undefined) {
    Object.defineProperty(client, "release", { value: (destroyed = false) => release(destroyed) });
  }
  return client;
}

/**
 * Takes a client out of a pool.
 *
 * @param timeoutName the name of the error that the pool throws when all its connections are in use
 * @throws what the pool throws; with `pg`'s message when all connections are in use, which is not an outage
 */
export async function acquireFrom<C>(acquire: () => Promise<C>, timeoutName: string): Promise<C> {
  try {
    return await acquire();
  } catch (error) {
    if (error instanceof Error && error.name === timeoutName) {
      throw new Error("timeout exceeded when trying to connect", { cause: error });
    }
    throw error;
  }
}
