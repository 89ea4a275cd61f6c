/** Latchkey's own statements on PGlite, and their errors. */

import { StoreError } from "../../errors.ts";
import { decoders } from "../pg/wire-messages.ts";
import { certaintyOf, type SqlPhase } from "../sql-errors.ts";
import type { SqlRow, SqlStatement, SqlValue } from "../transaction.ts";
import type { PgliteQueryable } from "./database.ts";

const bytesOf = (value: SqlValue) =>
  value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : String(value);

/** Values of `jsonb`, `uuid` and the other types that Latchkey's statements name pass as plain texts. */
const plainTypes = [19, 20, 21, 23, 25, 114, 700, 701, 1043, 2950, 3802];

/** Override the parsers and serializers that the user's database was made with. */
const options = {
  rowMode: "object",
  parsers: { ...Object.fromEntries(plainTypes.map((oid) => [oid, (text: string) => text])), ...decoders },
  serializers: { ...Object.fromEntries(plainTypes.map((oid) => [oid, String])), 16: String, 17: bytesOf },
} as const;

/** @throws the database's error, without the values that were sent */
export async function runStatement(
  on: PgliteQueryable,
  { text, values }: SqlStatement,
): Promise<readonly SqlRow[]> {
  try {
    return (await on.query(text, values, options)).rows;
  } catch (error) {
    throw withoutValues(error);
  }
}

/** PGlite puts a statement's values on its error; keys and answers must not get into logs that way. */
export function withoutValues(error: unknown): unknown {
  if (error instanceof Error && "params" in error) error.params = undefined;
  return error;
}

/** PGlite's messages, without a SQLSTATE, for a database that is closed or was never opened. */
const unopened: readonly string[] = ["PGlite is closed", "PGlite is closing"];

export function storeError(cause: unknown, phase: SqlPhase, message: string): StoreError {
  const closed = cause instanceof Error && unopened.includes(cause.message);
  const certainty = closed ? "not_sent" : certaintyOf(cause, phase, "answered");
  return new StoreError(certainty, { cause, message });
}
