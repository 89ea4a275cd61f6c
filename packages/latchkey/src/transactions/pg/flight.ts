/**
 * A flight: several statements written at once, under one Sync, and all their replies. `pg` itself sends one statement
 * and waits; this is a query object of our own that it accepts in its queue. Under one Sync an error makes the server
 * skip the rest, so that a COMMIT at the end is reached only if everything before it succeeded.
 */
import type { CancelTimer, Clock } from "../../ports.ts";
import type { SqlRow, SqlStatement } from "../transaction.ts";
import type { PgClient, PgConnection, PgReady, PgSubmittable, TransactionStatus } from "./client.ts";
import { type KnownStatements, knownStatements } from "./known-statements.ts";
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

class Flight {
  readonly #client: PgClient;
  readonly #statements: readonly SqlStatement[];
  readonly #options: FlightOptions;
  readonly #resolve: (reply: FlightReply) => void;
  readonly #replies: StatementReply[] = [];
  readonly #notices: { code: string; after: number }[] = [];
  /** Statements that this flight prepares, by name. */
  readonly #preparing = new Set<string>();
  #usedKnown = false;
  #rows: SqlRow[] = [];
  #decode: RowDecoder | null = null;
  #known: KnownStatements = new Map();
  #connection: PgConnection | null = null;
  #sent = false;
  #status: TransactionStatus | null = null;
  #error: unknown = null;
  #settled = false;
  #cancelTimer: CancelTimer = () => {};
  readonly #query: PgSubmittable;

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
    this.#query = this.#submittable();
  }

  start(): void {
    const { clock, timeoutMs } = this.#options;
    this.#client.on("notice", this.#onNotice);
    this.#cancelTimer = clock.startTimer(timeoutMs, () => {
      this.#fail(new FlightTimeout(`The database has not answered within ${timeoutMs} ms`));
    });
    try {
      this.#client.query(acceptable(this.#client, this.#query));
    } catch (error) {
      this.#fail(error);
    }
  }

  #submittable(): PgSubmittable {
    return {
      // `pg` hangs its `query_timeout` on the callback; calling it clears that timer.
      callback: () => {},
      submit: (connection) => this.#submit(connection),
      handleRowDescription: ({ fields }) => {
        this.#decode = decoderOf(fields);
      },
      handleDataRow: ({ fields }) => {
        this.#rows.push(this.#decoder()(fields));
      },
      handleCommandComplete: ({ text }) => this.#complete(text),
      handleEmptyQuery: () => this.#complete(""),
      handlePortalSuspended: () => {},
      handleCopyInResponse: (connection) => connection.sendCopyFail("not expected"),
      handleCopyData: () => {},
      handleReadyForQuery: () => this.#settle(),
      handleError: (error, connection) => this.#onError(error, connection),
    };
  }

  #submit(connection: PgConnection): Error | null {
    if (this.#settled) return new Error("The flight has ended before it was sent");
    if (!this.#options.mayStart()) return new Error("The flight was not allowed to start");
    if (connection.stream === undefined)
      return new Error("Latchkey needs the JavaScript client of `pg`, not pg-native");
    if (!connection.stream.writable) return new Error("The connection is closed");
    this.#known = knownStatements(connection);
    const bytes = encodeFlight(this.#statements.map((statement) => this.#messageOf(statement)));
    this.#connection = connection;
    connection.prependListener("readyForQuery", this.#onReady);
    this.#sent = true;
    connection.stream.write(bytes);
    return null;
  }

  #messageOf(statement: SqlStatement): FlightMessage {
    const name = this.#options.named ? statement.name : "";
    const described = this.#known.has(name);
    const known = described || this.#preparing.has(name);
    if (known) this.#usedKnown = true;
    else if (name !== "") this.#preparing.add(name);
    return { statement, name, parse: !known, describe: !described };
  }

  #decoder(): RowDecoder {
    const decode = this.#decode ?? this.#known.get(this.#statements[this.#replies.length]?.name ?? "");
    if (!decode) throw new TypeError("Rows came without a description");
    return decode;
  }

  #complete(tag: string): void {
    const name = this.#statements[this.#replies.length]?.name ?? "";
    if (this.#preparing.has(name)) this.#known.set(name, this.#decode ?? decoderOf([]));
    this.#replies.push({ tag, rows: this.#rows });
    this.#rows = [];
    this.#decode = null;
  }

  #onError(error: unknown, connection: PgConnection | undefined): void {
    if (this.#settled) return;
    this.#error ??= error;
    const alive = this.#sent && isFromServer(error) && connection?.stream.writable === true;
    // The server skips to the Sync and then says that it is ready, unless the error ended the session.
    if (alive) connection.once("end", this.#onEnd);
    else this.#settle();
  }

  readonly #onReady = ({ status }: PgReady): void => {
    this.#status = status ?? null;
    if (this.#error !== null) this.#settle();
  };

  readonly #onEnd = (): void => {
    this.#status = null;
    this.#settle();
  };

  readonly #onNotice = ({ code }: { readonly code?: string }): void => {
    if (this.#sent && code !== undefined) this.#notices.push({ code, after: this.#replies.length });
  };

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
    this.#client.removeListener("notice", this.#onNotice);
    this.#connection?.removeListener("readyForQuery", this.#onReady);
    this.#connection?.removeListener("end", this.#onEnd);
    this.#query.callback(null);
    const forgotten = this.#usedKnown && forgottenStates.includes(codeOf(this.#error));
    if (forgotten) this.#known.clear();
    this.#resolve({
      replies: this.#replies,
      error: this.#error,
      sent: this.#sent,
      // Not sent, nothing is known about the connection; an error without a later "ready" has ended it.
      status: this.#sent ? this.#status : null,
      notices: this.#notices,
      forgotten,
    });
  }
}

/** A client in pipeline mode takes only query objects that descend from its own class. */
function acceptable(client: PgClient, query: PgSubmittable): PgSubmittable {
  if (client.pipeline !== true) return query;
  const { Query } = client.constructor as { Query?: { prototype: object } };
  return Query === undefined ? query : Object.setPrototypeOf(query, Query.prototype);
}

/** The server's errors carry a severity; errors of the network and of `pg` itself do not. */
function isFromServer(error: unknown): boolean {
  return typeof error === "object" && error !== null && "severity" in error && error.severity !== undefined;
}

function codeOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
