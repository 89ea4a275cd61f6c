import type { IsolationLevel } from "../../stores/store.ts";
import type { SqlStatement } from "../transaction.ts";

function control(name: string, text: string): SqlStatement {
  return { name, text, values: [] };
}

/** READ WRITE makes a hot standby refuse here and not at COMMIT. */
const begins = {
  default: control("lk_begin", "begin read write"),
  "read committed": control("lk_begin_rc", "begin isolation level read committed read write"),
  "repeatable read": control("lk_begin_rr", "begin isolation level repeatable read read write"),
  serializable: control("lk_begin_s", "begin isolation level serializable read write"),
} as const satisfies Record<IsolationLevel | "default", SqlStatement>;

export function begin(isolation: IsolationLevel | null): SqlStatement {
  return begins[isolation ?? "default"];
}

export const commit = control("lk_commit", "commit");
export const rollback = control("lk_rollback", "rollback");
