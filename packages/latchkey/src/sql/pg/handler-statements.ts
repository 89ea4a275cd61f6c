/** Passes on the statements that a handler sends through its `tx`; those that are sent repeatedly get a name. */
import { LatchkeyError } from "../../errors.ts";
import { sqlStateOf } from "../sql-state.ts";
import type { PgClient, PgTrailingQuery } from "./client.ts";
import { namePrefix, type RepeatedStatements } from "./statement-names.ts";

type Query = (...args: unknown[]) => unknown;

type Callback = (error: unknown, result?: unknown) => void;

/** `pg`'s own class of queries. */
type QueryClass = new (config: unknown, values: readonly unknown[], callback: Callback) => PgQuery;

interface PgQuery extends PgTrailingQuery {
  binary?: unknown;
  /** Where `pg`'s client puts its own type parsers. */
  readonly _result?: { _types?: unknown };
}

/** Sent in one pipeline with the first statement: it opens the transaction, or sets the savepoint of a part of one. */
export interface FirstPipeline {
  /** Whether a statement can be sent in it. */
  readonly takesQuery: boolean;
  /** Once true, statements need not wait. */
  readonly admitted: boolean;
  /**
   * @param trailingQuery sent along if this call sends the pipeline, else ignored
   * @returns false if the trailing query's reply must not reach the handler
   */
  open(trailingQuery?: PgTrailingQuery | null): Promise<boolean>;
}

/** What the end of a transaction needs to know about the statements of its handlers. */
export type SentStatements = Pick<HandlerStatements, "openQueries" | "failure" | "named" | "nameNothing">;

/** The statements of one transaction, or of one part of it. */
export class HandlerStatements {
  readonly #client: PgClient;
  readonly #repeated: RepeatedStatements | null;
  readonly #mayName: () => boolean;
  readonly #opening: FirstPipeline | null;
  #named = false;
  #failure: unknown = null;
  #queued: Promise<unknown> | null = null;
  #waiting = 0;
  #closed = false;
  readonly openQueries: OpenQueries;

  /**
   * @param repeated null if no statement gets a name
   * @param mayName called before each statement
   * @param opening sent with the first statement; null if nothing is
   * @param openQueries of the whole transaction
   */
  constructor(
    client: PgClient,
    repeated: RepeatedStatements | null,
    mayName: () => boolean,
    opening: FirstPipeline | null,
    openQueries = new OpenQueries(),
  ) {
    this.#client = client;
    this.#repeated = repeated;
    this.#mayName = mayName;
    this.#opening = opening;
    this.openQueries = openQueries;
  }

  /** Whether a statement went under a name. */
  get named(): boolean {
    return this.#named;
  }

  /**
   * An error that may have occurred only because a statement had a name; null if there was none. Whatever the handler did
   * with it, its transaction must not be committed.
   */
  get failure(): unknown {
    return this.#failure;
  }

  /** Called when the same texts refer to other tables from one transaction to the next. */
  nameNothing(): void {
    this.#repeated?.end();
  }

  send(query: Query, args: readonly unknown[]): unknown {
    this.openQueries.note(args[0]);
    const opening = this.#opening;
    if (opening === null || opening.admitted) return this.#sendNow(query, args);
    return this.#sendFirst(args, opening) ?? this.#sendLater(opening, query, args);
  }

  /** Whether a statement waits for the first pipeline. */
  get waits(): boolean {
    return this.#waiting > 0;
  }

  /** Resolves when every statement that waits for the first pipeline is in the client's queue, or will never be. */
  async queued(): Promise<void> {
    await this.#queued;
  }

  /** From now on a statement that still waits for the first pipeline is refused: its transaction may be over by then. */
  close(): void {
    this.#closed = true;
  }

  #sendLater(opening: FirstPipeline, query: Query, args: readonly unknown[]): unknown {
    const { promise: queued, resolve } = Promise.withResolvers<void>();
    this.#queued = Promise.all([this.#queued, queued]);
    this.#waiting += 1;
    const left = () => {
      this.#waiting -= 1;
      resolve();
    };
    opening.open().then((ok) => ok || left(), left);
    return sendAfter(opening, args, () => {
      left();
      if (this.#closed) throw new LatchkeyError("tx-revoked");
      return this.#sendNow(query, args);
    });
  }

