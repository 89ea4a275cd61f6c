/** What a handler sends through its `tx`: passed on, under a name where it is one of those that come again and again. */
import { sqlStateOf } from "../sql-state.ts";
import type { PgClient } from "./client.ts";
import { OpenQueries } from "./open-queries.ts";
import { namePrefix, type RepeatedStatements } from "./statement-names.ts";

type Query = (...args: unknown[]) => unknown;

/** `pg`'s own class of queries. */
type QueryClass = new (
  text: string,
  values: readonly unknown[],
  callback: (error: unknown, result: unknown) => void,
) => { name?: string };

/** The statements of one transaction. */
export class HandlerStatements {
  readonly #client: PgClient;
  readonly #repeated: RepeatedStatements | null;
  readonly #mayName: () => boolean;
  #named = false;
  #failure: unknown = null;
  readonly openQueries = new OpenQueries();

  /**
   * @param repeated null: nothing gets a name
   * @param mayName asked before each statement
   */
  constructor(client: PgClient, repeated: RepeatedStatements | null, mayName: () => boolean) {
    this.#client = client;
    this.#repeated = repeated;
    this.#mayName = mayName;
  }

  /** Whether a statement went under a name. */
  get named(): boolean {
    return this.#named;
  }

  /**
   * An error that may be there only because a statement had a name; null: there was none. Whatever the handler has made of
   * it, its transaction must not stand.
   */
  get failure(): unknown {
    return this.#failure;
  }

  /** The texts mean something else from one time to the next. */
  nameNothing(): void {
    this.#repeated?.end();
  }

  send(query: Query, args: readonly unknown[]): unknown {
    this.openQueries.note(args[0]);
    const statement = this.#mayName() ? nameable(args) : null;
    const name = statement === null ? null : (this.#repeated?.nameOf(statement.text) ?? null);
    if (statement === null || name === null) return Reflect.apply(query, this.#client, args);
    this.#named = true;
    const { text, values, config } = statement;
    const refused = (error: unknown) => this.#refused(text, error);
    const { Query } = this.#client.constructor as { readonly Query?: QueryClass };
    if (config === null && Query !== undefined) {
      // `pg` copies a config object property by property, which takes longer than all else it does with it.
      return new Promise((resolve, reject) => {
        const named = new Query(text, values, (error, result) => (error ? reject(error) : resolve(result)));
        named.name = name;
        Reflect.apply(query, this.#client, [named]);
      }).catch(refused);
    }
    // Without a callback `pg` answers with a promise, of the class that its client was given.
    const sent = Reflect.apply(query, this.#client, [
      { ...config, text, values, name },
    ]) as PromiseLike<unknown>;
    return sent.then(undefined, refused);
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

  /** The server has dropped one statement of this connection; with DEALLOCATE ALL and most poolers, all of them. */
  #forget(): void {
    const parsed = this.#client.connection?.parsedStatements ?? {};
    for (const name of Object.keys(parsed)) if (name.startsWith(namePrefix)) delete parsed[name];
  }
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
  /** Null: it was given as text and values. */
  readonly config: object | null;
}

/** What `pg` treats alike with a name and without. */
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

/** Without parameters it may be several statements at once, which no name can stand for. */
function withValues(text: unknown, values: unknown, config: object | null): Nameable | null {
  if (typeof text !== "string" || !Array.isArray(values) || values.length === 0) return null;
  return { text, values, config };
}
