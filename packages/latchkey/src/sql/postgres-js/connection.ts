/**
 * One connection of a postgres.js pool on which Latchkey has opened a transaction. It is reserved in the way of
 * `sql.begin()`, which itself cannot be used because it does not return the reply to COMMIT. `sql.reserve()` would do, but
 * never resolves under `fetch_types: false`.
 *
 * A query that is written to a connection which has been closed ends the process, because postgres.js throws in a timer.
 * Queries that wait in its queue are then never settled. One that is sent between the socket's error and its close stays with
 * the connection when postgres.js opens it again, and takes the next query's reply. So nothing is sent after the first sign
 * of the connection's end, and waiting queries are rejected.
 */
import type { Duplex } from "node:stream";
import { LatchkeyError, StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import { begin } from "../pg/control-statements.ts";
import type { BridgeRequest, SqlStatement } from "../transaction.ts";
import type { Client, Query, Result, ServerConnection } from "./client.ts";

export interface Limits {
  readonly clock: Clock;
  /** The longest wait for a connection. */
  readonly connectTimeoutMs: number;
  /** The longest wait for the reply to Latchkey's own statements. */
  readonly statementTimeoutMs: number;
}

/** The reply to one statement. */
export type Reply =
  | { readonly error: null; readonly result: Result }
  | { readonly error: unknown; readonly result: null };

/** Closing a cursor or a COPY takes a round trip; one that is still open after this time will not be closed by the handler. */
const closingMs = 1_000;

/** Clients that have had a connection. */
const connected = new WeakSet<Client>();

/** A query that keeps a connection busy until the handler ends it. */
interface Held {
  readonly what: string;
  isOpen(): boolean;
  /** From now on its connection may end at any time, and an error without a listener would end the process. */
  abandon(): void;
  /** Whether it ends by itself once it is abandoned. */
  endsByItself(): boolean;
}

export class OpenConnection {
  readonly client: Client;
  readonly #limits: Limits;
  #server: ServerConnection | null = null;
  #closed: { readonly error: unknown } | null = null;
  /** Whether the next query has to wait until the server has answered. */
  #full = false;
  /** Whether the server has answered all that was sent; called when it has. */
  #idle = true;
  #onIdle: () => void = () => {};
  readonly #held = new Set<Held>();
  readonly #waiting: Query[] = [];
  readonly #unsettled = new Set<Query>();

  constructor(client: Client, limits: Limits) {
    this.client = client;
    this.#limits = limits;
  }

  /** The error that ended the connection; null while it is open. */
  get closed(): { readonly error: unknown } | null {
    return this.#closed;
  }

  /**
   * Takes a connection, and sends the opening statements with BEGIN.
   *
   * @returns the replies to BEGIN and to each of `opening`
   * @throws {StoreError} `not_sent` when there was no connection
   */
  async open({ isolation, opening }: BridgeRequest): Promise<readonly Reply[]> {
    const { clock, connectTimeoutMs } = this.#limits;
    const written = Promise.withResolvers<void>();
    const onexecute = (server: ServerConnection) => {
      this.#reserve(server);
      written.resolve();
    };
    const beginning = this.client.unsafe(begin(isolation).text, [], { onexecute });
    this.#watch(beginning);
    const begun = replyOf(beginning.execute());
    let overload = false;
    const cancel = clock.startTimer(connectTimeoutMs, () => {
      // The pool has had connections and none has failed since, so all of them are in use.
      overload = connected.has(this.client) && this.client.options.shared?.retries === 0;
      written.reject(new Error(`postgres.js had no connection within ${connectTimeoutMs} ms`));
      beginning.cancel();
    });
    void begun.then(({ error }) => written.reject(error ?? new TypeError(unsupported)));
    try {
      await written.promise;
    } catch (cause) {
      if (cause instanceof TypeError) throw cause;
      if (!overload) throw new StoreError("not_sent", { cause, message: "No connection to the database" });
      const message = "All connections of the pool are in use";
      throw new StoreError("not_sent", { cause, message, overload, retryAfterMs: connectTimeoutMs });
    } finally {
      cancel();
    }
    // The opening statements travel with BEGIN.
    const replies = this.sendAll(opening);
    return [await begun, ...(await replies)];
  }

  /** Sends Latchkey's own statements together, and waits for all replies. After a failed one the others fail, too. */
  async sendAll(statements: readonly SqlStatement[]): Promise<readonly Reply[]> {
    const { clock, statementTimeoutMs } = this.#limits;
    const queries = statements.map(({ text, values }) =>
      values.length === 0
        ? this.client.unsafe(text).raw()
        : this.client.unsafe(text, values, { prepare: true }).raw(),
    );
    for (const query of queries) this.#own(query);
    const cancel = clock.startTimer(statementTimeoutMs, () => {
      this.destroy();
      this.#end(new Error(`No reply within ${statementTimeoutMs} ms`));
    });
    try {
      return await Promise.all(queries.map((query) => replyOf(query.execute())));
    } finally {
      cancel();
    }
  }

  /**
   * Waits until every query of the handler is answered, or waits only for the server.
   *
   * @returns an error when a query waits for the handler: nothing can be sent on this connection, which must be destroyed
   */
  async held(): Promise<LatchkeyError | null> {
    if (this.#idle || this.#held.size === 0 || this.#closed !== null) return null;
    await this.#idleWithin(closingMs);
    const [open] = [...this.#held].filter((one) => one.isOpen());
    if (this.#idle || open === undefined) return null;
    for (const one of this.#held) one.abandon();
    if (open.endsByItself()) await this.#idleWithin(this.#limits.statementTimeoutMs);
    const message = `${open.what} that the handler sent through its \`tx\` is still open, so its transaction cannot end. Read it to its end, or close it, before you answer`;
    return new LatchkeyError("query-open", { message });
  }

  async #idleWithin(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const stop = this.#limits.clock.startTimer(ms, resolve);
      this.#onIdle = () => {
        stop();
        resolve();
      };
    });
  }

  /** Sends a query of the transaction; called as the query's `handler`. */
  send(query: Query): void {
    if (this.#closed !== null) {
      query.reject(this.#closed.error);
      return;
    }
    if (query.streaming === true) this.#held.add(heldCopy(query));
    else if (query.cursorFn !== undefined) {
      this.#held.add({ what: "A cursor", isOpen: () => query.active, ...mute });
    }
    this.#watch(query);
    if (this.#full) this.#waiting.push(query);
    else this.#write(query);
  }

  /** Cancels the queries that the server is executing. */
  cancelAll(): void {
    for (const query of this.#unsettled) if (query.active) cancel(query);
  }

  /** From now on the connection is not returned to the pool when its transaction ends. */
  keep(): void {
    if (this.#server?.reserved) this.#server.reserved.release = true;
  }

  /** The transaction has ended, and postgres.js may have given the connection to other queries. */
  left(): void {
    this.#server = null;
  }

  /** Ends the connection, unless it has ended or has been returned to the pool. */
  destroy(): void {
    this.keep();
    this.#server?.terminate();
    this.#server = null;
  }

  #watch(query: Query): void {
    const { reject } = query;
    query.reject = (error) => {
      if (isOfConnection(error)) this.#end(error);
      reject(error);
    };
    this.#unsettled.add(query);
    const settled = () => this.#unsettled.delete(query);
    Promise.prototype.then.call(query, settled, settled);
  }

  #own(query: Query): void {
    query.handler = Object.assign((own: Query) => this.send(own), { debug: query.handler.debug });
  }

  #write(query: Query): void {
    this.#idle = false;
    this.#full = this.#server?.execute(query) !== true;
  }

  #reserve(server: ServerConnection): void {
    this.#server = server;
    connected.add(this.client);
    server.reserved = () => {
      const next = this.#waiting.shift();
      this.#full = false;
      this.#idle = next === undefined;
      if (next === undefined) this.#onIdle();
      else this.#write(next);
    };
    server.onclose = (error) => this.#end(error);
  }

  #end(error: unknown): void {
    if (this.#closed !== null) return;
    this.#closed = { error };
    this.#server = null;
    this.#onIdle();
    this.#waiting.length = 0;
    for (const query of this.#unsettled) query.reject(error);
  }
}

const mute = { abandon: () => {}, endsByItself: () => false } as const;

function cancel(query: Query): void {
  Promise.resolve(query.cancel()).catch(() => {});
}

function heldCopy(query: Query): Held {
  let stream: Duplex | null = null;
  let over = false;
  Promise.prototype.then.call(
    query,
    (opened: unknown) => {
      stream = opened as Duplex;
      stream.once("close", () => {
        over = true;
      });
    },
    () => {
      over = true;
    },
  );
  return {
    what: "A COPY",
    isOpen: () => !over,
    abandon() {
      stream?.on("error", () => {});
      // A server that is blocked on writing does not read, and postgres.js does not close a socket whose data is not read.
      if (stream?.readable === true) stream.resume();
      cancel(query);
    },
    endsByItself: () => stream?.readable === true,
  };
}

/** Whether the connection has failed, and not only a query. */
function isOfConnection(error: unknown): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  return "syscall" in error || /^(?:CONNECT|ERR_)/u.test(String(error.code));
}

const unsupported = "This version of postgres.js is not supported: it hides its connections";

function replyOf(query: Query): Promise<Reply> {
  return query.then(
    (result) => ({ error: null, result }),
    (error: unknown) => ({ error: error ?? new Error("Unknown error"), result: null }),
  );
}
