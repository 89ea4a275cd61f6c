/** The queries of `latchkey doctor` on a Postgres server. None of them writes. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function examineStatements(names: SqlNames) {
  return {
    server: statement("examine_server", sql.examineServer, names),
    clock: statement("examine_clock", sql.examineClock, names),
    rights: statement("examine_rights", sql.examineRights, names),
    suitability: statement("suitability", sql.suitability, names),
    version: statement("examine_version", sql.examineVersion, names),
    vacuum: statement("examine_vacuum", sql.examineVacuum, names),
    shapes: statement("examine_shapes", sql.examineShapes, names),
    durations: statement("examine_durations", sql.examineDurations, names),
  };
}
