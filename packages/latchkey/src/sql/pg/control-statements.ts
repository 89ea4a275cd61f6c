/** The statements that begin and end a transaction, and what the replies to BEGIN mean. */
import { StoreError } from "../../errors.ts";
import { certaintyOf, withServersWords } from "../sql-errors.ts";
import type { BridgeRequest, BridgeSession, IsolationLevel, SqlStatement } from "../transaction.ts";
import type { Connection } from "./connections.ts";
import type { PipelineReply } from "./pipeline.ts";

export function control(name: string, text: string): SqlStatement {
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

export function openError(reply: PipelineReply): StoreError {
  const after = reply.status === null ? "gone" : "answered";
  const certainty = reply.sent ? certaintyOf(reply.error, "statement", after) : "not_sent";
  const message = withServersWords("The transaction could not be opened", reply.error);
  return new StoreError(certainty, { cause: reply.error, message });
}

/** "There is already a transaction in progress": the connection came back in the middle of another's. */
export function hasJoined({ notices }: PipelineReply): boolean {
  return notices.some(({ code }) => code === "25001");
}

/** What an opening statement says of the level that the session has of itself. */
export function noteIsolation(
  { state }: Connection,
  { isolation }: BridgeRequest,
  opened: BridgeSession<never>["opened"],
): void {
  const level = opened[0]?.[0]?.isolation;
  if (isolation === null && state !== null && typeof level === "string") state.isolation = level;
}
