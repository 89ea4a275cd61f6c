import type pg from "pg";
import postgres from "postgres";
import { postgresJsTransactions } from "../../../../packages/latchkey/src/sql/postgres-js.ts";
import { onRelease } from "../../../support/resources.ts";
import type { OpenClient, OpenWay, Say } from "../../client.ts";
import { through } from "../through.ts";

export const ways: Readonly<Record<string, OpenWay>> = {
  "postgres.js": (pool) =>
    openPostgresJs(
      pool,
      (tx) =>
        async (text, ...values) =>
          tx.unsafe(text, values),
    ),
  "postgres.js, with a cursor": (pool) =>
    openPostgresJs(pool, (tx) => async (text, ...values) => {
      for await (const _ of tx.unsafe(text, values).cursor());
    }),
};

function openPostgresJs(pool: pg.Pool, say: (tx: postgres.TransactionSql) => Say): OpenClient {
  const { connectionString = "", options = "", max = 2, connectionTimeoutMillis = 30_000 } = pool.options;
  const connect_timeout = connectionTimeoutMillis / 1_000;
  const sql = postgres(connectionString, {
    max,
    connect_timeout,
    connection: { options },
    onnotice: () => {},
  });
  onRelease(() => sql.end({ timeout: 0 }));
  return {
    alone: async <T>(work: (say: Say) => Promise<T>) => (await sql.begin((tx) => work(say(tx)))) as T,
    handle: through(pool, postgresJsTransactions({ sql }), say),
  };
}
