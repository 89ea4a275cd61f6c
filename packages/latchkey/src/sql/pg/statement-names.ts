/**
 * Names for statements that handlers send again and again, so that the server parses and plans each of them once per
 * connection. What may be named, how often and how it fails: docs/decisions/009.
 */
import { createHash } from "node:crypto";
import { sessionSettings } from "../session-settings.ts";
import type { SqlRow, SqlStatement } from "../transaction.ts";
import type { ConnectionState } from "./connection-state.ts";

/** A text has a name from this sending on; the same number as pgJDBC's `prepareThreshold`. */
const sendsUntilNamed = 5;
/** How many texts of one pool ever get a name, so that no connection holds more prepared statements than that. */
const namesMax = 100;
/** How many texts are counted at once. Texts that are made for a single request are never sent again and must not take up memory. */
const countedMax = 500;
const textLengthMax = 4_096;

/** Counts and names the texts that the handlers of all transactions over one pool send. */
export class RepeatedStatements {
  readonly #names = new Map<string, string>();
  readonly #sends = new Map<string, number>();
  readonly #everNamed = new Set<string>();
  readonly #failed = new Set<string>();
  #ended = false;

  /** The name of a text that is about to be sent; null if it has none. */
  nameOf(text: string): string | null {
    if (this.#ended) return null;
    const name = this.#names.get(text);
    return name ?? (this.#count(text) >= sendsUntilNamed ? this.#nameNow(text) : null);
  }

  /** Never names this text again, and drops the names of the others for now: when the transaction runs again, it should not fail on the next one. */
  fail(text: string): void {
    this.#failed.add(text);
    this.#names.clear();
    this.#sends.clear();
  }

  /** Gives no more names: what a text refers to changes in a way that cannot be detected beforehand. */
  end(): void {
    this.#ended = true;
  }

  #count(text: string): number {
    if (text.length > textLengthMax || this.#failed.has(text)) return 0;
    if (this.#everNamed.size >= namesMax && !this.#everNamed.has(text)) return 0;
    const sends = (this.#sends.get(text) ?? 0) + 1;
    if (this.#sends.size >= countedMax) this.#sends.clear();
    this.#sends.set(text, sends);
    return sends;
  }

  #nameNow(text: string): string {
    // One text per name on a connection, whichever code prepared it: `pg` refuses two.
    const name = `${namePrefix}${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
    this.#sends.delete(text);
    this.#everNamed.add(text);
    this.#names.set(text, name);
    return name;
  }
}

export const namePrefix = "lk_tx_";

/*
 * When statements may have names. A prepared statement keeps the types that its parameters had when it was prepared. If the
 * same text then refers to another table, because the search path has changed or a temporary table hides the first one, a
 * value would be converted through the wrong type without an error: '007' becomes 7.
 */

/** The default `search_path` of Postgres. */
const untouched = '"$user", public';

/** The schemas that a transaction's statements look in; null if other transactions of the connection may look in others. */
export function namingSchemas(state: ConnectionState | null, opened: SqlRow | undefined): string | null {
  const settings = sessionSettings(opened);
  if (state === null || settings === null) return null;
  const { search_path: path, session_role: role, schemas } = settings;
  if (path !== untouched || role !== "none" || schemas.includes("pg_temp")) return null;
  state.namedIn ??= schemas;
  return state.namedIn === schemas ? schemas : null;
}

/**
 * Raises 22012 when the named statements did not look in these schemas, because a function can change the search path. Returns no
 * row, so that there is none to read.
 */
export function sameSchemas(schemas: string): SqlStatement {
  return {
    name: "lk_same_schemas",
    text: "select where 1 / (pg_catalog.current_schemas(true)::pg_catalog.text = $1::pg_catalog.text)::int = 0",
    values: [schemas],
  };
}
