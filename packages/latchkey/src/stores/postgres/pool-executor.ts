/** The executor over a `pg` pool. */
import { pause } from "../../ports.ts";
import type { Connections } from "../../sql/pg/connections.ts";
import { begin, commit, rollback } from "../../sql/pg/control-statements.ts";
import { isForbidden } from "../../sql/sql-errors.ts";
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";
import { retryPauseMs } from "../../time/retry-pause.ts";
import { type AutocommitKind, autocommit, isWarned } from "./autocommit.ts";
import type { PostgresExecutor } from "./executor.ts";
import { PoolHeartbeats } from "./leases/pool-heartbeats.ts";
import { asSchemaError } from "./settings.ts";

/** A stale connection, or one that was released in the middle of a transaction, costs a try; so does a conflict. */
const triesMax = 4;
const confirmPauses = { firstMs: 20, maxMs: 250 };
const conflictPauses = { firstMs: 5, maxMs: 100 };
/** Leaves time for the server's own time-out, whose error has more details. */
const confirmGraceMs = 250;

export interface PoolExecutor extends PostgresExecutor {
  /** Releases the connection that heartbeats hold. */
  close(): Promise<void>;
}

export function poolExecutor(connections: Connections): PoolExecutor {
  const heartbeats = new PoolHeartbeats(connections);
  return {
    read: (statement) => once(connections, statement, "read"),
    write: (statement) => once(connections, statement, "write"),
    hasSpare: connections.max !== 1,
    heartbeats,
    close: () => heartbeats.close(),

    async runUntilConfirmed(statements, timeoutMs) {
      const { clock, random } = connections.options;
      const deadline = clock.monotonicMs() + timeoutMs;
      for (let tries = 1; ; tries++) {
        const leftMs = deadline - clock.monotonicMs();
        if (leftMs <= 0) return null;
        const rows = await transactionOnce(connections, statements(leftMs), leftMs);
        if (rows !== null) return rows;
        await pause(clock, Math.min(retryPauseMs(tries, random, confirmPauses), leftMs));
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
    if ("rows" in result) {
      connection.giveBack();
      return result.rows;
    }
    const forbidden = isForbidden(result.error);
    if (forbidden) connection.destroy();
    else connection.giveBack();
    const again = forbidden && tries === 1 ? "at_once" : result.again;
    if (again === "no" || tries === triesMax) throw asSchemaError(result.error);
    if (again === "at_once") continue;
    const { clock, random } = connections.options;
    await pause(clock, retryPauseMs(tries, random, conflictPauses));
  }
}

async function transactionOnce(
  connections: Connections,
  statements: readonly SqlStatement[],
  leftMs: number,
): Promise<readonly (readonly SqlRow[])[] | null> {
  const connection = await connections.take(leftMs).catch(() => null);
  if (connection === null) return null;
  const all = [begin("read committed"), ...statements, commit];
  const reply = await connection.sendPipeline(all, { timeoutMs: leftMs + confirmGraceMs });
  const idle =
    reply.status === "I" ||
    (reply.status !== null && (await connection.sendPipeline([rollback])).status === "I");
  if (idle) connection.giveBack();
  else connection.destroy();
  const joined = reply.notices.some(({ code }) => code === "25001");
  if (reply.error !== null || reply.replies.at(-1)?.tag !== "COMMIT") return null;
  if (joined || isWarned(reply, all.length - 1)) return null;
  return reply.replies.slice(1, -1).map(({ rows }) => rows);
}
