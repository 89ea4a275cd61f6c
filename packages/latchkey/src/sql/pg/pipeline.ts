/**
 * A pipeline: several statements written at once, under one Sync, and all their replies. `pg` itself sends one statement
 * and waits; this is a query object of our own that it accepts in its queue. Under one Sync an error makes the server
 * skip the rest, so that a COMMIT at the end is reached only if everything before it succeeded.
 */
import type { CancelTimer, Clock } from "../../ports.ts";
import type { SqlRow, SqlStatement } from "../transaction.ts";
import type { PgClient, PgConnection, PgField, PgSubmittable, TransactionStatus } from "./client.ts";
import { type ConnectionState, type PipelineListener, stateOf } from "./connection-state.ts";
import { decoderOf, type RowDecoder } from "./decode-values.ts";
import { encodeFlight, type FlightMessage } from "./wire-messages.ts";

export interface PipelineOptions {
  readonly clock: Clock;
  /** Without a complete reply for this long, counted from the call, the pipeline ends. */
  readonly timeoutMs: number;
  /** Whether statements are prepared under their names. */
  readonly named: boolean;
  /**
   * Asked when the pipeline has waited this long for its turn: what stands before it and will not end by itself, or null.
   * Such an error ends the pipeline unsent.
   */
  readonly blocked?: { readonly afterMs: number; readonly by: () => unknown } | undefined;
  /** Asked when it is this pipeline's turn to be sent; false: nothing is sent. */
  readonly canSend: () => boolean;
}

export interface StatementReply {
  /** The server's command tag, e.g. `COMMIT` or `INSERT 0 1`. */
  readonly tag: string;
  readonly rows: readonly SqlRow[];
}

export interface PipelineReply {
  /** Replies of the statements that completed, in order. */
  readonly replies: readonly StatementReply[];
  /** Null when all statements completed and the server is ready again. */
  readonly error: unknown;
  /** Whether anything was written to the connection. */
  readonly sent: boolean;
  /**
   * The status that the server sent when it was ready again. Null: it has not answered again, so the connection must be
   * destroyed, not given back.
   */
  readonly status: TransactionStatus | null;
  /** SQLSTATEs of notices, each with the number of statements that had completed before it came. */
  readonly notices: readonly { readonly code: string; readonly after: number }[];
  /** The server did not know a statement that this connection had prepared. All of them are prepared again; retry. */
  readonly statementsUnknown: boolean;
}

/** The server may still be at work on what was sent. */
export class PipelineTimeout extends Error {
  override readonly name = "PipelineTimeout";
}

/** Sends the statements and never rejects. */
export function sendPipeline(
  client: PgClient,
  statements: readonly SqlStatement[],
  options: PipelineOptions,
): Promise<PipelineReply> {
  return new Promise((resolve) => {
    new Pipeline(client, statements, options, resolve).start();
  });
}

/** A prepared statement is unknown to the server, or its result type has changed. */
const forgottenStates: readonly unknown[] = ["26000", "0A000"];

/** A query object for `pg` that also receives notices and status. */
class Pipeline implements PgSubmittable, PipelineListener {
  /** `pg` hangs its `query_timeout` on it; calling it clears that timer. */
  callback: (error: unknown) => void = nothing;
  readonly #client: PgClient;
  readonly #statements: readonly SqlStatement[];
  readonly #options: PipelineOptions;
  readonly #resolve: (reply: PipelineReply) => void;
  readonly #replies: StatementReply[] = [];
  #notices: readonly { code: string; after: number }[] = none;
  /** Statements that this pipeline prepares, by name. */
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
  #cancelBlocked: CancelTimer = nothing;
  #endListener: (() => void) | null = null;
  /** This, as `pg` was given it. */
  #query: PgSubmittable = this;

  constructor(
    client: PgClient,
    statements: readonly SqlStatement[],
    options: PipelineOptions,
    resolve: (reply: PipelineReply) => void,
  ) {
    this.#client = client;
    this.#statements = statements;
    this.#options = options;
    this.#resolve = resolve;
  }

  start(): void {
    const { clock, timeoutMs, blocked } = this.#options;
    this.#cancelTimer = clock.startTimer(timeoutMs, () => {
      this.#fail(new PipelineTimeout(`The database has not answered within ${timeoutMs} ms`));
    });
    if (blocked !== undefined) {
      this.#cancelBlocked = clock.startTimer(blocked.afterMs, () => {
        const error = this.#connection === null ? blocked.by() : null;
        if (error !== null) this.#fail(error);
      });
    }
    this.#query = acceptable(this.#client, this);
    try {
      this.#client.query(this.#query);
    } catch (error) {
      this.#fail(error);
    }
  }

  submit(connection: PgConnection): Error | null {
    if (this.#settled) return new Error("The pipeline has ended before it was sent");
    if (!this.#options.canSend()) return new Error("The pipeline was not allowed to start");
    if (connection.stream === undefined)
      return new Error("Latchkey needs the JavaScript client of `pg`, not pg-native");
    if (!connection.stream.writable) return new Error("The connection is closed");
    const state = stateOf(connection);
    this.#state = state;
    const bytes = encodeFlight(this.#statements.map((statement) => this.#messageOf(statement, state)));
    this.#connection = connection;
    state.pipeline = this;
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
    this.#cancelBlocked();
    if (this.#state?.pipeline === this) this.#state.pipeline = null;
    if (this.#endListener !== null) this.#connection?.removeListener("end", this.#endListener);
    this.#query.callback(null);
    const statementsUnknown = this.#usedKnown && forgottenStates.includes(codeOf(this.#error));
    if (statementsUnknown) this.#state?.known.clear();
    const sent = this.#connection !== null;
    this.#resolve({
      replies: this.#replies,
      error: this.#error,
      sent,
      // Not sent, nothing is known about the connection; an error without a later "ready" has ended it.
      status: sent ? this.#status : null,
      notices: this.#notices,
      statementsUnknown,
    });
  }
}

function nothing(): void {}
const none: readonly never[] = [];

/** A client in pipeline mode takes only query objects that descend from its own class. */
function acceptable(client: PgClient, pipeline: PgSubmittable): PgSubmittable {
  if (client.pipeline !== true) return pipeline;
  const { Query } = client.constructor as { Query?: { prototype: object } };
  return Query === undefined ? pipeline : Object.setPrototypeOf(passingOnTo(pipeline), Query.prototype);
}

function passingOnTo(pipeline: PgSubmittable): PgSubmittable {
  return {
    callback: nothing,
    submit: (connection) => pipeline.submit(connection),
    handleRowDescription: (message) => pipeline.handleRowDescription(message),
    handleDataRow: (message) => pipeline.handleDataRow(message),
    handleCommandComplete: (message) => pipeline.handleCommandComplete(message),
    handleEmptyQuery: () => pipeline.handleEmptyQuery(),
    handlePortalSuspended: nothing,
    handleCopyInResponse: (connection) => pipeline.handleCopyInResponse(connection),
    handleCopyData: nothing,
    handleReadyForQuery: () => pipeline.handleReadyForQuery(),
    handleError: (error, connection) => pipeline.handleError(error, connection),
  };
}

/** The server's errors carry a severity; errors of the network and of `pg` itself do not. */
function isFromServer(error: unknown): boolean {
  return typeof error === "object" && error !== null && "severity" in error && error.severity !== undefined;
}

function codeOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
