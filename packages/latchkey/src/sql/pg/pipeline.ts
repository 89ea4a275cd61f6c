/**
 * A pipeline: several statements written at once, under one Sync, and all their replies. `pg` itself sends one statement
 * and waits; this is a query object of our own that it accepts in its queue. Under one Sync an error makes the server
 * skip the rest, so that a COMMIT at the end is reached only if everything before it succeeded.
 */
import type { CancelTimer, Clock } from "../../ports.ts";
import type { SqlRow, SqlStatement } from "../transaction.ts";
import type {
  PgClient,
  PgConnection,
  PgField,
  PgSubmittable,
  PgTrailingQuery,
  TransactionStatus,
} from "./client.ts";
import { type ConnectionState, type PipelineListener, stateOf } from "./connection-state.ts";
import { decoderOf, encodePipeline, type PipelineMessage, type RowDecoder, sync } from "./wire-messages.ts";

export interface PipelineOptions {
  readonly clock: Clock;
  /** The pipeline fails without a complete reply for this long, counted from the call. Null: it has no limit of its own. */
  readonly timeoutMs: number | null;
  /** Whether statements are prepared under their names. */
  readonly named: boolean;
  /**
   * `by` is called when the pipeline has waited `afterMs` for its turn. It returns an error that names the query which blocks
   * the pipeline and will not end by itself, and the pipeline fails unsent with that error; or null.
   */
  readonly blocked?: { readonly afterMs: number; readonly by: () => unknown } | undefined;
  /** Called when it is this pipeline's turn to be sent; if it returns false, nothing is sent. */
  readonly canSend: () => boolean;
  /**
   * A query object of `pg` itself that prepares its statement. It is sent after the statements, under the same Sync, so that
   * the server skips it when one of them fails. It receives its own replies and its own error.
   */
  readonly trailingQuery?: PgTrailingQuery | undefined;
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
  /** The server had dropped a statement that this connection had prepared. All of them are prepared again; retry. */
  readonly statementsUnknown: boolean;
}

