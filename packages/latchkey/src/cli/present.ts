/** Records, steps and audit rows as the commands' JSON shows them: times in ISO 8601, bytes only where readable. */
import type { LatchkeyRecord } from "../engine/record.ts";
import type { Journal, Step } from "../stores/journal.ts";
import type { AuditEntry } from "../stores/settlement.ts";
import { type Readable, readAnswer, readJson, type ShownAnswer } from "./readable.ts";
import { reasonOf } from "./reasons.ts";
import { isoTime } from "./text.ts";

export interface RecordView {
  readonly tenant: string;
  readonly scope: string;
  readonly key: string;
  readonly operation: string;
  readonly id: string;
  readonly state: LatchkeyRecord["state"];
  readonly attempt: number;
  readonly principal: string | null;
  readonly createdAt: string;
  readonly leaseEndsAt?: string;
  readonly finishedAt?: string;
  readonly expiresAt?: string;
  readonly forgetAt?: string;
  /** Only while unknown. Null: nothing automatic is left. */
  readonly reconcileAfter?: string | null;
  readonly lastErrorCode?: string | null;
  readonly reason?: string | null;
}

export function recordView(record: LatchkeyRecord): RecordView {
  const { tenant, scope, key, operation, id, state, fence, principal } = record;
  const times = Object.entries({
    leaseEndsAt: "leaseEndsAt" in record ? record.leaseEndsAt : undefined,
    finishedAt: "finishedAt" in record ? record.finishedAt : undefined,
    expiresAt: "expiresAt" in record ? record.expiresAt : undefined,
    forgetAt: "forgetAt" in record ? record.forgetAt : undefined,
  }).flatMap(([name, value]) => (value === undefined ? [] : [[name, isoTime(value)] as const]));
  const createdAt = isoTime(record.createdAt);
  const base = { tenant, scope, key, operation, id, state, attempt: fence.attempt, principal, createdAt };
  return {
    ...base,
    ...Object.fromEntries(times),
    ...("reconcileAfter" in record && { reconcileAfter: optionalTime(record.reconcileAfter) }),
    ...("lastErrorCode" in record && {
      lastErrorCode: record.lastErrorCode,
      reason: reasonOf(record.lastErrorCode, record.state),
    }),
  };
}

/** Null: there is none. */
export function answerView(record: LatchkeyRecord): Readable<ShownAnswer> | null {
  return "answer" in record && record.answer !== null ? readAnswer(record.answer) : null;
}

export type StepView = ReturnType<typeof stepView>;

export interface JournalView {
  readonly input: Readable<unknown> | null;
  readonly recoveryPoint: string | null;
  readonly steps: readonly StepView[];
}

export function journalView(journal: Journal | null): JournalView {
  return {
    input: optionalJson(journal?.input ?? null),
    recoveryPoint: journal?.recoveryPoint ?? null,
    steps: (journal?.steps ?? []).map(stepView),
  };
}

function stepView(step: Step) {
  const { name, kind, position, version } = step;
  const finishedAt = optionalTime(step.finishedAt);
  const result = optionalJson(step.result);
  if (step.kind === "phase") {
    return { name, kind, position, version, state: "finished" as const, finishedAt, result, call: null };
  }
  const { effect, generation, downstreamKey, sends, startedAt } = step;
  const input = readJson(step.input);
  const call = { effect, generation, downstreamKey, sends, startedAt: isoTime(startedAt), input };
  return { name, kind, position, version, state: step.state, finishedAt, result, call };
}

export type AuditView = ReturnType<typeof auditView>;

export function auditView(entry: AuditEntry) {
  const { id, at, recordId, effectId, event, from, to, actor, proof, reason } = entry;
  return { id, at: isoTime(at), recordId, effectId, event, from, to, actor, proof, reason };
}

function optionalTime(epochMs: number | null): string | null {
  return epochMs === null ? null : isoTime(epochMs);
}

function optionalJson(bytes: Uint8Array | null): Readable<unknown> | null {
  return bytes === null ? null : readJson(bytes);
}
