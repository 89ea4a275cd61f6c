/** Settling what is unknown, and showing it, on Postgres. */
import type { RecordState } from "../../../engine/record.ts";
import type { SqlRow, SqlStatement, SqlValue } from "../../../sql/transaction.ts";
import type { AuditEntry, AuditNote, Settlement, SettlementSupport } from "../../settlement.ts";
import { checkStorable } from "../../storable.ts";
import type { Store } from "../../store.ts";
import type { PostgresExecutor } from "../executor.ts";
import { foundRows, momentOf, nullableText, numberOf, storedRecord, textOf } from "../statements/rows.ts";
import { guardValues, keyValues, retentionValues } from "../statements/values.ts";
import type { Confirmation } from "../transactions/confirm.ts";
import type { settlementStatements } from "./settlement-statements.ts";

type Statements = ReturnType<typeof settlementStatements>;

export function postgresSettlement(
  executor: PostgresExecutor,
  statements: Statements,
  confirmation: Confirmation,
): SettlementSupport {
  return {
    async settle(key, guard, settlement, note) {
      const values = { ...keyValues(key), ...guardValues(guard), ...noteValues(settlement, note) };
      const [row] = await executor.write(settling(statements, settlement, values));
      if (row !== undefined) return true;
      return confirmation.isDone(statements.settled.bind(values));
    },

    async hasten(key, guard, note) {
      const values = { ...keyValues(key), ...guardValues(guard), ...noteOf(note) };
      const [row] = await executor.write(statements.hasten.bind(values));
      if (row !== undefined) return true;
      return confirmation.isDone(statements.settled.bind(values));
    },

    async claimUnknowns(operations, limit, claimMs) {
      const values = { operations: listOf(operations), limit, claim_ms: claimMs };
      const rows = await executor.write(statements.claimUnknowns.bind(values));
      return rows.map((row) => ({ record: storedRecord(row, "unknown"), tries: numberOf(row, "tries") }));
    },

    async postpone(key, guard, afterMs) {
      const values = { ...keyValues(key), ...guardValues(guard), after_ms: afterMs };
      return (await executor.write(statements.postpone.bind(values))).length > 0;
    },

    async resumable(operations, limit) {
      const values = { operations: listOf(operations), limit };
      const rows = await executor.read(statements.resumable.bind(values));
      return foundRows(rows, "record").map((row) => storedRecord(row, "in_progress", "retryable"));
    },

    async list({ state, tenant, operation, limit, after }) {
      const page = { limit, after_ms: after?.createdAt ?? null, after_id: after?.id ?? null };
      const values = { state, only_tenant: tenant, only_operation: operation, ...page };
      const rows = await executor.read(listOfState(statements, state).bind(values));
      return foundRows(rows, "record").map((row) => storedRecord(row, state));
    },

    async audit(key) {
      // Confirmed, because a caller that finds its own row there treats its settlement as done.
      return (await confirmation.rowsOf(statements.audit.bind(keyValues(key)))).map(entryOf);
    },
  };
}

export function auditLog(
  executor: PostgresExecutor,
  statements: Pick<Statements, "listAudit" | "listAuditOfTenant">,
): Required<Pick<Store, "listAudit">> {
  return {
    async listAudit({ tenant, limit, before }) {
      const page = { limit, before_ms: before?.at ?? null, before_id: before?.id ?? null };
      const statement =
        tenant === null
          ? statements.listAudit.bind(page)
          : statements.listAuditOfTenant.bind({ ...page, tenant });
      return foundRows(await executor.read(statement), "id").map(entryOf);
    },
  };
}

function listOfState(statements: Statements, state: RecordState) {
  switch (state) {
    case "retryable":
    case "unknown":
      return statements.listParked;
    case "pending":
      return statements.listPending;
    case "in_progress":
      return statements.listRunning;
    default:
      return statements.list;
  }
}

/** A name twice would count twice. */
function listOf(operations: readonly string[]): string {
  for (const operation of operations) checkStorable("operation", operation);
  return JSON.stringify([...new Set(operations)]);
}

type Values = Readonly<Record<string, SqlValue>>;

function settling(statements: Statements, settlement: Settlement, values: Values): SqlStatement {
  switch (settlement.event) {
    case "settle_completed":
    case "settle_failed": {
      const failed = settlement.event === "settle_failed";
      const state = failed ? "failed" : "completed";
      const finished = { state, answer: settlement.answer, error_code: failed ? settlement.errorCode : null };
      return statements.settleFinished.bind({
        ...values,
        ...finished,
        ...retentionValues(settlement.retention),
      });
    }
    case "settle_not_executed": {
      const { calls, reopen, resumeAfterMs } = settlement;
      return statements.settleNotExecuted.bind({
        ...values,
        never_happened: calls === "never-happened",
        call: reopen?.call ?? null,
        generation: reopen?.generation ?? null,
        downstream_key: reopen?.downstreamKey ?? null,
        resume_after_ms: resumeAfterMs,
      });
    }
    case "settle_call": {
      const { call, generation, result, resumeAfterMs } = settlement;
      return statements.settleCall.bind({
        ...values,
        call,
        generation,
        result,
        resume_after_ms: resumeAfterMs,
      });
    }
    default:
      return settlement satisfies never;
  }
}

function noteValues({ event }: Settlement, note: AuditNote) {
  return { event, ...noteOf(note) };
}

function noteOf({ id, actor, proof, reason }: AuditNote) {
  for (const [what, text] of Object.entries({ actor, proof, reason: reason ?? "" })) {
    checkStorable(what, text);
  }
  return { audit_id: id, actor, proof, reason };
}

function entryOf(row: SqlRow): AuditEntry {
  return {
    id: textOf(row, "id"),
    at: momentOf(row, "at"),
    key: { tenant: textOf(row, "tenant"), scope: textOf(row, "scope"), key: textOf(row, "key") },
    recordId: textOf(row, "record_id"),
    event: textOf(row, "event"),
    effectId: nullableText(row, "effect_id"),
    from: textOf(row, "from_state") as AuditEntry["from"],
    to: textOf(row, "to_state") as AuditEntry["to"],
    actor: textOf(row, "actor"),
    proof: textOf(row, "proof"),
    reason: nullableText(row, "reason"),
  };
}
