/** Statements of phases: those sent with BEGIN, and those sent with COMMIT. */

import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";
import { openingStatement } from "./session-statements.ts";

export function phaseStatements(names: SqlNames) {
  return {
    openPhase: openingStatement("open_phase", sql.openPhase, names),
    advance: statement("advance", sql.advance, names),
    advanceEnqueuing: statement("advance_enqueuing", sql.advanceEnqueuing, names),
    completePhase: statement("complete_phase", sql.completePhase, names),
    completePhaseEnqueuing: statement("complete_phase_enqueuing", sql.completePhaseEnqueuing, names),
    dropLease: statement("drop_lease", sql.dropLease, names),
  };
}
