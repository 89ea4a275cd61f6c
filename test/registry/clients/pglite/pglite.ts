import type { Client } from "../../client.ts";

export const pglite: Client = {
  name: "pglite",
  docs: {
    title: "PGlite",
    versions: "PGlite 0.5",
    tx: "`Transaction`",
    nested: "`savepoint`, by hand",
    connection: "it is PGlite's own transaction",
    traps: "one session: a handler that awaits the database instead of its `tx` waits for itself",
  },
  ways: {},
  adapter: () => import("../../../../packages/latchkey/src/stores/pglite.ts"),
  open: async () => ({ ways: {} }),
};
