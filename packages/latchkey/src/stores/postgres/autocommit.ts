/** One statement that commits by itself, on one connection, and what its reply means. */

import { isLatchkeyError, type LatchkeyError, StoreError } from "../../errors.ts";
import type { ConnectionState } from "../../sql/pg/connection-state.ts";
import type { Connection } from "../../sql/pg/connections.ts";
import { begin, commit, rollback } from "../../sql/pg/control-statements.ts";
import { type PipelineReply, PipelineTimeout } from "../../sql/pg/pipeline.ts";
import { certaintyOf, refusalOf, withServersWords } from "../../sql/sql-errors.ts";
import { sqlStateOf } from "../../sql/sql-state.ts";
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";
import { sql } from "./sql/texts.ts";
import { onlyRow, textOf } from "./statements/rows.ts";
import { plainStatement } from "./statements/statement.ts";
import { unsuitableEncoding } from "./transactions/session-statements.ts";

export type AutocommitKind = "read" | "write";

/** Whether to try again. That is safe only if certainly nothing was written. After a conflict it waits, so that the other transaction can end. */
export type Again = "no" | "at_once" | "after_pause";

export type AutocommitResult =
  | { readonly rows: readonly SqlRow[] }
  | { readonly error: LatchkeyError; readonly again: Again };

const barrier = plainStatement("write_barrier", sql.writeBarrier).bind({});

/** Runs the statement, and destroys the connection unless it can be used again. Never throws. */
export async function autocommit(
  connection: Connection,
  statement: SqlStatement,
  kind: AutocommitKind,
): Promise<AutocommitResult> {
  let reply = await alone(connection, statement);
  if (reply.statementsUnknown && reply.status === "I") reply = await alone(connection, statement);
  // Other code left a transaction open on this connection: nothing was committed, and nothing may be.
  if (reply.status !== "I") connection.destroy();
  if (reply.error !== null) {
    // This error cannot occur at READ COMMITTED, so the session has another level by now.
    const { state } = connection;
    if (state?.isolation === "read committed" && sqlStateOf(reply.error) === "40001") state.isolation = null;
    return failed(reply, kind);
  }
  if (reply.status !== "I") return { error: failure("rolled_back", leftOpen), again: "at_once" };
  const rows = reply.replies[0]?.rows ?? [];
  if (kind === "read" || !isWarned(reply, 1) || (await isDurable(connection))) return { rows };
  connection.destroy();
  return { error: failure("in_doubt", new Error("The write came with a warning (01000)")), again: "no" };
}

/** Sent to a session that Latchkey uses for the first time. */
const sessionStatement = plainStatement("session", sql.session).bind({});

/**
 * At READ COMMITTED, whatever the session's own level, because at a higher level statements about unrelated keys make each other
 * fail. A level that is not known yet is read in the same pipeline. If a transaction is open already, nothing is sent, because
 * BEGIN would only warn, and COMMIT would end that transaction.
 */
function alone(connection: Connection, statement: SqlStatement): Promise<PipelineReply> {
  const { state } = connection;
  if (state === null || state.isolation === "read committed") return connection.sendPipeline([statement]);
  return atReadCommitted(connection, statement, state);
}

async function atReadCommitted(
  connection: Connection,
  statement: SqlStatement,
  state: ConnectionState,
): Promise<PipelineReply> {
  if (state.isolation === null) {
    const reply = await connection.sendPipeline([sessionStatement, statement]);
    const [session] = reply.replies;
    if (session !== undefined) state.isolation = textOf(onlyRow(session.rows), "isolation");
    const unsuitable = session === undefined && sqlStateOf(reply.error) === "22012";
    return { ...without(reply, 1, 0), ...(unsuitable ? { error: unsuitableEncoding() } : {}) };
  }
  const canSend = () => state.status === "I";
  const reply = await connection.sendPipeline([begin("read committed"), statement, commit], { canSend });
  if (reply.error === null || reply.status !== "E") return without(reply, 1, 1);
  const { status } = await connection.sendPipeline([rollback]);
  return { ...without(reply, 1, 1), status };
}

/** The reply without those to the first and the last statements. */
function without(reply: PipelineReply, first: number, last: number): PipelineReply {
  const { replies, notices } = reply;
  return {
    ...reply,
    replies: replies.slice(first, Math.max(first, replies.length - (reply.error === null ? last : 0))),
    notices: notices.map(({ code, after }) => ({ code, after: after - first })),
  };
}

const leftOpen = new Error("The pool gave out a connection with an open transaction");

function failed(reply: PipelineReply, kind: AutocommitKind): AutocommitResult {
  const { error, sent, status } = reply;
  if (isLatchkeyError(error)) return { error, again: "no" };
  if (!sent)
    return { error: failure("not_sent", error), again: error instanceof PipelineTimeout ? "no" : "at_once" };
  if (status === "T" || status === "E") return { error: failure("rolled_back", leftOpen), again: "at_once" };
  const phase = kind === "write" ? "commit" : "statement";
  const certainty = certaintyOf(error, phase, status === null ? "gone" : "answered");
  const lost = status === null && kind === "read" && !(error instanceof PipelineTimeout);
  const conflict = certainty === "rolled_back" && refusalOf(sqlStateOf(error) ?? "") === "serialization";
  return { error: failure(certainty, error), again: lost ? "at_once" : conflict ? "after_pause" : "no" };
}

function failure(certainty: StoreError["certainty"], cause: unknown): StoreError {
  const message = withServersWords("A statement on the record failed", cause);
  const remedy = sqlStateOf(cause) === "42501" ? foreignRole : "";
  return new StoreError(certainty, { cause, message: message + remedy });
}

/** The role's own privileges were checked before the first request. */
const foreignRole =
  ". Either its role has lost a privilege, or the session has another role: behind a pooler, a handler's plain SET ROLE remains " +
  "in effect on the server's connection (use SET LOCAL ROLE)";

/** Whether a warning came after `count` statements had completed, so that it belongs to the COMMIT. */
export function isWarned(reply: PipelineReply, count: number): boolean {
  return reply.notices.some(({ code, after }) => code === "01000" && after >= count);
}

/** Waits once more: after a cancelled wait for synchronous replication, a later one that is not cancelled covers both. */
async function isDurable(connection: Connection): Promise<boolean> {
  const reply = await connection.sendPipeline([begin("read committed"), barrier, commit]);
  return reply.error === null && reply.replies[2]?.tag === "COMMIT" && !isWarned(reply, 2);
}
