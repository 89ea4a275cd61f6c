/** Statements that settle what is unknown and show it. Each settlement locks the record, then its steps, then audits. */
import { sql } from "../sql/texts.ts";
import type { SqlNames } from "../statements/sql-parts.ts";
import { statement } from "../statements/statement.ts";

export function settlementStatements(names: SqlNames) {
  return {
    settleFinished: statement("settle_finished", sql.settleFinished, names),
    settleNotExecuted: statement("settle_not_executed", sql.settleNotExecuted, names),
    settleCall: statement("settle_call", sql.settleCall, names),
    hasten: statement("hasten", sql.hasten, names),
    settled: statement("settled", sql.settled, names),
    claimUnknowns: statement("claim_unknowns", sql.claimUnknowns, names),
    postpone: statement("postpone", sql.postpone, names),
    resumable: statement("resumable", sql.resumable, names),
    listParked: statement("list_parked", sql.listParked, names),
    listPending: statement("list_pending", sql.listPending, names),
    listRunning: statement("list_running", sql.listRunning, names),
    list: statement("list", sql.list, names),
    audit: statement("audit", sql.audit, names),
    listAudit: statement("list_audit", sql.listAudit, names),
    listAuditOfTenant: statement("list_audit_of_tenant", sql.listAuditOfTenant, names),
  };
}