/** The server may still be executing the statements. */
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
  /** `pg` wraps it for its `query_timeout`; calling it clears that timer. */
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
  /** This pipeline, in the form that was passed to `pg`. */
  #query: PgSubmittable = this;
  /** Null also once it has failed. */
  #trailingQuery: PgTrailingQuery | null;
  #trailingQueryFailed = false;

  constructor(
    client: PgClient,
    statements: readonly SqlStatement[],
    options: PipelineOptions,
    resolve: (reply: PipelineReply) => void,
  ) {
    this.#client = client;
    this.#statements = statements;
    this.#options = options;
    this.#trailingQuery = options.trailingQuery ?? null;
    this.#resolve = resolve;
  }

  /** When the server has parsed a statement, `pg` notes it under the name and the text of the query that is being answered. */
  get name(): string | undefined {
    return this.#answered?.name;
  }

  get text(): string | undefined {
    return this.#answered?.text;
  }

  /** The trailing query, while the server answers it. */
  get #answered(): PgTrailingQuery | null {
    return this.#replies.length === this.#statements.length ? this.#trailingQuery : null;
  }

  start(): void {
    const { clock, timeoutMs, blocked } = this.#options;
    if (timeoutMs !== null) {
      this.#cancelTimer = clock.startTimer(timeoutMs, () => {
        this.#fail(new PipelineTimeout(`The database has not answered within ${timeoutMs} ms`));
      });
    }
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
    const trailingQuery = this.#trailingQuery;
    const messages = this.#statements.map((statement) => this.#messageOf(statement, state));
    const bytes = encodePipeline(messages, trailingQuery === null);
    this.#connection = connection;
    state.pipeline = this;
    if (trailingQuery === null) connection.stream.write(bytes);
    else this.#submitWith(trailingQuery, bytes, connection);
    return null;
  }

  /** Sends everything as one write. A trailing query whose `submit` returns an error has written nothing. */
  #submitWith(trailingQuery: PgTrailingQuery, bytes: Uint8Array, connection: PgConnection): void {
    const { stream } = connection;
    stream.cork?.();
    stream.write(bytes);
    const refusal = trailingQuery.submit(connection);
    if (refusal !== null) {
      stream.write(sync);
      this.#trailingQuery = null;
      trailingQuery.handleError(refusal, connection);
    }
    stream.uncork?.();
  }

  #messageOf(statement: SqlStatement, { known }: ConnectionState): PipelineMessage {
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

  handleRowDescription(message: { readonly fields: readonly PgField[] }): void {
    const trailingQuery = this.#answered;
    if (trailingQuery === null) this.#decode = decoderOf(message.fields);
    else trailingQuery.handleRowDescription(message);
  }

  handleDataRow(message: { readonly fields: readonly (string | null)[] }): void {
    const trailingQuery = this.#answered;
    if (trailingQuery !== null) {
      trailingQuery.handleDataRow(message);
      return;
    }
    const { fields } = message;
    const decode = this.#decode ?? this.#state?.known.get(this.#nameNow());
    if (!decode) throw new TypeError("Rows came without a description");
    this.#rows.push(decode(fields));
  }

  handleCommandComplete(message: { readonly text: string }, connection?: PgConnection): void {
    const trailingQuery = this.#answered;
    if (trailingQuery !== null) {
      trailingQuery.handleCommandComplete(message, connection);
      return;
    }
    const { text } = message;
    const name = this.#nameNow();
    if (this.#preparing?.has(name)) this.#state?.known.set(name, this.#decode ?? decoderOf([]));
    this.#replies.push({ tag: text, rows: this.#rows });
    this.#rows = [];
    this.#decode = null;
  }

  /** The name of the statement whose reply arrives next. */
  #nameNow(): string {
    return this.#statements[this.#replies.length]?.name ?? "";
  }

  handleEmptyQuery(connection?: PgConnection): void {
    const trailingQuery = this.#answered;
    if (trailingQuery === null) this.handleCommandComplete({ text: "" });
    else trailingQuery.handleEmptyQuery(connection);
  }

  handlePortalSuspended(): void {}

  handleCopyInResponse(connection: PgConnection): void {
    connection.sendCopyFail("not expected");
  }

  handleCopyData(): void {}

  handleReadyForQuery(connection?: PgConnection): void {
    this.#answered?.handleReadyForQuery(connection);
    this.#settle();
  }

  handleError(error: unknown, connection: PgConnection | undefined): void {
    if (this.#settled) return;
    const alive = this.#connection !== null && isFromServer(error) && connection?.stream.writable === true;
    const trailingQuery = this.#answered;
    if (trailingQuery !== null) {
      this.#trailingQuery = null;
      this.#trailingQueryFailed = true;
      trailingQuery.handleError(error, connection);
    }
    if (trailingQuery === null || !alive) this.#error ??= error;
    // The server skips to the Sync and then reports that it is ready, unless the error ended the session.
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
    if (this.#error !== null || this.#trailingQueryFailed) this.#settle();
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
      // If nothing was sent, nothing is known about the connection; an error without a later "ready" has ended it.
      status: sent ? this.#status : null,
      notices: this.#notices,
      statementsUnknown,
    });
  }
}

function nothing(): void {}
const none: readonly never[] = [];

/** A client in pipeline mode takes only query objects that descend from its own class. */
function acceptable(client: PgClient, pipeline: Pipeline): PgSubmittable {
  if (client.pipeline !== true) return pipeline;
  const { Query } = client.constructor as { Query?: { prototype: object } };
  return Query === undefined ? pipeline : Object.setPrototypeOf(passingOnTo(pipeline), Query.prototype);
}

function passingOnTo(pipeline: Pipeline): PgSubmittable {
  return {
    get name() {
      return pipeline.name;
    },
    get text() {
      return pipeline.text;
    },
    callback: nothing,
    submit: (connection) => pipeline.submit(connection),
    handleRowDescription: (message) => pipeline.handleRowDescription(message),
    handleDataRow: (message) => pipeline.handleDataRow(message),
    handleCommandComplete: (message, connection) => pipeline.handleCommandComplete(message, connection),
    handleEmptyQuery: (connection) => pipeline.handleEmptyQuery(connection),
    handlePortalSuspended: nothing,
    handleCopyInResponse: (connection) => pipeline.handleCopyInResponse(connection),
    handleCopyData: nothing,
    handleReadyForQuery: (connection) => pipeline.handleReadyForQuery(connection),
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
