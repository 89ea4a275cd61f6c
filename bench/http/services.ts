/** What the servers under measurement connect to; opened on first use. */
import type { Duplex } from "node:stream";
import { createLatchkey, type Latchkey, type Store } from "latchkey";
import { memoryStore } from "latchkey/memory";
import { type PgTx, postgresStore } from "latchkey/postgres";
import pg from "pg";
import type { Guard } from "./subject.ts";

/** `pg`'s own default, as most services have it. */
export const poolSize = 10;

let stream: pg.PoolConfig["stream"];

/** Makes connections that are opened from now on use streams of this kind. */
export function connectOver(given: () => Duplex): void {
  stream = given;
}

export function openPool(): pg.Pool {
  const connectionString = postgresUrl();
  return new pg.Pool({ connectionString, max: poolSize, ...(stream && { stream, idleTimeoutMillis: 0 }) });
}

export function postgresUrl(): string {
  return required("LATCHKEY_BENCH_POSTGRES");
}

export function redisUrl(): string {
  return required("LATCHKEY_BENCH_REDIS");
}

/** The handlers use only their `tx`, so no connection of the pool has to stay free for them. */
const transactionsMax = poolSize;

export function openOrders(guard: Guard) {
  const latchkey = createLatchkey({ store: postgresStore({ pool: openPool(), transactionsMax }) });
  const options = guard === "latchkey-optimistic" ? ({ admission: "optimistic" } as const) : {};
  return { latchkey, operation: latchkey.operation("orders.create", options) };
}

export interface Replays<Tx> {
  readonly latchkey: Latchkey<Tx>;
  readonly operation: ReturnType<Latchkey<Tx>["operation"]>;
}

/** The store of the replayed answers does not show in any adapter's types. */
export function openReplays(guard: Guard): Replays<unknown> {
  const store: Store<PgTx<pg.Pool>> | ReturnType<typeof memoryStore> =
    guard === "latchkey-memory" ? memoryStore() : postgresStore({ pool: openPool() });
  const latchkey = createLatchkey<unknown>({ store: store as Store<unknown> });
  // The handler writes nothing.
  return { latchkey, operation: latchkey.operation("answers.create", { writes: "none" }) };
}

function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; servers are started by the bench`);
  return value;
}
