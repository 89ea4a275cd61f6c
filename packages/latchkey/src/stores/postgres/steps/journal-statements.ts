/** Statements on the journal: a life's input and its steps. Each write locks the record, then its steps. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function journalStatements(names: SqlNames) {
  return {
    journal: statement("journal", sql.journal, names),
    startCall: statement("start_call", sql.startCall, names),
    endCall: statement("end_call", sql.endCall, names),
    callEnded: statement("call_ended", sql.callEnded, names),
    refence: statement("refence", sql.refence, names),
    callsByKey: statement("calls_by_key", sql.callsByKey, names),
    finishedCalls: statement("finished_calls", sql.finishedCalls, names),
  };
}
