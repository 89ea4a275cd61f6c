/**
 * Records, steps, effects, dead messages and audit rows as operators and programs see them: times in ISO 8601, bytes only
 * if they are readable.
 */

import type { CodecPart } from "../codec.ts";
import type { LatchkeyRecord } from "../engine/record.ts";
import type { DeadMessage } from "../messages/dead-messages.ts";
import type { KeptFacts } from "../stores/facts.ts";
import type { Journal, Step } from "../stores/journal.ts";
import type { OutboxEffect } from "../stores/outbox.ts";
import type { AuditEntry } from "../stores/settlement.ts";
import { parseTraceparent } from "../telemetry/traceparent.ts";
import { deathName } from "./dead-names.ts";
import { lookUpText, repeatText } from "./fact-texts.ts";
import {
  type Readable,
  readAnswer,
  readJson,
  type ShownAnswer,
  type ShownBody,
  shownBody,
} from "./readable.ts";
import { effectReasonOf, messageReasonOf, reasonOf } from "./reasons.ts";
import { isoTime, optionalIsoTime } from "./times.ts";

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
  /** Id of the trace in which the life began. Absent: none is stored. */
  readonly traceId?: string;
  readonly leaseEndsAt?: string;
  readonly finishedAt?: string;
  readonly expiresAt?: string;
  readonly forgetAt?: string;
  /** Only while unknown. Null: no automatic try is left. */
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
  const trace = parseTraceparent(record.trace);
  const base = { tenant, scope, key, operation, id, state, attempt: fence.attempt, principal, createdAt };
  return {
    ...base,
    ...(trace !== null && { traceId: trace.traceId }),
    ...Object.fromEntries(times),
    ...("reconcileAfter" in record && { reconcileAfter: optionalIsoTime(record.reconcileAfter) }),
    ...("lastErrorCode" in record && {
      lastErrorCode: record.lastErrorCode,
      reason: reasonOf(record.lastErrorCode, record.state),
    }),
  };
}

/** Decodes a stored part of one record. Rejects with the codec's errors. */
export type Decode = (stored: Uint8Array, part: CodecPart) => Promise<Uint8Array>;

/** Null if there is none. */
export async function answerView(
  record: LatchkeyRecord,
  decode: Decode,
): Promise<Readable<ShownAnswer> | null> {
  if (!("answer" in record) || record.answer === null) return null;
  return readable(record.answer, "answer", decode, readAnswer);
}

async function readable<T>(
  stored: Uint8Array,
  part: CodecPart,
  decode: Decode,
  read: (plain: Uint8Array) => Readable<T>,
): Promise<Readable<T>> {
  try {
    const shown = read(await decode(stored, part));
    return "value" in shown ? shown : { unreadable: stored.byteLength };
  } catch {
    return { unreadable: stored.byteLength };
  }
}

async function optionalJson(
  stored: Uint8Array | null,
  part: CodecPart,
  decode: Decode,
): Promise<Readable<unknown> | null> {
  return stored === null ? null : readable(stored, part, decode, readJson);
}

/** Null if there is none. */
export function summaryView(stored: Uint8Array | null, decode: Decode): Promise<Readable<unknown> | null> {
  return optionalJson(stored, "summary", decode);
}

export type StepView = Awaited<ReturnType<typeof stepView>>;

export interface JournalView {
  readonly input: Readable<unknown> | null;
  readonly recoveryPoint: string | null;
  readonly steps: readonly StepView[];
}

export async function journalView(journal: Journal | null, decode: Decode): Promise<JournalView> {
  return {
    input: await optionalJson(journal?.input ?? null, "input", decode),
    recoveryPoint: journal?.recoveryPoint ?? null,
    steps: await Promise.all((journal?.steps ?? []).map((step) => stepView(step, decode))),
  };
}

async function stepView(step: Step, decode: Decode) {
  const { name, kind, position, version } = step;
  const finishedAt = optionalIsoTime(step.finishedAt);
  const result = await optionalJson(step.result, `step-result:${name}`, decode);
  if (step.kind === "phase") {
    return { name, kind, position, version, state: "finished" as const, finishedAt, result, call: null };
  }
  const { effect, generation, downstreamKey, sends, startedAt } = step;
  const input = await readable(step.input, `call-input:${name}`, decode, readJson);
  const call = { effect, generation, downstreamKey, sends, startedAt: isoTime(startedAt), input };
  return { name, kind, position, version, state: step.state, finishedAt, result, call };
}

