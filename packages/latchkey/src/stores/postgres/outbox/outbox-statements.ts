/**
 * Statements on the outbox. Lists come as JSON. Each write is guarded row by row, so that one row whose guard does not
 * hold leaves the others alone; the statement commits as one.
 */

import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";
import { effectEndStatements } from "./effect-end-statements.ts";

export function outboxStatements(names: SqlNames) {
  return {
    claimEffects: statement("claim_effects", sql.claimEffects, names),
    dueEffects: statement("due_effects", sql.dueEffects, names),
    claimEffect: statement("claim_effect", sql.claimEffect, names),
    startEffects: statement("start_effects", sql.startEffects, names),
    effectsStarted: statement("effects_started", sql.effectsStarted, names),
    ...effectEndStatements(names),
    rescueEffects: statement("rescue_effects", sql.rescueEffects, names),
    endedClaims: statement("ended_claims", sql.endedClaims, names),
    rescueEffect: statement("rescue_effect", sql.rescueEffect, names),
    listDead: statement("list_dead", sql.listDead, names),
    listEffects: statement("list_effects", sql.listEffects, names),
    effectsByKey: statement("effects_by_key", sql.effectsByKey, names),
    finishedEffects: statement("finished_effects", sql.finishedEffects, names),
    effectsOfRecord: statement("effects_of_record", sql.effectsOfRecord, names),
    confirmEffect: statement("confirm_effect", sql.confirmEffect, names),
    decideEffect: statement("decide_effect", sql.decideEffect, names),
    effectDecided: statement("effect_decided", sql.effectDecided, names),
    cleanEffects: statement("clean_effects", sql.cleanEffects, names),
  };
}
