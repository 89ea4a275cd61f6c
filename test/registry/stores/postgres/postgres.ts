import type { RegisteredStore } from "../../store.ts";
import { pool } from "../../untyped-pool.ts";

export const postgres: RegisteredStore = {
  name: "postgres",
  docs: { versions: "Postgres 15 to 18", gives: "the Postgres store and its migrations" },
  transactions: true,
  keptIn: "server",
  protocols: ["postgres:", "postgresql:"],
  defaultPort: "5432",
  options: { pool },
  adapter: () => import("../../../../packages/latchkey/src/stores/postgres.ts"),
  fixture: () => import("./fixture.ts"),
};
