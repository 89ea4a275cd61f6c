/** The executor over a `pg` pool. */
import { pause } from "../../ports.ts";
import type { Connections } from "../../transactions/pg/connections.ts";
import { begin, commit, rollback } from "../../transactions/pg/control-statements.ts";
import type { SqlRow, SqlStatement } from "../../transactions/transaction.ts";
import { type AutocommitKind, autocommit, isWarned } from "./autocommit.ts";
import type { PostgresExecutor } from "./executor.ts";
import { PoolHeartbeats } from "./pool-heartbeats.ts";
import { asSchemaError } from "./settings.ts";

/** A stale connection, or one that was given back in the middle of a transaction, costs a try; so does a conflict. */
const triesMax = 4;
const settlePauseMs = 50;
/** The server's own time-out comes first, and says more. */
const settleGraceMs = 250;

export interface PoolExecutor extends PostgresExecutor {
  /** Gives back what heartbeats hold. */
  close(): Promise<void>;
}

export function poolExecutor(connections: Connections): PoolExecutor {
  const heartbeats = new PoolHeartbeats(connections);
  return {
    read: (statement) => once(connections, statement, "read"),
    write: (statement) => once(connections, statement, "write"),
    heartbeats,
    close: () => heartbeats.close(),

    async settle(statements, timeoutMs) {
      const { clock } = connections.options;
      const deadline = clock.monotonicMs() + timeoutMs;
      for (;;) {
        const leftMs = deadline - clock.monotonicMs();
        if (leftMs <= 0) return null;
        const rows = await settleOnce(connections, statements(leftMs), leftMs);
        if (rows !== null) return rows;
        await pause(clock, Math.min(settlePauseMs, leftMs));
      }
    },
  };
}

async function once(
  connections: Connections,
  statement: SqlStatement,
  kind: AutocommitKind,
): Promise<readonly SqlRow[]> {
  for (let tries = 1; ; tries++) {
    const connection = await connections.take();
    const result = await autocommit(connection, statement, kind);
    connection.giveBack();
    if ("rows" in result) return result.rows;
    if (!result.again || tries === triesMax) throw asSchemaError(result.error);
  }
}

async function settleOnce(
  connections: Connections,
  statements: readonly SqlStatement[],
  leftMs: number,
): Promise<readonly (readonly SqlRow[])[] | null> {
  const connection = await connections.take(leftMs).catch(() => null);
  if (connection === null) return null;
  const all = [begin("read committed"), ...statements, commit];
  const reply = await connection.fly(all, { timeoutMs: leftMs + settleGraceMs });
  const idle =
    reply.status === "I" || (reply.status !== null && (await connection.fly([rollback])).status === "I");
  if (idle) connection.giveBack();
  else connection.destroy();
  const joined = reply.notices.some(({ code }) => code === "25001");
  if (reply.error !== null || reply.replies.at(-1)?.tag !== "COMMIT") return null;
  if (joined || isWarned(reply, all.length - 1)) return null;
  return reply.replies.slice(1, -1).map(({ rows }) => rows);
}
