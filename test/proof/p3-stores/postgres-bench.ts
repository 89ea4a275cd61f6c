import pg from "pg";
import { migratePostgres, postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { StoreKind } from "./bench.ts";
import { type RunSql, SqlSchema } from "./sql-bench.ts";

/** Heartbeats keep one, a handler's transaction has another, and a duplicate beside it a third. */
const connectionsMax = 4;

export const postgres: StoreKind = {
  name: "postgres",
  async open({ lane, postgres: server }) {
    if (server === null) return null;
    const schema = `lane${lane}`;
    const pool = new pg.Pool({ ...server, max: connectionsMax, idleTimeoutMillis: 0 });
    pool.on("error", () => {});
    const observer = new pg.Client(server);
    observer.on("error", () => {});
    await observer.connect();
    // Each part opens its lanes anew.
    await observer.query(`drop schema if exists ${schema} cascade`);
    await migratePostgres(pool, { schema });
    const sql = new SqlSchema(schema, runOn(observer));
    await sql.prepare();
    const { timeFunction } = sql;
    return {
      name: "postgres",
      version: await sql.version(),
      async close() {
        await pool.end();
        await observer.end();
      },
      async begin(clock) {
        await sql.empty(clock.wallMs());
        const store = postgresStore({ pool, schema, timeFunction, notify: false, ports: { clock } });
        return { name: "postgres", store, ...sql.door, end: () => store.close() };
      },
    };
  },
};

function runOn(client: pg.Client): RunSql {
  return async (text) => {
    // Of several statements the client answers a list.
    const results = [await client.query(text)].flat() as readonly pg.QueryResult[];
    return results.at(-1)?.rows ?? [];
  };
}
