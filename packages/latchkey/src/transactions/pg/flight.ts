/**
 * A flight: several statements written at once, under one Sync, and all their replies. `pg` itself sends one statement
 * and waits; this is a query object of our own that it accepts in its queue. Under one Sync an error makes the server
 * skip the rest, so that a COMMIT at the end is reached only if everything before it succeeded.
 */
import type { CancelTimer, Clock } from "../../ports.ts";
import type { SqlRow, SqlStatement } from "../transaction.ts";
import type { PgClient, PgConnection, PgField, PgSubmittable, TransactionStatus } from "./client.ts";
import { type ConnectionState, type Hearer, stateOf } from "./connection-state.ts";
import { encodeFlight, type FlightMessage } from "./messages.ts";
import { decoderOf, type RowDecoder } from "./values.ts";

export interface FlightOptions {
  readonly clock: Clock;
  /** Without a complete reply for this long, counted from the call, the flight ends. */
  readonly timeoutMs: number;
  /** Whether statements are prepared under their names. */
  readonly named: boolean;
  /** Asked when it is this flight's turn to be sent; false: nothing is sent. */
  readonly mayStart: () => boolean;
}

export interface StatementReply {
  /** The server's command tag, e.g. `COMMIT` or `INSERT 0 1`. */
  readonly tag: string;
  readonly rows: readonly SqlRow[];
}

export interface FlightReply {
  /** Replies of the statements that completed, in order. */
  readonly replies: readonly StatementReply[];
  /** Null when all statements completed and the server is ready again. */
  readonly error: unknown;
  /** Whether anything was written to the connection. */
  readonly sent: boolean;
  /**
   * What the server said when it was ready again. Null: it has not been heard again, so the connection must be
   * destroyed, not given back.
   */
  readonly status: TransactionStatus | null;
  /** SQLSTATEs of notices, each with the number of statements that had completed before it came. */
  readonly notices: readonly { readonly code: string; readonly after: number }[];
  /** The server did not know a statement that this connection had prepared. All are forgotten; try again. */
  readonly forgotten: boolean;
}

/** The server may still be at work on what was sent. */
export class FlightTimeout extends Error {
  override readonly name = "FlightTimeout";
}

/** Sends the statements and never rejects. */
export function fly(
  client: PgClient,
  statements: readonly SqlStatement[],
  options: FlightOptions,
): Promise<FlightReply> {
  return new Promise((resolve) => {
    new Flight(client, statements, options, resolve).start();
  });
}

/** A prepared statement is unknown to the server, or its result type has changed. */
const forgottenStates: readonly unknown[] = ["26000", "0A000"];

/** A query object for `pg`, and what it hears beside. */
class Flight implements PgSubmittable, Hearer {
  /** `pg` hangs its `query_timeout` on it; calling it clears that timer. */
  callback: (error: unknown) => void = nothing;
  readonly #client: PgClient;
  readonly #statements: readonly SqlStatement[];
  readonly #options: FlightOptions;
  readonly #resolve: (reply: FlightReply) => void;
  readonly #replies: StatementReply[] = [];
  #notices: readonly { code: string; after: number }[] = none;
  /** Statements that this flight prepares, by name. */
  #preparing: Set<string> | null = null;
  #usedKnown = false;
  #rows: SqlRow[] = [];
  #decode: RowDecoder | null = null;
  #state: ConnectionState | null = null;
  #connection: PgConnection | null = null;
  #status: TransactionStatus | null = null;
  #error: unknown = null;
  #settled = false;
  #cancelTimer: CancelTimer = nothing;
  #endListener: (() => void) | null = null;
  /** This, as `pg` was given it. */
  #query: PgSubmittable = this;

  constructor(
    client: PgClient,
    statements: readonly SqlStatement[],
    options: FlightOptions,
    resolve: (reply: FlightReply) => void,
  ) {
    this.#client = client;
    this.#statements = statements;
    this.#options = options;
    this.#resolve = resolve;
  }

