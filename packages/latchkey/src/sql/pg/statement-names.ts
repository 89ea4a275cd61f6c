/**
 * Names for statements that handlers send again and again, so that the server parses and plans each of them once per
 * connection. What may be named, how often and how it fails: docs/decisions/009.
 */
import { createHash } from "node:crypto";
import type { SqlRow, SqlStatement } from "../transaction.ts";
import type { ConnectionState } from "./connection-state.ts";

/** From this time on that a text is sent it has a name: pgJDBC's `prepareThreshold` too. */
const sendsUntilNamed = 5;
/** So many texts of one pool are named, ever, so that no connection holds more statements than that. */
const namesMax = 100;
/** Texts made anew for every request never come again; counting them must not cost memory. */
const countedMax = 500;
const textLengthMax = 4_096;

/** What all transactions over one pool know about the texts that their handlers send. */
export class RepeatedStatements {
  readonly #names = new Map<string, string>();
  readonly #sends = new Map<string, number>();
  readonly #everNamed = new Set<string>();
  readonly #failed = new Set<string>();
  #ended = false;

  /** The name of a text that is about to be sent; null: it goes without. */
  nameOf(text: string): string | null {
    if (this.#ended) return null;
    const name = this.#names.get(text);
    return name ?? (this.#count(text) >= sendsUntilNamed ? this.#nameNow(text) : null);
  }

  /** Never names this text again, and for now no other: its transaction runs again, and should not fail on the next. */
  fail(text: string): void {
    this.#failed.add(text);
    this.#names.clear();
    this.#sends.clear();
  }

  /** Names nothing any more: what a text means changes in a way that cannot be seen beforehand. */
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
 * When statements may have names. A prepared statement keeps the types that its parameters had when it was prepared. Where
 * the same text finds another table, because the search path is another or a temporary table stands before it, a value
 * would pass through the wrong type without an error: '007' becomes 7.
 */

/** What a session of Postgres has by default. */
const untouched = '"$user", public';

/** The schemas that a transaction's statements look in, where that is what every transaction of the connection does. */
export function namingSchemas(state: ConnectionState | null, opened: SqlRow | undefined): string | null {
  if (state === null || opened === undefined) return null;
  const { search_path: path, session_role: role, schemas } = opened;
  if (path !== untouched || role !== "none" || typeof schemas !== "string") return null;
  if (schemas.includes("pg_temp")) return null;
  state.namedIn ??= schemas;
  return state.namedIn === schemas ? schemas : null;
}

/** Raises 22012 when the statements that went under names have not looked there: a function can change the search path. */
export function sameSchemas(schemas: string): SqlStatement {
  return {
    name: "lk_same_schemas",
    text: "select 1 / (pg_catalog.current_schemas(true)::pg_catalog.text = $1::pg_catalog.text)::int as same",
    values: [schemas],
  };
}