  #sendNow(query: Query, args: readonly unknown[]): unknown {
    const statement = this.#namedStatement(args);
    if (statement === null) return Reflect.apply(query, this.#client, args);
    const { name, text, values, config } = statement;
    const refused = (error: unknown) => this.#refused(text, error);
    const Query = queryClassOf(this.#client);
    if (config === null && Query !== undefined) {
      // `pg` copies a config object property by property, which takes longer than everything else that it does with it.
      return new Promise((resolve, reject) => {
        const named = new Query(text, values, (error, result) => (error ? reject(error) : resolve(result)));
        named.name = name;
        Reflect.apply(query, this.#client, [named]);
      }).catch(refused);
    }
    // Without a callback `pg` returns a promise, of the class that its client was given.
    const sent = Reflect.apply(query, this.#client, [
      { ...config, text, values, name },
    ]) as PromiseLike<unknown>;
    return sent.then(undefined, refused);
  }

  /** Null if the statement has no name. */
  #namedStatement(args: readonly unknown[]): (Nameable & { readonly name: string }) | null {
    const statement = this.#mayName() ? nameable(args) : null;
    const name = statement === null ? null : (this.#repeated?.nameOf(statement.text) ?? null);
    if (statement === null || name === null) return null;
    this.#named = true;
    return { ...statement, name };
  }

  /**
   * Sends the statement in the first pipeline; null if it was not sent. Only statements that `pg` prepares can be sent there,
   * because the server skips the rest of a pipeline after an error, but not a simple query.
   */
  #sendFirst(args: readonly unknown[], opening: FirstPipeline): Promise<unknown> | null {
    const Query = queryClassOf(this.#client);
    if (!opening.takesQuery || Query === undefined || nameable(args) === null) return null;
    const statement = this.#namedStatement(args) ?? nameable(args);
    if (statement === null) return null;
    const { text, values, config } = statement;
    const { promise: ran, resolve, reject } = Promise.withResolvers<unknown>();
    // If the opening is not admitted, nothing awaits this promise.
    ran.catch(() => {});
    const query = new Query(config === null ? text : { ...config }, values, (error, result) =>
      error ? reject(error) : resolve(result),
    );
    if ("name" in statement) query.name = String(statement.name);
    asClientWould(this.#client, query);
    const admitted = opening.open(query).then((ok) => (ok ? ran : Promise.reject(notAdmitted())));
    return "name" in statement ? admitted.catch((error: unknown) => this.#refused(text, error)) : admitted;
  }

  #refused(text: string, error: unknown): never {
    const state = sqlStateOf(error) ?? "";
    if (isPerhapsOfTheName(state)) {
      this.#failure ??= error;
      this.#repeated?.fail(text);
      if (state === statementsUnknown) this.#forget();
    }
    throw error;
  }

  /** Called when the server has dropped a statement of this connection; with DEALLOCATE ALL and most poolers, it has dropped all. */
  #forget(): void {
    const parsed = this.#client.connection?.parsedStatements ?? {};
    for (const name of Object.keys(parsed)) if (name.startsWith(namePrefix)) delete parsed[name];
  }
}

function queryClassOf(client: PgClient): QueryClass | undefined {
  return (client.constructor as { readonly Query?: QueryClass }).Query;
}

/** Prepares a query as `pg`'s client does with each query that it is given. */
function asClientWould(client: PgClient & { _types?: unknown; binary?: unknown }, query: PgQuery): void {
  if (client.binary && !query.binary) query.binary = true;
  if (query._result !== undefined && !query._result._types) query._result._types = client._types;
}

function notAdmitted(): LatchkeyError {
  return new LatchkeyError("not-admitted");
}

/** Sends a statement once the transaction is open and its run admitted; reports errors in the way that the call expects. */
function sendAfter(opening: FirstPipeline, args: readonly unknown[], send: () => unknown): unknown {
  const admitted = opening.open().then((ok) => (ok ? undefined : Promise.reject(notAdmitted())));
  const [first] = args;
  if (typeof first === "object" && first !== null && "submit" in first) {
    const { handleError } = first as { handleError?: (error: unknown, connection: unknown) => void };
    admitted.then(send).catch((error: unknown) => handleError?.call(first, error, null));
    return first;
  }
  const callback = args.at(-1);
  if (typeof callback !== "function") return admitted.then(send);
  admitted.then(send).catch((error: unknown) => Reflect.apply(callback, undefined, [error]));
  return undefined;
}

const statementsUnknown = "26000";

/**
 * Besides a statement that the server no longer knows: the type of a result has changed (0A000), and, because a prepared
 * statement keeps the types of its parameters when a column's is altered, wrong types (class 42) and values (class 22).
 */
function isPerhapsOfTheName(state: string): boolean {
  return state === statementsUnknown || state === "0A000" || state.startsWith("22") || state.startsWith("42");
}

interface Nameable {
  readonly text: string;
  readonly values: readonly unknown[];
  /** Null if the statement was given as text and values. */
  readonly config: object | null;
}

/** Options that `pg` treats alike with a name and without. */
const alike: ReadonlySet<string> = new Set(["text", "values", "types", "rowMode", "name"]);

/** The statement, if it has parameters and asks for nothing but a promise of its result. */
function nameable(args: readonly unknown[]): Nameable | null {
  const [statement, given] = args;
  if (args.length > 2) return null;
  if (typeof statement === "string") return withValues(statement, given, null);
  if (typeof statement !== "object" || statement === null || !isPlain(statement)) return null;
  const config: { text?: unknown; values?: unknown; name?: unknown } = statement;
  return config.name ? null : withValues(config.text, given || config.values, config);
}

function isPlain(config: object): boolean {
  return (
    Object.getPrototypeOf(config) === Object.prototype && Object.keys(config).every((key) => alike.has(key))
  );
}

/** Null without parameters, because the text may then have several statements, which cannot have one name. */
function withValues(text: unknown, values: unknown, config: object | null): Nameable | null {
  if (typeof text !== "string" || !Array.isArray(values) || values.length === 0) return null;
  return { text, values, config };
}

/** The methods that `pg` calls on a query object when the query is over. */
interface QueryObject {
  handleReadyForQuery?: (...args: unknown[]) => unknown;
  handleError?: (...args: unknown[]) => unknown;
  on?: (event: "error", listener: () => void) => unknown;
}

const ends = ["handleReadyForQuery", "handleError"] as const;

/** Closing takes a round trip; a query that is still open after this time will not be closed by the handler. */
const closingMs = 1_000;

/** Query objects that a handler sends: cursors, streams and COPYs hold the connection until they are read or closed. */
export class OpenQueries {
  readonly #open = new Set<QueryObject>();

  /** Notes a query, if it is an object that writes its own protocol messages. */
  note(query: unknown): void {
    if (typeof query !== "object" || query === null || !("submit" in query)) return;
    const object = query as QueryObject;
    this.#open.add(object);
    for (const name of ends) {
      const end = object[name];
      if (typeof end !== "function") continue;
      object[name] = (...args) => {
        this.#open.delete(object);
        return Reflect.apply(end, object, args);
      };
    }
  }

  /** Option of the pipeline that follows the handler, which sends no more by then. Undefined if nothing is open. */
  get blocked() {
    return this.#open.size === 0 ? undefined : { afterMs: closingMs, by: () => this.#error() };
  }

  /** From now on their connection may end at any time, and an error without a listener would end the process. */
  abandon(): void {
    for (const object of this.#open) object.on?.("error", () => {});
  }

  #error(): LatchkeyError | null {
    const [object] = this.#open;
    if (object === undefined) return null;
    const message = `A ${object.constructor.name} that the handler sent through its \`tx\` is still open, so its transaction cannot end. Read it to its end, or close it, before you answer`;
    return new LatchkeyError("query-open", { message });
  }
}
