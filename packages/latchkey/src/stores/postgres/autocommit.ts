/** One statement that commits by itself, on one connection, and what its reply means. */
import { sqlStateOf } from "../../attempt/sql-state.ts";
import { StoreError } from "../../errors.ts";
import type { Connection } from "../../transactions/pg/connections.ts";
import { begin, commit } from "../../transactions/pg/control-statements.ts";
import { type FlightReply, FlightTimeout } from "../../transactions/pg/flight.ts";
import { certaintyOf, refusalOf } from "../../transactions/sql-errors.ts";
import type { SqlRow, SqlStatement } from "../../transactions/transaction.ts";
import { commitSettings } from "./sql-parts.ts";

export type AutocommitKind = "read" | "write";

/** `again`: for certain nothing happened, and another try may succeed. */
export type AutocommitResult =
  | { readonly rows: readonly SqlRow[] }
  | { readonly error: StoreError; readonly again: boolean };

/**
 * A record of nothing, which is replicated after everything written before it. It waits whatever the session's settings:
 * only a store whose own COMMITs wait can have seen a wait that was cancelled.
 */
const barrier: SqlStatement = {
  name: "lk_write_barrier",
  text: `select pg_catalog.pg_logical_emit_message(true, 'latchkey', '')::text as lsn,
    ${commitSettings({ synced: true })}`,
  values: [],
};

/** Runs the statement, and destroys the connection unless it can be used again. Never throws. */
export async function autocommit(
  connection: Connection,
  statement: SqlStatement,
  kind: AutocommitKind,
): Promise<AutocommitResult> {
  let reply = await connection.fly([statement]);
  if (reply.forgotten && reply.status === "I") reply = await connection.fly([statement]);
  // In the middle of a transaction that somebody left open: nothing was committed, and nothing may be.
  if (reply.status !== "I") connection.destroy();
  if (reply.error !== null) return failed(reply, kind);
  if (reply.status !== "I") return { error: failure("rolled_back", leftOpen), again: true };
  const rows = reply.replies[0]?.rows ?? [];
  if (kind === "read" || !isWarned(reply, 1) || (await isDurable(connection))) return { rows };
  connection.destroy();
  return { error: failure("in_doubt", new Error("The write came with a warning (01000)")), again: false };
}

const leftOpen = new Error("The pool gave out a connection with an open transaction");

function failed(reply: FlightReply, kind: AutocommitKind): AutocommitResult {
  const { error, sent, status } = reply;
  if (!sent) return { error: failure("not_sent", error), again: !(error instanceof FlightTimeout) };
  if (status === "T" || status === "E") return { error: failure("rolled_back", leftOpen), again: true };
  const phase = kind === "write" ? "commit" : "statement";
  const certainty = certaintyOf(error, phase, status === null ? "gone" : "answered");
  const lost = status === null && kind === "read" && !(error instanceof FlightTimeout);
  const conflict = certainty === "rolled_back" && refusalOf(sqlStateOf(error) ?? "") === "serialization";
  return { error: failure(certainty, error), again: lost || conflict };
}

function failure(certainty: StoreError["certainty"], cause: unknown): StoreError {
  return new StoreError(certainty, { cause, message: "A statement on the record failed" });
}

/** Whether a warning came once `count` statements were done: that is, from the COMMIT. */
export function isWarned(reply: FlightReply, count: number): boolean {
  return reply.notices.some(({ code, after }) => code === "01000" && after >= count);
}

/** A cancelled wait for synchronous replication is made good by a later one that was not cancelled. */
async function isDurable(connection: Connection): Promise<boolean> {
  const reply = await connection.fly([begin("read committed"), barrier, commit]);
  return reply.error === null && reply.replies[2]?.tag === "COMMIT" && !isWarned(reply, 2);
}
