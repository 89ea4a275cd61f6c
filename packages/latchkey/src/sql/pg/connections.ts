/** Clients of the user's pool: taken within a time limit, given back or destroyed exactly once. */
import { StoreError } from "../../errors.ts";
import type { Clock, Random } from "../../ports.ts";
import { type Limited, withLimit } from "../../time/time-limit.ts";
import type { SqlStatement } from "../transaction.ts";
import type { PgClient, PgConnector, PgMessage, PgPool, PgPoolOptions } from "./client.ts";
import { type ConnectionState, stateOf } from "./connection-state.ts";
import { type PipelineOptions, type PipelineReply, sendPipeline } from "./pipeline.ts";
import { type PoolShare, shareOf } from "./pool-share.ts";
import type { RepeatedStatements } from "./statement-names.ts";

export interface ConnectionOptions {
  readonly clock: Clock;
  readonly random: Pick<Random, "fraction">;
  /** The longest wait for a client of the pool. */
  readonly connectTimeoutMs: number;
  /** The longest wait for the reply to Latchkey's own statements. */
  readonly statementTimeoutMs: number;
  /** Whether statements are prepared under their names. */
  readonly namedStatements: boolean;
  /** Whether statements that handlers send repeatedly are prepared, too. */
  readonly namedHandlerStatements: boolean;
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

  /** How many clients the pool has at most, if it exposes that. */
  get max(): number | undefined {
    return this.#connector.options?.max;
  }

  /** The options that the pool exposes; undefined if it exposes none. */
  get poolOptions(): PgPoolOptions | undefined {
    return this.#connector.options;
  }

  /** How many transactions may run at once over this pool; the latest caller decides. */
  set transactionsMax(max: number) {
    this.#share.transactionsMax = max;
  }

  /** The names for handlers' statements; null if those get none. */
  get repeatedStatements(): RepeatedStatements | null {
    const { namedStatements, namedHandlerStatements } = this.options;
    return namedStatements && namedHandlerStatements ? this.#share.repeated : null;
  }

  /** Waits until another transaction may run; returns the function to call at its end. */
  enterTransaction(): Promise<() => void> {
    return this.#share.limit.enter(this.options.clock, this.options.connectTimeoutMs);
  }

  /** Counts a client that is held for long; returns the function to call when it is released. */
  reserve(): () => void {
    this.#share.reserved += 1;
    let reserved = true;
    return () => {
      if (!reserved) return;
      reserved = false;
      this.#share.reserved -= 1;
      this.#share.limit.admit();
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
      const sinceMs = clock.monotonicMs();
      const cancel = clock.startTimer(timeoutMs, () => {
        late = true;
        reject(this.#noConnection(timeoutMs));
      });
      const took = (client: PgClient) => {
        cancel();
        if (late) client.release();
        else resolve(new Connection(client, this.options));
      };
      const failed = (cause: unknown) => {
        cancel();
        reject(this.#noConnection(clock.monotonicMs() - sinceMs, cause));
      };
      const promised = this.#connector.connect((error, client) => {
        if (client === undefined) failed(error);
        else took(client);
      });
      promised?.then(took, failed);
    });
  }

  /**
   * Warns once for each pool that its connections may hang for ever while they are opened: the pool counts them against
   * its `max`, and none of Latchkey's limits ends them.
   */
  warnOfEndlessConnects(): void {
    const { options } = this.#connector;
    if (this.#share.warned || options === undefined || options.connectionTimeoutMillis) return;
    this.#share.warned = true;
    process.emitWarning(`The pool has no connectionTimeoutMillis. ${endlessConnects}`, {
      type: "LatchkeyWarning",
      code: "LATCHKEY_POOL_WITHOUT_CONNECT_TIMEOUT",
    });
  }

  get #busyCount(): number {
    return this.#connector.busyCount ?? this.#share.outCount;
  }

  /** If every client is checked out, the pool is too small; otherwise the database does not accept connections. */
  #noConnection(waitedMs: number, cause?: unknown): StoreError {
    const { max, connectionTimeoutMillis } = this.#connector.options ?? {};
    const isWait = cause === undefined || (cause instanceof Error && cause.message === poolTimeout);
    if (isWait && max !== undefined && this.#busyCount >= max) {
      const message = `All ${max} connections of the pool were in use for ${Math.round(waitedMs)} ms: raise its \`max\`, or release connections sooner`;
      const retryAfterMs = this.#share.limit.drainMs(waitedMs);
      return new StoreError("not_sent", { cause, message, overload: true, retryAfterMs });
    }
    if (cause !== undefined) {
      return new StoreError("not_sent", { cause, message: "No connection to the database" });
    }
    const remedy =
      this.#connector.options === undefined || connectionTimeoutMillis ? "" : `. ${endlessConnects}`;
    const message = `The pool had no connection within ${Math.round(waitedMs)} ms${remedy}`;
    return new StoreError("not_sent", { message });
  }
}

const endlessConnects =
  "A connection attempt that hangs occupies the pool for ever: set `connectionTimeoutMillis`, for example to 3000";

const always = () => true;
const poolTimeout = "timeout exceeded when trying to connect";

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

  /** What is known about the session. Null: the client hides its connection. */
  get state(): ConnectionState | null {
    const { connection } = this.client;
    return connection === undefined ? null : stateOf(connection);
  }

  /** Waits as long as for the reply to a statement of Latchkey's own. Never rejects. */
  withinTimeout<T>(work: () => Promise<T>): Promise<Limited<T>> {
    const { clock, statementTimeoutMs } = this.#options;
    return withLimit(clock, statementTimeoutMs, work);
  }

  sendPipeline(
    statements: readonly SqlStatement[],
    options: Partial<PipelineOptions> = {},
  ): Promise<PipelineReply> {
    const { clock, statementTimeoutMs: timeoutMs, namedStatements: named } = this.#options;
    return sendPipeline(this.client, statements, {
      clock,
      timeoutMs: options.timeoutMs === undefined ? timeoutMs : options.timeoutMs,
      named: options.named ?? named,
      canSend: options.canSend ?? always,
      blocked: options.blocked,
      trailingQuery: options.trailingQuery,
    });
  }

  /** Gives the client back to the pool. After `destroy`, does nothing. */
  giveBack(): void {
    if (this.#failure === null) this.#end(false);
    else this.destroy();
  }

  /** Ends the connection without waiting for anything on it. After `giveBack`, does nothing. */
  destroy(): void {
    // `release(true)` sends Terminate, which a hung connection never reads; destroy the socket instead.
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
