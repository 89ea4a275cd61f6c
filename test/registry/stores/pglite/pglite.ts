import type { RegisteredStore } from "../../store.ts";

export const pglite: RegisteredStore = {
  name: "pglite",
  docs: {
    versions: "PGlite for development",
    gives: "the store over PGlite, Postgres inside the process: the default for development",
  },
  transactions: true,
  keptIn: "files",
  protocols: [],
  options: { database: { transaction: async () => null } },
  adapter: () => import("../../../../packages/latchkey/src/stores/pglite.ts"),
  fixture: () => import("./fixture.ts"),
};
