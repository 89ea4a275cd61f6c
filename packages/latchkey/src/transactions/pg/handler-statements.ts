/** What a handler sends through its `tx`: passed on, under a name where it is one of those that come again and again. */
import { sqlStateOf } from "../../attempt/sql-state.ts";
import type { PgClient } from "./client.ts";
import { namePrefix, type RepeatedStatements } from "./repeated-statements.ts";

type Query = (...args: unknown[]) => unknown;

/** The statements of one transaction. */
export class HandlerStatements {
  readonly #client: PgClient;
  readonly #repeated: RepeatedStatements;
  #failure: unknown = null;

  constructor(client: PgClient, repeated: RepeatedStatements) {
    this.#client = client;
    this.#repeated = repeated;
  }

  /**
   * An error that may be there only because a statement had a name; null: there was none. Whatever the handler has made of
   * it, its transaction must not stand.
   */
  get failure(): unknown {
    return this.#failure;
  }

  send(query: Query, args: readonly unknown[]): unknown {
    const statement = nameable(args);
    const name = statement === null ? null : this.#repeated.nameOf(statement.text);
    if (statement === null || name === null) return Reflect.apply(query, this.#client, args);
    const sent = Reflect.apply(query, this.#client, [{ ...statement, name }]);
    return sent instanceof Promise
      ? sent.catch((error: unknown) => this.#refused(statement.text, error))
      : sent;
  }

  #refused(text: string, error: unknown): never {
    const state = sqlStateOf(error) ?? "";
    if (isPerhapsOfTheName(state)) {
      this.#failure ??= error;
      this.#repeated.fail(text);
      if (state === forgotten) this.#forget();
    }
    throw error;
  }

  /** The server has dropped one statement of this connection; with DEALLOCATE ALL and most poolers, all of them. */
  #forget(): void {
    const parsed = this.#client.connection?.parsedStatements ?? {};
    for (const name of Object.keys(parsed)) if (name.startsWith(namePrefix)) delete parsed[name];
  }
}

const forgotten = "26000";

/**
 * Besides a statement that the server has forgotten: the type of a result has changed (0A000), and, because a prepared
 * statement keeps the types of its parameters when a column's is altered, wrong types (class 42) and values (class 22).
 */
function isPerhapsOfTheName(state: string): boolean {
  return state === forgotten || state === "0A000" || state.startsWith("22") || state.startsWith("42");
}

interface Nameable {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What `pg` treats alike with a name and without. */
const alike: ReadonlySet<string> = new Set(["text", "values", "types", "rowMode", "name"]);

/** The statement, if it has parameters and asks for nothing but a promise of its result. */
function nameable(args: readonly unknown[]): Nameable | null {
  const [statement, given] = args;
  if (args.length > 2 || typeof given === "function") return null;
  if (typeof statement === "string") return withValues({ text: statement, values: given });
  if (typeof statement !== "object" || statement === null || !isPlain(statement)) return null;
  const config: { text?: unknown; values?: unknown; name?: unknown } = statement;
  if (config.name) return null;
  return withValues({ ...config, values: given || config.values });
}

function isPlain(config: object): boolean {
  return (
    Object.getPrototypeOf(config) === Object.prototype && Object.keys(config).every((key) => alike.has(key))
  );
}

/** Without parameters it may be several statements at once, which no name can stand for. */
function withValues(config: { readonly text?: unknown; readonly values?: unknown }): Nameable | null {
  const { text, values } = config;
  if (typeof text !== "string" || !Array.isArray(values) || values.length === 0) return null;
  return { ...config, text, values };
}
