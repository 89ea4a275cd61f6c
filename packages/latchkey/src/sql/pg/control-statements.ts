/** The statements that begin and end a transaction, and what the replies to BEGIN mean. */
import { StoreError } from "../../errors.ts";
import { sessionSettings } from "../session-settings.ts";
import { certaintyOf, withServersWords } from "../sql-errors.ts";
import type { BridgeRequest, BridgeSession, IsolationLevel, SqlStatement } from "../transaction.ts";
import type { Connection } from "./connections.ts";
import type { PipelineReply } from "./pipeline.ts";

export function control(name: string, text: string): SqlStatement {
  return { name, text, values: [] };
}

/** Without READ WRITE, because operators set `default_transaction_read_only` on a database that is no longer to be written to. */
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

export function openError(reply: PipelineReply): StoreError {
  const after = reply.status === null ? "gone" : "answered";
  const certainty = reply.sent ? certaintyOf(reply.error, "statement", after) : "not_sent";
  const message = withServersWords("The transaction could not be opened", reply.error);
  return new StoreError(certainty, { cause: reply.error, message });
}

/** "There is already a transaction in progress": the connection was returned to the pool in the middle of another transaction. */
export function hasJoined({ notices }: PipelineReply): boolean {
  return notices.some(({ code }) => code === "25001");
}

/** Notes the session's default isolation level, which an opening statement returns. */
export function noteIsolation(
  { state }: Connection,
  { isolation }: BridgeRequest,
  opened: BridgeSession<never>["opened"],
): void {
  const settings = sessionSettings(opened[0]?.[0]);
  if (isolation === null && state !== null && settings !== null) state.isolation = settings.isolation;
}
