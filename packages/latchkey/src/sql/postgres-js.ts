/** Transactions through postgres.js: handlers get its own `TransactionSql`. */

import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { systemPorts } from "../ports.ts";
import type { PgPool } from "./pg/client.ts";
import type { PgOptions } from "./pg/options.ts";
import { shareOf } from "./pg/pool-share.ts";
import { transact } from "./postgres-js/bridge.ts";
import type { Client, PostgresJsSql, PostgresJsTx } from "./postgres-js/client.ts";
import type { TransactionBridge } from "./transaction.ts";

export type { PostgresJsSql, PostgresJsTx };

export interface PostgresJsOptions<S extends PostgresJsSql>
  extends Pick<PgOptions<PgPool>, "connectTimeoutMs" | "statementTimeoutMs" | "transactionsMax" | "ports"> {
  /** What `postgres()` of postgres.js 3.4 returns, on the same database as the store's records. */
  readonly sql: S;
}

const postgresJsOptionNames = {
  sql: true,
  connectTimeoutMs: true,
  statementTimeoutMs: true,
  transactionsMax: true,
  ports: true,
} as const satisfies OptionNames<PostgresJsOptions<PostgresJsSql>>;

/**
 * Makes the bridge that runs handlers inside transactions of postgres.js. Latchkey opens and commits them on a connection
 * of `sql`, and reads the answer to COMMIT, which `sql.begin()` does not.
 *
 * - `tx.savepoint()` is the nested transaction. `tx.prepare()` is refused with `transaction-control`.
 * - Warnings that come with COMMIT are not seen (`commitNotice: false`).
 *
 * @throws {TypeError} when `sql` is not of postgres.js, transforms whole rows, or an option is out of range
 */
export function postgresJsTransactions<S extends PostgresJsSql>(
  options: PostgresJsOptions<S>,
): TransactionBridge<PostgresJsTx<S>> {
  checkOptions("postgresJsTransactions", options, postgresJsOptionNames);
  checkPorts("postgresJsTransactions", options.ports);
  const { sql, connectTimeoutMs = 5_000, statementTimeoutMs = 15_000, transactionsMax } = options;
  const client = clientOf(sql);
  const { clock } = options.ports ?? systemPorts;
  const limits = { clock, connectTimeoutMs, statementTimeoutMs };
  for (const [name, value] of Object.entries({ connectTimeoutMs, statementTimeoutMs, transactionsMax })) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value > 0)) {
      throw new TypeError(`${name} must be a positive whole number (got ${value})`);
    }
  }
  // Keeps a connection free for handlers that use `sql` beside their `tx`, as with a `pg` Pool.
  const share = shareOf(sql as unknown as PgPool);
  if (transactionsMax !== undefined) share.transactionsMax = transactionsMax;
  return {
    name: "postgres-js",
    commitNotice: false,
    async transact(request, work) {
      const leave = await share.limit.enter(clock, connectTimeoutMs);
      try {
        return await transact(client, limits, request, (session) =>
          work({ ...session, tx: session.tx as PostgresJsTx<S> }),
        );
      } finally {
        leave();
      }
    },
  };
}

function clientOf(sql: PostgresJsSql): Client {
  const { options } = sql ?? {};
  if (
    typeof sql?.begin !== "function" ||
    typeof sql.unsafe !== "function" ||
    options?.transform === undefined
  ) {
    throw new TypeError("sql must be what `postgres()` of postgres.js returns");
  }
  if (options.transform.row.from !== undefined) {
    throw new TypeError(
      "`transform.row` of postgres.js is not supported: use `transform.column` or `transform.value`",
    );
  }
  return sql as unknown as Client;
}
