import type { ClientFacade } from "./session.ts";

/** A facade for a PGlite database on which a transaction is open: Drizzle gets that one when it opens a transaction. */
export function pgliteClientFacade(tx: unknown): ClientFacade {
  let asked = false;
  return {
    client: {
      transaction: async (work: (tx: unknown) => Promise<unknown>) => {
        asked = true;
        return work(tx);
      },
    },
    started: () => asked,
    ended() {},
  };
}
