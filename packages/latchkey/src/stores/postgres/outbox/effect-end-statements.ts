/**
 * Statements that end claims on effects. Each write is guarded row by row, so that one row whose guard does not hold leaves
 * the others alone; the statement commits as one.
 */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function effectEndStatements(names: SqlNames) {
  return {
    deliverEffects: statement("deliver_effects", sql.deliverEffects, names),
    removeEffects: statement("remove_effects", sql.removeEffects, names),
    endEffects: statement("end_effects", sql.endEffects, names),
    effectsEnded: statement("effects_ended", sql.effectsEnded, names),
  };
}
