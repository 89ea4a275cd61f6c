/** Settles an unknown record from outside: after a webhook of the other service, or by an operator. */
import { createHash } from "node:crypto";
import { downstreamKey } from "../effects/downstream-key.ts";
import { guardOf, type LatchkeyRecord } from "../engine/record.ts";
import { checkOptions, type OptionNames } from "../known-options.ts";
import { encodeAnswer } from "../operations/answer.ts";
import type { RunAnswer } from "../operations/owned-work.ts";
import { uuidVersion7 } from "../ports.ts";
import type { EarlySettlement } from "../stores/early.ts";
import type { CallStep, Journal } from "../stores/journal.ts";
import type { AuditNote, Settlement } from "../stores/settlement.ts";
import type { Retention } from "../stores/store.ts";
import { answerOfRun } from "./answer-of-run.ts";
import {
  type CallsName,
  type ClientsName,
  findRecord,
  type LifeName,
  type LifesName,
} from "./find-record.ts";
import type { Runtime } from "./runtime.ts";
import { settleEffect } from "./settle-effect.ts";
import type {
  NotExecutedProof,
  OperatorProof,
  SettledBy,
  SettleResult,
  SettleTarget,
  SettleWith,
} from "./settlement-terms.ts";
import { storedJson } from "./steps/attempt-context.ts";
import { codecContext } from "./stored-values.ts";

export type { NotExecutedProof, OperatorProof, SettledBy, SettleResult, SettleTarget, SettleWith };

const outcomeNames = { completed: true, failed: true, result: true, notExecuted: true } as const;
const settlementNames = { ...outcomeNames, call: true, downstreamKey: true } as const satisfies OptionNames<
  UnionToNames<SettleWith>
>;
const targetNames = {
  recordId: true,
  downstreamKey: true,
  tenant: true,
  operation: true,
  key: true,
  path: true,
} as const satisfies OptionNames<LifesName & CallsName & ClientsName>;

/** All property names of the union's members. */
type UnionToNames<T> = { readonly [Name in T extends unknown ? keyof T : never]: unknown };

const day = 24 * 60 * 60 * 1000;

export async function settle<Tx>(
  runtime: Runtime<Tx>,
  target: SettleTarget,
  settlement: SettleWith,
  by: SettledBy = "webhook",
): Promise<SettleResult> {
  checkOutcome(target, settlement);
  const proof = proofOf(settlement, by);
  const name = lifeNameOf(target, settlement);
  const found = await findRecord(runtime, name);
  switch (found.kind) {
    case "record":
      if (found.effect !== null) return settleEffect(runtime, found.effect, { settlement, proof });
      return settleRecord(runtime, found.record, { settlement, named: name.downstreamKey, proof, by });
    case "no_such_call":
      return settleRecord(runtime, found.record, { settlement, named: name.downstreamKey, proof, by });
    case "other_life":
      return { kind: "other_life", recordId: found.record.id };
    case "effect":
      return settleEffect(runtime, found.effect, { settlement, proof });
    case "ambiguous":
    case "not_found":
      return { kind: "not_found" };
    default:
      return found satisfies never;
  }
}

/** @throws {TypeError} for an unknown name, and for a settlement without an outcome or with several. */
function checkOutcome(target: SettleTarget, settlement: SettleWith): void {
  checkOptions("settle: the target", target, targetNames);
  checkOptions("settle: the settlement", settlement, settlementNames);
  const outcomes = Object.keys(outcomeNames).filter((name) => name in settlement);
  if (outcomes.length === 1) return;
  const given = outcomes.length === 0 ? "none" : outcomes.join(" and ");
  throw new TypeError(
    `settle: the settlement must have one of completed, failed, result and notExecuted (got ${given})`,
  );
}

/** @throws {TypeError} when it does not name one life of a key, or names two calls. */
function lifeNameOf(
  target: SettleTarget & Partial<LifesName & CallsName>,
  { downstreamKey: given }: SettleWith,
): LifeName {
  const named = target.downstreamKey ?? given;
  if (given !== undefined && named !== given) {
    throw new TypeError("The settlement and its target name different downstream keys");
  }
  if (target.recordId === undefined && named === undefined) {
    throw new TypeError(
      "settle: name the record by its `recordId` (`attempt.id`), or the call by its `downstreamKey`. A client's key alone may " +
        "belong to a later life than the one that this settlement is about",
    );
  }
  return { ...target, ...(named === undefined ? {} : { downstreamKey: named }) } as LifeName;
}

/** A settlement with its proof. */
interface SettleRequest {
  readonly settlement: SettleWith;
  /** The downstream key of the call that it is about. */
  readonly named: string | undefined;
  readonly proof: Omit<AuditNote, "id">;
  readonly by: SettledBy;
}

