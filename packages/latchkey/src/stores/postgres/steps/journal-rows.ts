/** Rows of steps, made into journals. */
import type { SqlRow } from "../../../sql/transaction.ts";
import type { CallState, CallStep, Journal, JournalCall, Step } from "../../journal.ts";
import {
  booleanOf,
  bytesOf,
  momentOf,
  nullableMoment,
  nullableText,
  numberOf,
  onlyRow,
  textOf,
} from "../statements/rows.ts";

/** Null if the life does not exist. */
export function journalOf(rows: readonly SqlRow[] | undefined): Journal | null {
  const first = onlyRow(rows);
  if (!booleanOf(first, "present")) return null;
  return {
    input: nullableBytes(first, "input"),
    recoveryPoint: nullableText(first, "recovery_point"),
    steps: (rows ?? []).filter((row) => row.step !== null).map(stepOf),
    now: momentOf(first, "now"),
  };
}

export function journalCallOf(row: SqlRow): JournalCall {
  return {
    key: { tenant: textOf(row, "tenant"), scope: textOf(row, "scope"), key: textOf(row, "key") },
    recordId: textOf(row, "record_id"),
    fingerprint: bytesOf(textOf(row, "fingerprint")),
    step: callOf(row),
  };
}

function stepOf(row: SqlRow): Step {
  if (textOf(row, "kind") === "call") return callOf(row);
  const result = bytesOf(textOf(row, "result"));
  return { ...placeOf(row), kind: "phase", result, finishedAt: momentOf(row, "finished_at") };
}

/** @throws {TypeError} when the step is a phase */
export function callOf(row: SqlRow): CallStep {
  if (textOf(row, "kind") !== "call") throw new TypeError(`Step ${textOf(row, "step")} is a phase`);
  return {
    ...placeOf(row),
    kind: "call",
    state: textOf(row, "step_state") as CallState,
    effect: textOf(row, "effect"),
    generation: numberOf(row, "generation"),
    downstreamKey: textOf(row, "downstream_key"),
    input: bytesOf(textOf(row, "step_input")),
    result: nullableBytes(row, "result"),
    sends: numberOf(row, "sends"),
    startedAt: momentOf(row, "started_at"),
    finishedAt: nullableMoment(row, "finished_at"),
  };
}

function placeOf(row: SqlRow) {
  const [name, position, version] = [
    textOf(row, "step"),
    numberOf(row, "position"),
    textOf(row, "version"),
  ] as const;
  return { name, position, version };
}

function nullableBytes(row: SqlRow, column: string): Uint8Array | null {
  const hex = nullableText(row, column);
  return hex === null ? null : bytesOf(hex);
}
