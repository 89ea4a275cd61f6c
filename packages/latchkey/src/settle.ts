/** Settling an unknown from outside: a webhook of the other side's, or a person who has found out. */
import { createHash } from "node:crypto";
import { codecContext } from "./attempt/admission.ts";
import { encodeAnswer } from "./attempt/answer.ts";
import type { RunAnswer } from "./attempt/own-work.ts";
import { storedJson } from "./attempt/owned-run.ts";
import { answerOfRun } from "./attempt/run-answer.ts";
import { scopeOf } from "./attempt/run-function.ts";
import type { Runtime } from "./attempt/runtime.ts";
import { downstreamKey } from "./effects/downstream-key.ts";
import type { LatchkeyRecord, RecordKey } from "./engine/record.ts";
import { uuidVersion7 } from "./ports.ts";
import type { CallStep, Journal } from "./stores/journal.ts";
import type { AuditNote, Settlement } from "./stores/settlement.ts";
import type { Retention } from "./stores/store.ts";

export interface SettleTarget {
  readonly tenant: string;
  /** The operation's name. */
  readonly operation: string;
  readonly key: string;
}

/** Why it is certain that it did not happen. */
export type NotExecutedProof =
  /** The other side de-duplicates: sending again under the same key does it at most once. Of effects that say `provider`. */
  | "downstream-deduplicates"
  /** The other side refuses the call from now on. */
  | "closed-downstream"
  | OperatorProof;

/** A person answers for it. */
export interface OperatorProof {
  readonly operator: string;
  readonly reason: string;
}

export type SettleWith =
  /** All of it has happened, and this is the answer. */
  | { readonly completed: RunAnswer }
  /** It has failed for good, and this is the answer. */
  | { readonly failed: RunAnswer }
  /** One call has happened, with this result (JSON). The operation goes on after it. */
  | { readonly call: string; readonly result: unknown }
  /**
   * It has not happened, and nothing is in doubt any more. `downstreamKey` names the call that this is known of: another
   * one in doubt is then left alone. A webhook that says `closed-downstream` of a call has to name it, because a message
   * that comes late, or again, would otherwise free a call that was sent since. `downstream-deduplicates` of a call whose
   * effect is known here and is not `provider` is a {TypeError}.
   */
  | { readonly notExecuted: NotExecutedProof; readonly downstreamKey?: string };

/** Who says so. */
export type SettledBy = "webhook" | OperatorProof;

export type SettleResult =
  | { readonly kind: "settled"; readonly recordId: string }
  /** There is nothing to settle. */
  | { readonly kind: "not_unknown"; readonly recordId: string; readonly state: LatchkeyRecord["state"] }
  /** The call that was named is not in doubt. */
  | { readonly kind: "no_such_call"; readonly recordId: string }
  /**
   * The doubt is a later one than that of which this was said, or read: what was known then need not hold now. Nothing was
   * changed; a person may look again, and settle it with a new reason.
   */
  | { readonly kind: "unknown_again"; readonly recordId: string }
  | { readonly kind: "not_found" };

const day = 24 * 60 * 60 * 1000;

export async function settle<Tx>(
  runtime: Runtime<Tx>,
  target: SettleTarget,
  settlement: SettleWith,
  by: SettledBy = "webhook",
): Promise<SettleResult> {
  const proof = proofOf(settlement, by);
  const key = keyOf(runtime, target);
  const { record } = await runtime.store.read(key);
  if (record === null || record.operation !== target.operation) return { kind: "not_found" };
  const recordId = record.id;
  const note: AuditNote = { id: noteId(record, settlement, proof), ...proof };
  // Read after the record: a doubt that came up later than a settlement is not seen without it.
  if ((await runtime.store.settlement.audit(key)).some(({ id }) => id === note.id)) {
    const freed = "notExecuted" in settlement && record.state === "unknown";
    return { kind: freed ? "unknown_again" : "settled", recordId };
  }
  const journal = await runtime.store.journal.read(key, recordId);
  if (journal === null) return { kind: "not_found" };
  const wanted = await settlementOf(runtime, record, journal, settlement, by);
  if (wanted === null) {
    return record.state === "unknown"
      ? { kind: "no_such_call", recordId }
      : { kind: "not_unknown", recordId, state: record.state };
  }
  // A repetition at the same time meets its own audit row, whatever the record is by now.
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
  return { kind: "call" in settlement ? "no_such_call" : "unknown_again", recordId };
}