  start(): void {
    const { clock, timeoutMs } = this.#options;
    this.#cancelTimer = clock.startTimer(timeoutMs, () => {
      this.#fail(new FlightTimeout(`The database has not answered within ${timeoutMs} ms`));
    });
    this.#query = acceptable(this.#client, this);
    try {
      this.#client.query(this.#query);
    } catch (error) {
      this.#fail(error);
    }
  }

  submit(connection: PgConnection): Error | null {
    if (this.#settled) return new Error("The flight has ended before it was sent");
    if (!this.#options.mayStart()) return new Error("The flight was not allowed to start");
    if (connection.stream === undefined)
      return new Error("Latchkey needs the JavaScript client of `pg`, not pg-native");
    if (!connection.stream.writable) return new Error("The connection is closed");
    const state = stateOf(connection);
    this.#state = state;
    const bytes = encodeFlight(this.#statements.map((statement) => this.#messageOf(statement, state)));
    this.#connection = connection;
    state.flight = this;
    connection.stream.write(bytes);
    return null;
  }

  #messageOf(statement: SqlStatement, { known }: ConnectionState): FlightMessage {
    const name = this.#options.named ? statement.name : "";
    const described = known.has(name);
    const parsed = described || (this.#preparing?.has(name) ?? false);
    if (parsed) this.#usedKnown = true;
    else if (name !== "") {
      this.#preparing ??= new Set();
      this.#preparing.add(name);
    }
    return { statement, name, parse: !parsed, describe: !described };
  }

  handleRowDescription({ fields }: { readonly fields: readonly PgField[] }): void {
    this.#decode = decoderOf(fields);
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const decode = this.#decode ?? this.#state?.known.get(this.#nameNow());
    if (!decode) throw new TypeError("Rows came without a description");
    this.#rows.push(decode(fields));
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const name = this.#nameNow();
    if (this.#preparing?.has(name)) this.#state?.known.set(name, this.#decode ?? decoderOf([]));
    this.#replies.push({ tag: text, rows: this.#rows });
    this.#rows = [];
    this.#decode = null;
  }

  /** Of the statement whose reply comes now. */
  #nameNow(): string {
    return this.#statements[this.#replies.length]?.name ?? "";
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: "" });
  }

  handlePortalSuspended(): void {}

  handleCopyInResponse(connection: PgConnection): void {
    connection.sendCopyFail("not expected");
  }

  handleCopyData(): void {}

  handleReadyForQuery(): void {
    this.#settle();
  }

  handleError(error: unknown, connection: PgConnection | undefined): void {
    if (this.#settled) return;
    this.#error ??= error;
    const alive = this.#connection !== null && isFromServer(error) && connection?.stream.writable === true;
    // The server skips to the Sync and then says that it is ready, unless the error ended the session.
    if (alive) this.#waitForEnd(connection);
    else this.#settle();
  }

  #waitForEnd(connection: PgConnection): void {
    this.#endListener ??= () => {
      this.#status = null;
      this.#settle();
    };
    connection.once("end", this.#endListener);
  }

  onReady(status: TransactionStatus | undefined): void {
    this.#status = status ?? null;
    if (this.#error !== null) this.#settle();
  }

  onNotice(code: string): void {
    this.#notices = [...this.#notices, { code, after: this.#replies.length }];
  }

  #fail(error: unknown): void {
    if (this.#settled) return;
    this.#error ??= error;
    this.#status = null;
    this.#settle();
  }

  #settle(): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#cancelTimer();
    if (this.#state?.flight === this) this.#state.flight = null;
    if (this.#endListener !== null) this.#connection?.removeListener("end", this.#endListener);
    this.#query.callback(null);
    const forgotten = this.#usedKnown && forgottenStates.includes(codeOf(this.#error));
    if (forgotten) this.#state?.known.clear();
    const sent = this.#connection !== null;
    this.#resolve({
      replies: this.#replies,
      error: this.#error,
      sent,
      // Not sent, nothing is known about the connection; an error without a later "ready" has ended it.
      status: sent ? this.#status : null,
      notices: this.#notices,
      forgotten,
    });
  }
}

function nothing(): void {}
const none: readonly never[] = [];

/** A client in pipeline mode takes only query objects that descend from its own class. */
function acceptable(client: PgClient, flight: PgSubmittable): PgSubmittable {
  if (client.pipeline !== true) return flight;
  const { Query } = client.constructor as { Query?: { prototype: object } };
  return Query === undefined ? flight : Object.setPrototypeOf(passingOnTo(flight), Query.prototype);
}

function passingOnTo(flight: PgSubmittable): PgSubmittable {
  return {
    callback: nothing,
    submit: (connection) => flight.submit(connection),
    handleRowDescription: (message) => flight.handleRowDescription(message),
    handleDataRow: (message) => flight.handleDataRow(message),
    handleCommandComplete: (message) => flight.handleCommandComplete(message),
    handleEmptyQuery: () => flight.handleEmptyQuery(),
    handlePortalSuspended: nothing,
    handleCopyInResponse: (connection) => flight.handleCopyInResponse(connection),
    handleCopyData: nothing,
    handleReadyForQuery: () => flight.handleReadyForQuery(),
    handleError: (error, connection) => flight.handleError(error, connection),
  };
}

/** The server's errors carry a severity; errors of the network and of `pg` itself do not. */
function isFromServer(error: unknown): boolean {
  return typeof error === "object" && error !== null && "severity" in error && error.severity !== undefined;
}

function codeOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