async function settleRecord<Tx>(
  runtime: Runtime<Tx>,
  record: LatchkeyRecord,
  request: SettleRequest,
): Promise<SettleResult> {
  const { tenant, scope, key: ownKey, id: recordId } = record;
  const key = { tenant, scope, key: ownKey };
  const { settlement, proof } = request;
  const note: AuditNote = { id: noteId(record, request), ...proof };
  // Read after the record, so that a doubt that arose after a settlement is seen together with its audit row.
  if ((await runtime.store.settlement.audit(key)).some(({ id }) => id === note.id)) {
    const freed = "notExecuted" in settlement && record.state === "unknown";
    return { kind: freed ? "unknown_again" : "settled", recordId };
  }
  const journal = await runtime.store.journal.read(key, recordId);
  if (journal === null) return { kind: "not_found" };
  const wanted = await settlementOf(runtime, record, journal, request);
  if (wanted === null) {
    return record.state === "unknown"
      ? { kind: "no_such_call", recordId }
      : { kind: "not_unknown", recordId, state: record.state };
  }
  const early = earlyOf(record, journal, wanted, note, request);
  if (early !== null && runtime.store.early !== undefined) {
    if (await runtime.store.early.keep(key, guardOf(record), early)) {
      const about = { ...runtime.about(record.operation, key), recordId };
      runtime.emit({ ...about, type: "settlement_kept", event: wanted.event, actor: proof.actor });
      return { kind: "kept", recordId };
    }
    return again(runtime, record, request);
  }
  // A concurrent repetition finds its own audit row, whatever state the record has by then.
  const guard = { id: recordId, state: "unknown", fence: record.fence } as const;
  if (await runtime.store.settlement.settle(key, guard, wanted, note)) {
    const about = { ...runtime.about(record.operation, key), recordId };
    const { actor } = proof;
    runtime.emit({ ...about, type: "settled", event: wanted.event, actor, proof: proof.proof });
    return { kind: "settled", recordId };
  }
  const now = (await runtime.store.read(key)).record;
  if (now === null || now.id !== recordId) return { kind: "not_found" };
  if (now.state !== "unknown") return { kind: "not_unknown", recordId, state: now.state };
  return { kind: "result" in settlement ? "no_such_call" : "unknown_again", recordId };
}

/** @throws {TypeError} without a proof. */
function proofOf(settlement: SettleWith, by: SettledBy): Omit<AuditNote, "id"> {
  const proof = "notExecuted" in settlement ? settlement.notExecuted : by;
  switch (proof) {
    case "downstream-deduplicates":
    case "closed-downstream":
      return by === "webhook"
        ? { actor: "webhook", proof, reason: null }
        : { ...proofOf({ notExecuted: checkedOperator(by) }, by), proof };
    case "webhook":
      return { actor: "webhook", proof: "webhook", reason: null };
    default: {
      const { operator, reason } = checkedOperator(proof);
      return { actor: operator, proof: "operator", reason };
    }
  }
}

function checkedOperator(proof: OperatorProof): OperatorProof {
  const isGiven = (text: unknown) => typeof text === "string" && text.trim().length > 0;
  if (typeof proof !== "object" || proof === null || !isGiven(proof.operator) || !isGiven(proof.reason)) {
    throw new TypeError(
      "A settlement needs a proof: an operator and a reason, or the other service's promise",
    );
  }
  return proof;
}

/** Repeats the settlement after the record has changed since it was read. */
async function again<Tx>(
  runtime: Runtime<Tx>,
  { id, ...key }: LatchkeyRecord,
  request: SettleRequest,
): Promise<SettleResult> {
  const { record } = await runtime.store.read(key);
  return record?.id === id ? settleRecord(runtime, record, request) : { kind: "not_found" };
}

/**
 * The settlement to keep until the record may be unknown. Null: there is nothing to wait for. `notExecuted` is kept only if the
 * other service has closed the call: otherwise the running attempt may still make it happen.
 */
function earlyOf(
  record: LatchkeyRecord,
  { steps }: Journal,
  settlement: Settlement,
  note: AuditNote,
  { named }: SettleRequest,
): EarlySettlement | null {
  const { state, fence } = record;
  if (state !== "in_progress" && state !== "retryable") return null;
  const name = callOf(settlement);
  const call = steps.find(
    (step): step is CallStep =>
      step.kind === "call" &&
      step.state === "started" &&
      (name === null ? step.downstreamKey === named : step.name === name),
  );
  if (call !== undefined) {
    return {
      settlement,
      note,
      attempt: fence.attempt,
      call: { name: call.name, generation: call.generation },
    };
  }
  const ofAll = settlement.event === "settle_completed" || settlement.event === "settle_failed";
  return ofAll && named === undefined && state === "in_progress"
    ? { settlement, note, attempt: fence.attempt, call: null }
    : null;
}

