import { migratePglite, pgliteStore } from "../../../packages/latchkey/src/stores/pglite.ts";
import { readyPglite } from "../../support/ready-pglite.ts";
import type { StoreKind } from "./bench.ts";
import { SqlSchema } from "./sql-bench.ts";

const schema = "latchkey";

export const pglite: StoreKind = {
  name: "pglite",
  async open() {
    const database = await readyPglite();
    await migratePglite(database, { schema });
    const sql = new SqlSchema(schema, async (text) => (await database.exec(text)).at(-1)?.rows ?? []);
    await sql.prepare();
    const { timeFunction } = sql;
    return {
      name: "pglite",
      version: await sql.version(),
      close: () => database.close(),
      async begin(clock) {
        await sql.empty(clock.wallMs());
        const store = pgliteStore({ database, schema, timeFunction, ports: { clock } });
        return { name: "pglite", store, ...sql.door, end: async () => {} };
      },
    };
  },
};
