import type { StandIn } from "./session.ts";

/** Stands in for a PGlite database on which a transaction is open: Drizzle gets that one when it asks for one. */
export function pgliteStandIn(tx: unknown): StandIn {
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
