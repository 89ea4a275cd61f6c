/** Notes and settlements, for the cases about unknown records. */
import assert from "node:assert/strict";
import type { LatchkeyRecord, RecordKey } from "latchkey";
import {
  type AuditNote,
  type CallStep,
  type Guard,
  guardOf,
  type InProgressRecord,
  type Settlement,
  type UnknownRecord,
} from "latchkey/internal";
import { defaultRetention, ends, newId, readRecord } from "./arrange.ts";
import type { CaseContext } from "./case.ts";
import { beginWork, bytes, intentOf, keyOf, startCall } from "./journal-arrange.ts";

export function newNote(overrides: Partial<AuditNote> = {}): AuditNote {
  return { id: newId(), actor: "operator-1", proof: "operator", reason: "checked by hand", ...overrides };
}

/** Settles a record that is unknown, whatever made it so. */
export async function settleUnknown(
  context: CaseContext,
  key: RecordKey,
  settlement: Settlement,
  note: AuditNote = newNote(),
): Promise<LatchkeyRecord> {
  const record = await readRecord(context, keyOf(key));
  const settled = await context.store.settlement.settle(keyOf(key), guardOf(record), settlement, note);
  assert.equal(settled, true, "an unknown record must be settled");
  return readRecord(context, keyOf(key));
}

export const completedOutside: Settlement = {
  event: "settle_completed",
  answer: bytes("answer"),
  retention: defaultRetention,
};

export const closedOutside: Settlement = {
  event: "settle_failed",
  answer: bytes("no"),
  retention: defaultRetention,
  errorCode: "closed-downstream",
};

export const neverHappened = {
  event: "settle_not_executed",
  calls: "never-happened",
  reopen: null,
  resumeAfterMs: null,
} as const satisfies Settlement;

export const foundOutside = {
  event: "settle_call",
  call: "charge",
  generation: 0,
  result: bytes("found"),
  resumeAfterMs: null,
} as const satisfies Settlement;

export const settlements: readonly Settlement[] = [
  completedOutside,
  closedOutside,
  neverHappened,
  foundOutside,
];

interface InDoubt {
  readonly key: RecordKey;
  /** The record when the attempt began. */
  readonly record: InProgressRecord;
  readonly unknown: UnknownRecord;
  readonly call: CallStep;
  readonly guard: Guard;
}

/** An unknown record with one call in doubt, `charge`. */
export async function putInDoubt(
  context: CaseContext,
  reconcileAfterMs: number | null = null,
): Promise<InDoubt> {
  const record = await beginWork(context);
  const call = await startCall(context, record, intentOf());
  const doubt = { ...ends.unknown, reconcileAfterMs };
  assert.ok(await context.store.end(keyOf(record), record.id, record.fence, doubt));
  if (reconcileAfterMs === 0) await context.advance(1);
  const unknown = await readRecord(context, keyOf(record));
  assert.ok(unknown.state === "unknown");
  return { key: keyOf(record), record, unknown, call, guard: guardOf(unknown) };
}
