/** Determines the outcome of an unknown record and the settlement that follows. Writes nothing. */

import { windowIsOver } from "../effects/dedupe-window.ts";
import { lookUpSend } from "../effects/look-up.ts";
import type { AnyEffect } from "../effects/run-effect.ts";
import type { UnknownRecord } from "../engine/record.ts";
import { failureAnswer } from "../execution/answer-of-run.ts";
import type { Runtime } from "../execution/runtime.ts";
import { kept, reopened } from "../execution/settle.ts";
import { plainJson, storedJson } from "../execution/steps/attempt-context.ts";
import { codecContext } from "../execution/stored-values.ts";
import { encodeAnswer } from "../operations/answer.ts";
import type { Operation } from "../operations/operation.ts";
import type { LookedUp } from "../operations/owned-work.ts";
import type { CallStep, Journal } from "../stores/journal.ts";
import type { Settlement } from "../stores/settlement.ts";
import { withLimit } from "../time/time-limit.ts";

export type Found =
  /** `mayRepeat`: the work is resumed, and may become unknown in the same way again. */
  | {
      readonly kind: "settle";
      readonly settlement: Settlement;
      readonly proof: string;
      readonly mayRepeat?: boolean;
    }
  | { readonly kind: "ask_later" }
  | { readonly kind: "person"; readonly because: string }
  /** The record is gone, or belongs to another life. */
  | { readonly kind: "gone" };

/** Reasons for which an unknown record without a call in doubt may be resumed automatically. */
const resumableCodes: ReadonlySet<string | null> = new Set([
  "lease-ended",
  "attempt-limit",
  "call-in-doubt",
  "dedupe-window-over",
]);
const waitsForPerson: ReadonlySet<string | null> = new Set([
  "attempts-spent",
  "past-expiry",
  "version-changed",
  "steps-changed",
  "transaction-changed",
  "result-not-stored",
]);
const lookupLimitMs = 10_000;

/** Throws what the look-up functions of effects and operations throw. */
export async function askAbout<Tx>(runtime: Runtime<Tx>, record: UnknownRecord): Promise<Found> {
  const operation = runtime.operations.get(record.operation);
  const journal = await runtime.store.journal.read(record, record.id);
  if (journal === null) return { kind: "gone" };
  const code = record.lastErrorCode;
  if (operation === undefined || waitsForPerson.has(code))
    return { kind: "person", because: code ?? "unknown" };
  const started = journal.steps.find(
    (step): step is CallStep => step.kind === "call" && step.state === "started",
  );
  if (started !== undefined) {
    const found = await askEffect(runtime, record, journal, started);
    return found.kind === "person" ? askOperation(runtime, operation, record, journal, found) : found;
  }
  if (journal.input !== null && resumableCodes.has(code)) {
    return { kind: "settle", settlement: resumption(journal), proof: "no-call-in-doubt", mayRepeat: true };
  }
  return askOperation(runtime, operation, record, journal, { kind: "person", because: code ?? "unknown" });
}

function resumption(journal: Journal): Settlement {
  return {
    event: "settle_not_executed",
    calls: "may-repeat",
    reopen: null,
    resumeAfterMs: journal.input === null ? null : 0,
  };
}

async function askEffect<Tx>(
  runtime: Runtime<Tx>,
  record: UnknownRecord,
  journal: Journal,
  started: CallStep,
): Promise<Found> {
  const effect = runtime.effects.get(started.effect);
  // Another process may define it, or this one after a deployment.
  if (effect === undefined) return { kind: "ask_later" };
  const { deduplication } = effect.settings;
  switch (deduplication) {
    case "none":
      return { kind: "person", because: "call-in-doubt" };
    case "provider": {
      const open = !windowIsOver(started.startedAt, effect, journal.now);
      return open
        ? {
            kind: "settle",
            settlement: resumption(journal),
            proof: "downstream-deduplicates",
            mayRepeat: true,
          }
        : { kind: "person", because: "dedupe-window-over" };
    }
    case "lookup":
      return lookUp(runtime, record, journal, effect, started);
    default:
      return deduplication satisfies never;
  }
}

