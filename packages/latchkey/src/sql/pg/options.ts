import type { OptionNames } from "../../known-options.ts";
import { type Clock, type Ports, systemPorts } from "../../ports.ts";
import type { PgPool } from "./client.ts";
import { Connections } from "./connections.ts";

export interface PgOptions<P extends PgPool> {
  /** A `pg` Pool of the user's, with the JavaScript client (not `pg-native`). */
  readonly pool: P;
  /** The longest wait for a connection of the pool, or until fewer than `transactionsMax` transactions run. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** The longest wait for the reply to Latchkey's own statements, COMMIT included. Default 15,000. */
  readonly statementTimeoutMs?: number;
  /**
   * How many protected transactions run at once over this pool; the others wait. Default: one less than the pool's
   * `max`, so that handlers which use the pool beside their `tx` make progress.
   */
  readonly transactionsMax?: number;
  /**
   * Whether statements are prepared under names once per connection. Default true. Set it to false for poolers that give a
   * connection to another client after each transaction and do not support prepared statements (pgbouncer before 1.21).
   */
  readonly namedStatements?: boolean;
  /**
   * Whether a statement with parameters that handlers send repeatedly through `tx` gets a name, too, from its fifth time on:
   * at most 100 texts for each pool. When the server refuses one because of its name, the transaction runs again without
   * the name. Default true; false where `namedStatements` is.
   */
  readonly namedHandlerStatements?: boolean;
  /** The process's clock and randomness. Default: the system's. */
  readonly ports?: Pick<Ports, "clock"> & Partial<Pick<Ports, "random">>;
}

export const pgOptionNames = {
  pool: true,
  connectTimeoutMs: true,
  statementTimeoutMs: true,
  transactionsMax: true,
  namedStatements: true,
  namedHandlerStatements: true,
  ports: true,
} as const satisfies OptionNames<PgOptions<PgPool>>;

const defaults = { connectTimeoutMs: 5_000, statementTimeoutMs: 15_000 };

/** @throws {TypeError} when an option is out of range */
export function openConnections<P extends PgPool>(options: PgOptions<P>): Connections {
  const { pool, transactionsMax } = options;
  if (typeof pool?.connect !== "function") throw new TypeError("pool must be a `pg` Pool");
  const clock: Clock = (options.ports ?? systemPorts).clock;
  const connections = new Connections(pool, {
    clock,
    random: options.ports?.random ?? systemPorts.random,
    connectTimeoutMs: positive("connectTimeoutMs", options.connectTimeoutMs ?? defaults.connectTimeoutMs),
    statementTimeoutMs: positive(
      "statementTimeoutMs",
      options.statementTimeoutMs ?? defaults.statementTimeoutMs,
    ),
    namedStatements: options.namedStatements ?? true,
    namedHandlerStatements: options.namedHandlerStatements ?? true,
  });
  if (transactionsMax !== undefined) {
    connections.transactionsMax = positive("transactionsMax", transactionsMax);
  }
  return connections;
}

function positive(name: string, value: number): number {
  if (!Number.isSafeInteger(value) || value <= 0) {
    throw new TypeError(`${name} must be a positive whole number (got ${value})`);
  }
  return value;
}
