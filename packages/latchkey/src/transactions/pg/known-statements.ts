import type { PgConnection } from "./client.ts";
import type { RowDecoder } from "./values.ts";

/** Statements that a connection has prepared under their names, with how to read their rows. */
export type KnownStatements = Map<string, RowDecoder>;

const byConnection = new WeakMap<PgConnection, KnownStatements>();

/** What this connection is known to have prepared. Kept apart from `pg`'s own list, whose names never begin alike. */
export function knownStatements(connection: PgConnection): KnownStatements {
  let known = byConnection.get(connection);
  if (known === undefined) {
    known = new Map();
    byConnection.set(connection, known);
  }
  return known;
}
