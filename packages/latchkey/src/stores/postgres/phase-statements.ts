/** Statements of phases: those sent with BEGIN, and those sent with COMMIT. */
import { sessionColumns } from "./session-statements.ts";
import { sql } from "./sql/texts.ts";
import type { SqlNames } from "./sql-parts.ts";
import { statement } from "./statement.ts";
import { template } from "./template.ts";
import { limits, transactionTime } from "./transaction-statements.ts";

export function phaseStatements(names: SqlNames) {
  return {
    openPhase: template("open_phase", openPhase(names)),
    advance: statement("advance", sql.advance, names),
    advanceEnqueuing: statement("advance_enqueuing", sql.advanceEnqueuing, names),
    completePhase: statement("complete_phase", sql.completePhase, names),
    completePhaseEnqueuing: statement("complete_phase_enqueuing", sql.completePhaseEnqueuing, names),
    dropLease: statement("drop_lease", sql.dropLease, names),
  };
}

/** Reads no row, because that would fix the transaction's snapshot, or, at SERIALIZABLE, be part of its conflicts. */
function openPhase({ serverLimits }: SqlNames): string {
  return `select ${transactionTime} as began, ${sessionColumns}${serverLimits ? `, ${limits}` : ""}`;
}