async function lookUp<Tx>(
  runtime: Runtime<Tx>,
  record: UnknownRecord,
  journal: Journal,
  effect: AnyEffect,
  started: CallStep,
): Promise<Found> {
  const input = await plainJson(runtime, record, `call-input:${started.name}`, started.input);
  const asking = { effect, key: started.downstreamKey, signal: new AbortController().signal };
  const looked = await lookUpSend(runtime.ports.clock, asking, input);
  switch (looked.kind) {
    case "happened":
      return happened(runtime, record, started, looked.value);
    case "not_found":
      return { kind: "ask_later" };
    case "closed":
      return effect.settings.reopen ? reopenCall(record, started) : failed(runtime, record, journal);
    default:
      return looked satisfies never;
  }
}

async function happened<Tx>(
  runtime: Runtime<Tx>,
  record: UnknownRecord,
  { name, generation }: CallStep,
  value: unknown,
): Promise<Found> {
  const result = await storedJson(
    runtime,
    record,
    `step-result:${name}`,
    `The result found for call ${name}`,
    value,
  );
  const settlement = { event: "settle_call", call: name, generation, result, resumeAfterMs: 0 } as const;
  return { kind: "settle", settlement, proof: "found-downstream" };
}

function reopenCall(record: UnknownRecord, started: CallStep): Found {
  const settlement = {
    event: "settle_not_executed",
    calls: "never-happened",
    reopen: reopened(record.id, started),
    resumeAfterMs: 0,
  } as const;
  return { kind: "settle", settlement, proof: "closed-downstream" };
}

async function failed<Tx>(runtime: Runtime<Tx>, record: UnknownRecord, journal: Journal): Promise<Found> {
  const detail =
    "A call could not be made in time and was closed at the other service: it has not happened and will not.";
  const errorCode = "closed-downstream";
  const context = codecContext(record, record.id, record.fingerprint.digest, "answer");
  const encoded = encodeAnswer(
    failureAnswer(errorCode, detail, { safeNewKey: journal.steps.length === 1 }),
    Number.MAX_SAFE_INTEGER,
  );
  const answer = await runtime.codec.encode(encoded, context);
  const { retention } = await kept(runtime, record, {});
  return {
    kind: "settle",
    settlement: { event: "settle_failed", answer, retention, errorCode },
    proof: errorCode,
  };
}

/** Calls the operation's own look-up, if it has one. */
async function askOperation<Tx>(
  runtime: Runtime<Tx>,
  { settings }: Operation,
  record: UnknownRecord,
  journal: Journal,
  otherwise: Found,
): Promise<Found> {
  const { lookup } = settings;
  if (lookup === null) return otherwise;
  const { tenant, scope, key } = record;
  const input = journal.input === null ? null : await plainJson(runtime, record, "input", journal.input);
  const abort = new AbortController();
  const question = { key: { tenant, scope, key }, recordId: record.id, input, signal: abort.signal };
  const asked = await withLimit(runtime.ports.clock, lookupLimitMs, () => lookup(question));
  if (asked.kind === "threw") throw asked.error;
  if (asked.kind === "timed_out") {
    const error = new Error("The operation's look-up took longer than 10 seconds");
    abort.abort(error);
    throw error;
  }
  return foundOf(runtime, record, journal, asked.value);
}

async function foundOf<Tx>(
  runtime: Runtime<Tx>,
  record: UnknownRecord,
  journal: Journal,
  found: LookedUp,
): Promise<Found> {
  switch (found.kind) {
    case "completed": {
      const completed = await kept(runtime, record, found.answer);
      return {
        kind: "settle",
        settlement: { event: "settle_completed", ...completed },
        proof: "found-downstream",
      };
    }
    case "failed": {
      const failure = { event: "settle_failed", ...(await kept(runtime, record, found.answer)) } as const;
      return {
        kind: "settle",
        settlement: { ...failure, errorCode: "looked-up" },
        proof: "found-downstream",
      };
    }
    case "not_executed": {
      const calls = found.proof === "downstream-deduplicates" ? "may-repeat" : "never-happened";
      const started = journal.steps.find(
        (step): step is CallStep => step.kind === "call" && step.state === "started",
      );
      const closed = found.proof === "closed-downstream" && started !== undefined;
      const reopen = closed ? reopened(record.id, started) : null;
      const settlement = { ...resumption(journal), calls, reopen } as Settlement;
      return { kind: "settle", settlement, proof: found.proof, mayRepeat: true };
    }
    case "still_unknown":
      return { kind: "ask_later" };
    default:
      return found satisfies never;
  }
}
