import type { IsolationLevel, SqlStatement } from "../transaction.ts";

function control(name: string, text: string): SqlStatement {
  return { name, text, values: [] };
}

/** Not READ WRITE: `default_transaction_read_only` is how a database says that it is to be left. */
const begins = {
  default: control("lk_begin", "begin"),
  "read committed": control("lk_begin_rc", "begin isolation level read committed"),
  "repeatable read": control("lk_begin_rr", "begin isolation level repeatable read"),
  serializable: control("lk_begin_s", "begin isolation level serializable"),
} as const satisfies Record<IsolationLevel | "default", SqlStatement>;

export function begin(isolation: IsolationLevel | null): SqlStatement {
  return begins[isolation ?? "default"];
}

export const commit = control("lk_commit", "commit");
export const rollback = control("lk_rollback", "rollback");
