/**
 * One connection of a postgres.js pool with a transaction of Latchkey's. It is reserved as `sql.begin()` does it, without
 * `sql.begin()`: that one keeps the answer to COMMIT to itself. `sql.reserve()` would serve, but never resolves under
 * `fetch_types: false`.
 *
 * A query that is written to a connection which has been closed ends the process: postgres.js throws in a timer. Queries
 * that wait in its queue are then never settled. One that is sent between the socket's error and its close stays with the
 * connection when postgres.js opens it again, and takes the next one's reply. So nothing is sent after the first sign of
 * the connection's end, and what waits is rejected.
 */
import { StoreError } from "../../errors.ts";
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

export class OpenConnection {
  readonly client: Client;
  readonly #limits: Limits;
  #server: ServerConnection | null = null;
  #closed: { readonly error: unknown } | null = null;
  /** Whether the next query has to wait until the server has answered. */
  #full = false;
  readonly #waiting: Query[] = [];
  readonly #unsettled = new Set<Query>();

  constructor(client: Client, limits: Limits) {
    this.client = client;
    this.#limits = limits;
  }

  /** What ended the connection; null: it is open. */
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
    const cancel = clock.startTimer(connectTimeoutMs, () => {
      written.reject(new Error(`postgres.js had no connection within ${connectTimeoutMs} ms`));
      beginning.cancel();
    });
    void begun.then(({ error }) => written.reject(error ?? new TypeError(unsupported)));
    try {
      await written.promise;
    } catch (cause) {
      if (cause instanceof TypeError) throw cause;
      throw new StoreError("not_sent", { cause, message: "No connection to the database" });
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

  /** Sends a query whose handler this has become. */
  send(query: Query): void {
    if (this.#closed !== null) {
      query.reject(this.#closed.error);
      return;
    }
    this.#watch(query);
    if (this.#full) this.#waiting.push(query);
    else this.#write(query);
  }

  /** Stops what the server is at. */
  cancelAll(): void {
    for (const query of this.#unsettled) {
      if (query.active) Promise.resolve(query.cancel()).catch(() => {});
    }
  }

  /** From now on the connection is not given back when its transaction ends. */
  keep(): void {
    if (this.#server?.reserved) this.#server.reserved.release = true;
  }

  /** The transaction has ended, and postgres.js has given the connection to others. */
  left(): void {
    this.#server = null;
  }

  /** Ends the connection, unless it has ended or is in the hands of others. */
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
    this.#full = this.#server?.execute(query) !== true;
  }

  #reserve(server: ServerConnection): void {
    this.#server = server;
    server.reserved = () => {
      const next = this.#waiting.shift();
      this.#full = false;
      if (next !== undefined) this.#write(next);
    };
    server.onclose = (error) => this.#end(error);
  }

  #end(error: unknown): void {
    if (this.#closed !== null) return;
    this.#closed = { error };
    this.#server = null;
    this.#waiting.length = 0;
    for (const query of this.#unsettled) query.reject(error);
  }
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