export type FactsView = ReturnType<typeof factsView>;

/** Facts of one kind, oldest first. `missing`: how many between the tenth and the later ones are not stored. */
export function factsView({ kind, count, facts }: KeptFacts) {
  return {
    count,
    missing: count - facts.length,
    facts: facts.map(({ at, ...fact }) => ({
      at: isoTime(at),
      ...fact,
      text: kind === "repeat" ? repeatText(fact) : lookUpText(fact),
    })),
  };
}

export type AuditView = ReturnType<typeof auditView>;
export type AuditLogView = ReturnType<typeof auditLogView>;

/** An audit row in a list of all keys. For a tenant's deletion `scope` and `key` are empty. */
export function auditLogView(entry: AuditEntry) {
  const { tenant, scope, key } = entry.key;
  return { ...auditView(entry), tenant, scope, key };
}

export function auditView(entry: AuditEntry) {
  const { id, at, recordId, effectId, event, from, to, actor, proof, reason } = entry;
  return { id, at: isoTime(at), recordId, effectId, event, from, to, actor, proof, reason };
}

export type EffectView = ReturnType<typeof effectView>;

/** An effect without its input and result. */
export function effectView(effect: OutboxEffect) {
  const { id, state, tenant, scope, key, operation, recordId, step, index, aggregate, ordered } = effect;
  const { generation, downstreamKey, sends, returns, lastErrorCode } = effect;
  return {
    id,
    effect: effect.effect,
    state,
    tenant,
    scope,
    key,
    operation,
    recordId,
    step,
    index,
    aggregate,
    ordered,
    generation,
    downstreamKey,
    sends,
    returns,
    createdAt: isoTime(effect.createdAt),
    doubtfulSince: optionalIsoTime(effect.doubtfulSince),
    finishedAt: optionalIsoTime(effect.finishedAt),
    lastErrorCode,
    reason: effectReasonOf(lastErrorCode),
  };
}

/** A dead effect with the name of its current death. */
export type DeadEffectView = EffectView & { readonly death: string };

export function deadEffectView(effect: OutboxEffect): DeadEffectView {
  return { ...effectView(effect), death: deathName(effect) };
}

export type EffectPiecesView = EffectView & {
  readonly input: Readable<unknown>;
  readonly result: Readable<unknown> | null;
};

export async function effectPiecesView(effect: OutboxEffect, decode: Decode): Promise<EffectPiecesView> {
  const about = `${effect.effect}:${effect.id}` as const;
  return {
    ...effectView(effect),
    input: await readable(effect.input, `effect-input:${about}`, decode, readJson),
    result: await optionalJson(effect.result, `effect-result:${about}`, decode),
  };
}

export interface MessageView extends Omit<DeadMessage, "messageId" | "diedAt" | "body"> {
  /** The meaning of the reason, as text. */
  readonly explanation: string | null;
  readonly diedAt: string;
}

export type ShownPayload = ShownBody & { readonly base64: string };

/** A message without its payload. */
export function messageView(message: DeadMessage): MessageView {
  const { id, operation, tenant, key, source, reason, contentType } = message;
  const { starts, returns, failures, lastErrorCode, diedAt, storedBytes } = message;
  return {
    id,
    operation,
    tenant,
    key,
    source,
    reason,
    explanation: messageReasonOf(reason),
    contentType,
    starts,
    returns,
    failures,
    lastErrorCode,
    diedAt: isoTime(diedAt),
    storedBytes,
  };
}

/** @param hasCodec false: bytes that are not JSON may have passed a codec, and are reported as unreadable. */
export async function payloadOf(message: DeadMessage, hasCodec: boolean): Promise<Readable<ShownPayload>> {
  const unreadable = { unreadable: message.storedBytes };
  try {
    const body = await message.body();
    if (!hasCodec && "unreadable" in readJson(body)) return unreadable;
    return { value: { ...shownBody(body), base64: Buffer.from(body).toString("base64") } };
  } catch {
    return unreadable;
  }
}
