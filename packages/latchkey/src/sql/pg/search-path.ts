/**
 * When handlers' statements may have names. A prepared statement keeps the types that its parameters had when it was
 * prepared. Where the same text finds another table, because the search path is another or a temporary table stands
 * before it, a value would pass through the wrong type without an error: '007' becomes 7.
 */
import type { SqlRow, SqlStatement } from "../transaction.ts";
import type { ConnectionState } from "./connection-state.ts";

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
