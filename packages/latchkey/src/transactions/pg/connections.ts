/** Clients of the user's pool: taken within a time limit, given back or destroyed exactly once. */
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import type { SqlStatement } from "../transaction.ts";
import type { PgClient, PgConnector, PgMessage, PgPool } from "./client.ts";
import { type FlightOptions, type FlightReply, fly } from "./flight.ts";
import { Gate } from "./gate.ts";
import { RepeatedStatements } from "./repeated-statements.ts";

export interface ConnectionOptions {
  readonly clock: Clock;
  /** The longest wait for a client of the pool. */
  readonly connectTimeoutMs: number;
  /** The longest wait for the reply to Latchkey's own statements. */
  readonly statementTimeoutMs: number;
  /** Whether statements are prepared under their names. */
  readonly namedStatements: boolean;
  /** Whether what handlers send again and again is prepared, too. */
  readonly namedHandlerStatements: boolean;
}

/** What all users of one pool in this process share. */
interface PoolShare {
  readonly gate: Gate;
  /** Clients that heartbeats hold. */
  reserved: number;
  transactionsMax: number;
  readonly repeated: RepeatedStatements;
}

const shares = new WeakMap<object, PoolShare>();

function shareOf(pool: PgPool): PoolShare {
  let share = shares.get(pool);
  if (share === undefined) {
    const made: PoolShare = {
      // One client stays free for handlers that use the pool beside their `tx`, if the pool has more than one.
      gate: new Gate(() => Math.max(1, made.transactionsMax - made.reserved)),
      reserved: 0,
      transactionsMax: pool.options?.max === undefined ? Number.POSITIVE_INFINITY : pool.options.max - 1,
      repeated: new RepeatedStatements(),
    };
    share = made;
    shares.set(pool, share);
  }
  return share;
}

export class Connections {
  readonly options: ConnectionOptions;
  readonly #connector: PgConnector;
  readonly #share: PoolShare;

  constructor(pool: PgPool, options: ConnectionOptions) {
    this.options = options;
    // `pg` overloads `connect` and types its clients as classes; `PgPool` lets users pass them without a cast.
    this.#connector = pool as PgPool & PgConnector;
    this.#share = shareOf(pool);
  }

  /** How many clients the pool has at most, if it says so. */
  get max(): number | undefined {
    return this.#connector.options?.max;
  }

  /** How many transactions may run at once over this pool; the latest caller decides. */
  set transactionsMax(max: number) {
    this.#share.transactionsMax = max;
  }

  /** The names of what handlers send; null: they get none. */
  get repeatedStatements(): RepeatedStatements | null {
    const { namedStatements, namedHandlerStatements } = this.options;
    return namedStatements && namedHandlerStatements ? this.#share.repeated : null;
  }

  /** Waits until another transaction may run; returns the function that ends this. */
  enterTransaction(): Promise<() => void> {
    return this.#share.gate.enter(this.options.clock, this.options.connectTimeoutMs);
  }

  /** Counts a client that is kept for long; returns the function that ends this. */
  reserve(): () => void {
    this.#share.reserved += 1;
    let reserved = true;
    return () => {
      if (!reserved) return;
      reserved = false;
      this.#share.reserved -= 1;
      this.#share.gate.admit();
    };
  }

  /**
   * Takes a client out of the pool.
   *
   * @throws {StoreError} `not_sent`
   */
  take(timeoutMs = this.options.connectTimeoutMs): Promise<Connection> {
    const { clock } = this.options;
    return new Promise((resolve, reject) => {
      let late = false;
      const cancel = clock.startTimer(timeoutMs, () => {
        late = true;
        const message = `The pool had no connection within ${timeoutMs} ms`;
        reject(new StoreError("not_sent", { message }));
      });
      const took = (client: PgClient) => {
        cancel();
        if (late) client.release();
        else resolve(new Connection(client, this.options));
      };
      const failed = (cause: unknown) => {
        cancel();
        reject(new StoreError("not_sent", { cause, message: "No connection to the database" }));
      };
      const promised = this.#connector.connect((error, client) => {
        if (client === undefined) failed(error);
        else took(client);
      });
      promised?.then(took, failed);
    });
  }
}

const always = () => true;

/** One client, from the moment it was taken until it is given back or destroyed. */
export class Connection {
  readonly client: PgClient;
  readonly #options: ConnectionOptions;
  #open = true;
  #failure: PgMessage | null = null;

  constructor(client: PgClient, options: ConnectionOptions) {
    this.client = client;
    this.#options = options;
    // Without a listener an error between two queries, such as an idle time-out, would end the process.
    client.on("error", this.#onError);
  }

  readonly #onError = (error: PgMessage): void => {
    this.#failure ??= error;
  };

  /** What ended the connection while no query was under way. */
  get failure(): PgMessage | null {
    return this.#failure;
  }

  /** False once it was given back or destroyed, or has failed while idle. */
  get usable(): boolean {
    return this.#open && this.#failure === null;
  }

  fly(statements: readonly SqlStatement[], options: Partial<FlightOptions> = {}): Promise<FlightReply> {
    const { clock, statementTimeoutMs: timeoutMs, namedStatements: named } = this.#options;
    return fly(this.client, statements, {
      clock,
      timeoutMs: options.timeoutMs ?? timeoutMs,
      named: options.named ?? named,
      mayStart: options.mayStart ?? always,
    });
  }

  /** Gives the client back to the pool. After `destroy`, does nothing. */
  giveBack(): void {
    if (this.#failure === null) this.#end(false);
    else this.destroy();
  }

  /** Ends the connection without waiting for anything on it. After `giveBack`, does nothing. */
  destroy(): void {
    // `release(true)` alone says goodbye politely, which a connection that hangs does not hear.
    if (this.#open) this.client.connection?.stream.destroy();
    this.#end(true);
  }

  #end(destroyed: boolean): void {
    if (!this.#open) return;
    this.#open = false;
    this.client.release(destroyed);
    this.client.removeListener("error", this.#onError);
  }
}
