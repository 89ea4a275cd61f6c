/** Checks a role and its sessions for settings under which Latchkey's statements would read or write other things than intended. */
import { LatchkeyError } from "../../errors.ts";
import type { SqlRow } from "../../sql/transaction.ts";
import { nullableText, textOf } from "./statements/rows.ts";

/** @throws {LatchkeyError} `store-unsuitable`, naming what to change */
export function checkSuitability(schema: string, row: SqlRow): void {
  const role = textOf(row, "role_name");
  const hostile = nullableText(row, "hostile");
  if (hostile !== null) {
    const because = "which contains operators or types with the same names as Postgres's own";
    const remedy = "Remove pg_catalog from the search_path, so that Postgres searches it first";
    throw unsuitable(`The search_path lists ${hostile} before pg_catalog, ${because}. ${remedy}`);
  }
  const hidden = nullableText(row, "hidden");
  if (hidden !== null) {
    const remedy =
      "Give it a policy `for all using (true)`, disable row-level security there, or use the tables' owner";
    throw unsuitable(
      `Row-level security hides rows of schema ${schema} (${hidden}) from role ${role}. ${remedy}`,
    );
  }
  const lacking = nullableText(row, "lacking");
  if (lacking !== null)
    throw unsuitable(`Role ${role} lacks privileges in schema ${schema}: ${lacking}. Grant them`);
}

export function unsuitable(message: string): LatchkeyError {
  return new LatchkeyError("store-unsuitable", { message });
}
