/**
 * The connection that is reserved for heartbeats: one client of the pool, taken when the first attempt begins and released
 * when the last one has ended. So a pool full of transactions cannot make a lease run out.
 */
import type { CancelTimer } from "../../../ports.ts";
import type { Connection, Connections } from "../../../sql/pg/connections.ts";
import type { SqlRow, SqlStatement } from "../../../sql/transaction.ts";
import { autocommit } from "../autocommit.ts";
import type { Heartbeats } from "../executor.ts";
import { asSchemaError } from "../settings.ts";

/** A stale connection costs a try. */
const triesMax = 2;

export class PoolHeartbeats implements Heartbeats {
  readonly #connections: Connections;
  /** Attempts that may beat, by token. */
  readonly #live = new Map<string, CancelTimer>();
  #kept: Promise<Kept> | null = null;
  /** Heartbeats run one after the other, because they share a connection. */
  #turn: Promise<unknown> = Promise.resolve();
  #beating = 0;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  async hold(token: string, leaseMs: number): Promise<void> {
    if (this.#connections.max === 1) {
      throw new TypeError(
        "`lease` execution needs a pool of at least 2 connections: one is kept for heartbeats",
      );
    }
    this.#live.get(token)?.();
    // An attempt that never ends must not keep a connection for ever.
    this.#live.set(
      token,
      this.#connections.options.clock.startTimer(leaseMs, () => this.drop(token), "background"),
    );
    try {
      await this.#keep();
    } catch (error) {
      this.drop(token);
      throw error;
    }
  }

  holds(token: string): boolean {
    return this.#live.has(token);
  }

  drop(token: string): void {
    this.#live.get(token)?.();
    this.#live.delete(token);
    this.#giveBackIfIdle();
  }

  /** Releases the connection even while attempts still run. Resolves when it is back in the pool. */
  async close(): Promise<void> {
    for (const token of [...this.#live.keys()]) this.drop(token);
    await this.#turn;
    this.#giveBackIfIdle();
  }

  async beat(statement: SqlStatement): Promise<readonly SqlRow[]> {
    this.#beating += 1;
    const turn = this.#turn.then(() => this.#beatNow(statement));
    this.#turn = turn.catch(() => {});
    try {
      return await turn;
    } finally {
      this.#beating -= 1;
      this.#giveBackIfIdle();
    }
  }

  async #beatNow(statement: SqlStatement): Promise<readonly SqlRow[]> {
    for (let tries = 1; ; tries++) {
      const { connection } = await this.#keep();
      const result = await autocommit(connection, statement, "write");
      if ("rows" in result) return result.rows;
      if (result.again === "no" || tries === triesMax) throw asSchemaError(result.error);
    }
  }

  /** The kept connection, or a new one if that has broken. */
  async #keep(): Promise<Kept> {
    const before = this.#kept;
    if (before !== null) {
      const kept = await before;
      if (kept.connection.usable) return kept;
      kept.unreserve();
      kept.connection.destroy();
      if (this.#kept === before) this.#kept = null;
    }
    this.#kept ??= this.#take();
    return this.#kept;
  }

  #take(): Promise<Kept> {
    const unreserve = this.#connections.reserve();
    const kept = this.#connections.take().then((connection) => ({ connection, unreserve }));
    kept.catch(() => {
      unreserve();
      if (this.#kept === kept) this.#kept = null;
    });
    return kept;
  }

  #giveBackIfIdle(): void {
    if (this.#live.size > 0 || this.#beating > 0) return;
    const kept = this.#kept;
    this.#kept = null;
    kept?.then(
      ({ connection, unreserve }) => {
        connection.giveBack();
        unreserve();
      },
      () => {},
    );
  }
}

interface Kept {
  readonly connection: Connection;
  /** Calling it twice must do nothing. */
  readonly unreserve: () => void;
}
