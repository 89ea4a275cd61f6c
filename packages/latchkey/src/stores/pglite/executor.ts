/** The executor over PGlite's one session. A heartbeat waits for an open transaction like everything else. */
import type { Clock } from "../../ports.ts";
import type { PgliteSession } from "../../sql/pglite/database.ts";
import { runStatement, storeError } from "../../sql/pglite/statements.ts";
import type { SqlPhase } from "../../sql/sql-errors.ts";
import type { SqlRow, SqlStatement } from "../../sql/transaction.ts";
import type { PostgresExecutor } from "../postgres/executor.ts";
import { asSchemaError } from "../postgres/settings.ts";

export function pgliteExecutor(session: PgliteSession, clock: Clock): PostgresExecutor {
  const write = (statement: SqlStatement) => run(session, statement, "commit");
  return {
    read: (statement) => run(session, statement, "statement"),
    write,
    hasSpare: false,
    heartbeats: { hold: async () => {}, holds: () => false, drop: () => {}, beat: write },
    runUntilConfirmed: (statements, timeoutMs) => runWithin(session, clock, statements(timeoutMs), timeoutMs),
  };
}

async function run(
  session: PgliteSession,
  statement: SqlStatement,
  phase: SqlPhase,
): Promise<readonly SqlRow[]> {
  try {
    return await runStatement(session, statement);
  } catch (error) {
    throw asSchemaError(storeError(error, phase, "A statement on the record failed"));
  }
}

/** Null also if the time was spent in the queue for the session; then nothing will run. */
async function runWithin(
  session: PgliteSession,
  clock: Clock,
  statements: readonly SqlStatement[],
  timeoutMs: number,
): Promise<readonly (readonly SqlRow[])[] | null> {
  const timeout = Promise.withResolvers<null>();
  let late = false;
  const cancel = clock.startTimer(timeoutMs, () => {
    late = true;
    timeout.resolve(null);
  });
  const rows = session.transaction(async (tx) => {
    if (late) throw new Error("The statement waited too long for PGlite's only session");
    const all: (readonly SqlRow[])[] = [];
    for (const statement of statements) all.push(await runStatement(tx, statement));
    return all;
  });
  try {
    return await Promise.race([rows, timeout.promise]);
  } catch {
    return null;
  } finally {
    cancel();
  }
}
