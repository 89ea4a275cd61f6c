/**
 * Statements that count and remove the data of one tenant, one page each, in the order of an index. Each row returns its
 * status and whether it was removed. Rows that another transaction is changing are left. Ids go through arrays, because a join
 * with the page lets the planner read the whole table.
 */
import type { TenantPart } from "../../tenant-data.ts";
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";
import type { StatementTemplate } from "../statements/template.ts";

export function tenantStatements(names: SqlNames) {
  return {
    sweepEffects: statement("sweep_effects", sql.sweepEffects, names),
    sweepMessages: statement("sweep_messages", sql.sweepMessages, names),
    sweepRecords: statement("sweep_records", sql.sweepRecords, names),
    sweepEarly: statement("sweep_early", sql.sweepEarly, names),
    sweepAudit: statement("sweep_audit", sql.sweepAudit, names),
    noteDeletion: statement("note_deletion", sql.noteDeletion, names),
    cleanAudit: statement("clean_audit", sql.cleanAudit, names),
  };
}

export function sweepOf(
  statements: ReturnType<typeof tenantStatements>,
): Readonly<Record<TenantPart, StatementTemplate>> {
  return {
    effects: statements.sweepEffects,
    messages: statements.sweepMessages,
    records: statements.sweepRecords,
    early: statements.sweepEarly,
    audit: statements.sweepAudit,
  };
}