function keyOf<Tx>(runtime: Runtime<Tx>, { tenant, operation, key }: SettleTarget): RecordKey {
  const known = runtime.operations.get(operation);
  return runtime.storedKey({ tenant, scope: known === undefined ? operation : scopeOf(known), key });
}

/** @throws {TypeError} without one. */
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
  const said = (text: unknown) => typeof text === "string" && text.trim().length > 0;
  if (typeof proof !== "object" || proof === null || !said(proof.operator) || !said(proof.reason)) {
    throw new TypeError(
      "A settlement needs a proof: who says so and why, or what the other side has promised",
    );
  }
  return proof;
}

/** Null: the call that is named is not in doubt. */
async function settlementOf<Tx>(
  runtime: Runtime<Tx>,
  record: LatchkeyRecord,
  journal: Journal,
  settlement: SettleWith,
  by: SettledBy,
): Promise<Settlement | null> {
  if ("completed" in settlement || "failed" in settlement) {
    const given = "completed" in settlement ? settlement.completed : settlement.failed;
    const { answer, retention } = await kept(runtime, record, given);
    return "completed" in settlement
      ? { event: "settle_completed", answer, retention }
      : { event: "settle_failed", answer, retention, errorCode: "settled-failed" };
  }
  const resumeAfterMs = journal.input === null ? null : 0;
  const calls = journal.steps.filter((step): step is CallStep => step.kind === "call");
  if ("call" in settlement) {
    const call = calls.find(({ name }) => name === settlement.call);
    // A finished one may be what an earlier saying of the same has made of it.
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
  const { notExecuted, downstreamKey: named } = settlement;
  const started = calls.find(({ state }) => state === "started");
  if (named !== undefined && started?.downstreamKey !== named) return null;
  if (notExecuted === "downstream-deduplicates" && started !== undefined) checkDeduplicates(runtime, started);
  const isClosed = notExecuted === "closed-downstream" && started !== undefined;
  if (isClosed && named === undefined && by === "webhook") {
    throw new TypeError("A webhook that says `closed-downstream` must name the call by its downstreamKey");
  }
  const closed = isClosed ? reopened(record.id, started) : null;
  return {
    event: "settle_not_executed",
    calls: notExecuted === "downstream-deduplicates" ? "may-repeat" : "never-happened",
    reopen: closed,
    resumeAfterMs,
  };
}

/** Of an effect that is defined elsewhere nothing is known here; an attempt looks again before it sends. */
function checkDeduplicates<Tx>(runtime: Runtime<Tx>, { name, effect }: CallStep): void {
  const deduplication = runtime.effects.get(effect)?.settings.deduplication ?? "provider";
  if (deduplication === "provider") return;
  throw new TypeError(
    `Call ${name} is of effect ${effect}, whose de-duplication is \`${deduplication}\`: that it may be sent again is no ` +
      "proof. Say `closed-downstream` once the other side refuses it, or who answers for it and why",
  );
}

/** What was closed is refused for ever under its old key. */
export function reopened(recordId: string, { name, effect, generation }: CallStep) {
  const next = { recordId, step: name, effect, index: 0, generation: generation + 1 };
  return { call: name, generation, downstreamKey: downstreamKey(next) };
}

/** The bytes and the time that an answer is kept as. */
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
 * The same settlement of the same life has the same audit row, however often it is said. It does not depend on the attempt:
 * said of an earlier one, it is not said of this one.
 */
function noteId(
  { id, createdAt }: LatchkeyRecord,
  settlement: SettleWith,
  proof: Omit<AuditNote, "id">,
): string {
  const said = JSON.stringify([id, settlement, proof], (_, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value,
  );
  return uuidVersion7(createdAt, createHash("sha256").update(said).digest());
}