/** The call that a settlement is about. */
function callOf(settlement: Settlement): string | null {
  if (settlement.event === "settle_call") return settlement.call;
  return settlement.event === "settle_not_executed" ? (settlement.reopen?.call ?? "") : null;
}

/** Null: the named call is not in doubt. */
async function settlementOf<Tx>(
  runtime: Runtime<Tx>,
  record: LatchkeyRecord,
  journal: Journal,
  request: SettleRequest,
): Promise<Settlement | null> {
  const { settlement, named } = request;
  const calls = journal.steps.filter((step): step is CallStep => step.kind === "call");
  const resumeAfterMs = journal.input === null ? null : 0;
  if ("result" in settlement) {
    const call = calls.find(({ name, downstreamKey: key }) =>
      named === undefined ? name === settlement.call : key === named && name === (settlement.call ?? name),
    );
    // An earlier repetition of this settlement may have finished the call.
    if (call === undefined || (call.state !== "started" && call.state !== "finished")) return null;
    const result = await storedJson(
      runtime,
      record,
      `step-result:${call.name}`,
      `The result of call ${call.name}`,
      settlement.result,
    );
    return { event: "settle_call", call: call.name, generation: call.generation, result, resumeAfterMs };
  }
  const started = calls.find(({ state }) => state === "started");
  if (named !== undefined && started?.downstreamKey !== named) return null;
  if ("notExecuted" in settlement) {
    return notExecutedOf(
      runtime,
      record,
      { ...request, proof: settlement.notExecuted },
      started,
      resumeAfterMs,
    );
  }
  const given = "completed" in settlement ? settlement.completed : settlement.failed;
  const { answer, retention } = await kept(runtime, record, given);
  return "completed" in settlement
    ? { event: "settle_completed", answer, retention }
    : { event: "settle_failed", answer, retention, errorCode: "settled-failed" };
}

function notExecutedOf<Tx>(
  runtime: Runtime<Tx>,
  record: LatchkeyRecord,
  { proof, named, by }: Pick<SettleRequest, "named" | "by"> & { readonly proof: NotExecutedProof },
  started: CallStep | undefined,
  resumeAfterMs: number | null,
): Settlement {
  if (proof === "downstream-deduplicates" && started !== undefined) checkDeduplicates(runtime, started);
  const isClosed = proof === "closed-downstream" && started !== undefined;
  if (isClosed && named === undefined && by === "webhook") {
    throw new TypeError("A webhook with `closed-downstream` must name the call by its downstreamKey");
  }
  return {
    event: "settle_not_executed",
    calls: proof === "downstream-deduplicates" ? "may-repeat" : "never-happened",
    reopen: isClosed ? reopened(record.id, started) : null,
    resumeAfterMs,
  };
}

/** An effect that is defined elsewhere is not known here; an attempt checks again before it sends. */
function checkDeduplicates<Tx>(runtime: Runtime<Tx>, { name, effect }: CallStep): void {
  const deduplication = runtime.effects.get(effect)?.settings.deduplication ?? "provider";
  if (deduplication === "provider") return;
  throw new TypeError(
    `Call ${name} belongs to effect ${effect}, whose deduplication is \`${deduplication}\`, so deduplication is no ` +
      "proof. Use `closed-downstream` once the other service refuses it, or an operator and a reason",
  );
}

/** The other service refuses a closed call for ever under its old key. */
export function reopened(recordId: string, { name, effect, generation }: CallStep) {
  const next = { recordId, step: name, effect, index: 0, generation: generation + 1 };
  return { call: name, generation, downstreamKey: downstreamKey(next) };
}

/** An answer as it is stored, and its retention. */
export async function kept<Tx>(
  runtime: Runtime<Tx>,
  record: LatchkeyRecord,
  given: RunAnswer,
): Promise<{ readonly answer: Uint8Array; readonly retention: Retention }> {
  const settings = runtime.operations.get(record.operation)?.settings;
  const encoded = encodeAnswer(answerOfRun(given), settings?.answerLimitBytes ?? Number.MAX_SAFE_INTEGER);
  const context = codecContext(record, record.id, record.fingerprint.digest, "answer");
  const { retentionMs = day, forgetAfterMs = retentionMs } = settings ?? {};
  return { answer: await runtime.codec.encode(encoded, context), retention: { retentionMs, forgetAfterMs } };
}

/**
 * The same settlement of the same life has the same audit row, however often it is repeated. The attempt is not part of it, so
 * a repetition that is about an earlier attempt does not settle the current one.
 */
function noteId({ id, createdAt }: LatchkeyRecord, { settlement, named, proof }: SettleRequest): string {
  const { downstreamKey: _, ...outcome } = settlement;
  const text = JSON.stringify([id, outcome, named ?? null, proof], (_key, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value,
  );
  return uuidVersion7(createdAt, createHash("sha256").update(text).digest());
}
