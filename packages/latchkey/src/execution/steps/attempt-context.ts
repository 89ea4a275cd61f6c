/** Shared by the steps of one attempt. */
import type { CodecPart } from "../../codec.ts";
import type { InProgressRecord } from "../../engine/record.ts";
import { isLatchkeyError, LatchkeyError, StoreError } from "../../errors.ts";
import type { LeasedOperation } from "../../operations/owned-operation.ts";
import type { TraceSpan } from "../../telemetry/tracing.ts";
import { workerPauseMs } from "../../time/retry-pause.ts";
import { retryUntil } from "../../time/retry-until.ts";
import type { AttemptHandle } from "../handle.ts";
import type { HeldLease } from "../lease/held-lease.ts";
import type { Runtime } from "../runtime.ts";
import { codecContext, decodeJson, encodeJson } from "../stored-values.ts";
import type { PhaseEffects } from "../transaction/enqueue.ts";
import type { Steps } from "./steps.ts";

export interface OwnedRun<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly operation: LeasedOperation<Tx>;
  readonly held: HeldLease;
  readonly handle: AttemptHandle;
  readonly steps: Steps;
  readonly effects: PhaseEffects<Tx>;
  /** The attempt's span, if the service is traced. */
  readonly span: TraceSpan | undefined;
  /** Resolves when the end of the attempt has been written, or given up. */
  readonly over: Promise<void>;
}

/** Stops an attempt that has lost its lease. */
export function lose<Tx>({ steps }: Pick<OwnedRun<Tx>, "steps">, cause?: unknown): never {
  return steps.halt({ kind: "lost", error: new LatchkeyError("attempt-lost", { cause }) });
}

/** Reports that a step is in the journal, with its result. */
export function reportStep<Tx>(
  { runtime, held }: Pick<OwnedRun<Tx>, "runtime" | "held">,
  step: string,
  kind: "phase" | "call",
): void {
  const record = held.record();
  const about = { ...runtime.about(record.operation, record), recordId: record.id };
  runtime.emit({ ...about, type: "step_finished", step, kind });
}

/** How soon a doubt is reconciled; null if there is no automatic way. */
export function reconcileAfter<Tx>(
  runtime: Runtime<Tx>,
  operation: LeasedOperation<Tx>,
  { fence }: InProgressRecord,
  effect: string | null,
): number | null {
  const deduplication = effect === null ? "none" : runtime.effects.get(effect)?.settings.deduplication;
  const automatic = deduplication !== "none" || operation.settings.lookup !== null;
  return automatic ? workerPauseMs(fence.attempt) : null;
}

/** A value as JSON, encoded by the codec for this part of the record. */
export async function storedJson<Tx>(
  runtime: Runtime<Tx>,
  record: Pick<InProgressRecord, "tenant" | "scope" | "key" | "id" | "fingerprint">,
  part: CodecPart,
  what: string,
  value: unknown,
): Promise<Uint8Array> {
  const context = codecContext(record, record.id, record.fingerprint.digest, part);
  return runtime.codec.encode(encodeJson(what, value), context);
}

export async function plainJson<Tx>(
  runtime: Runtime<Tx>,
  record: Pick<InProgressRecord, "tenant" | "scope" | "key" | "id" | "fingerprint">,
  part: CodecPart,
  stored: Uint8Array,
): Promise<unknown> {
  const context = codecContext(record, record.id, record.fingerprint.digest, part);
  return decodeJson(await runtime.codec.decode(stored, context));
}

/**
 * The result of a finished step. If it cannot be decoded, the attempt stops, and is resumed later: `run` must not mistake it
 * for a failure of the step, which has happened.
 */
export async function stepResult<Tx>(
  { runtime, held, steps }: Pick<OwnedRun<Tx>, "runtime" | "held" | "steps">,
  name: string,
  stored: Uint8Array,
): Promise<unknown> {
  try {
    return await plainJson(runtime, held.record(), `step-result:${name}`, stored);
  } catch (cause) {
    const message = `The result of step ${name} cannot be read`;
    const error = isLatchkeyError(cause) ? cause : new LatchkeyError("attempt-lost", { message, cause });
    return steps.halt({ kind: "lost", error });
  }
}

const patienceMs = 10_000;

export type Retried<T> =
  | { readonly kind: "returned"; readonly value: T }
  | { readonly kind: "gave_up"; readonly error: unknown };

/**
 * Repeats a guarded call to the store until the store answers, the lease is lost or the time is over (10 seconds).
 *
 * @throws errors that are not failures of the store.
 */
export async function retryWhileHeld<Tx, T>(
  runtime: Runtime<Tx>,
  held: HeldLease,
  ask: () => Promise<T>,
  limitMs: number = patienceMs,
): Promise<Retried<T>> {
  const untilMs = runtime.ports.clock.monotonicMs() + limitMs;
  const isRetryable = (error: unknown) => error instanceof StoreError;
  const asked = await retryUntil(runtime.ports, { untilMs, signal: held.lost, isRetryable }, ask);
  if (asked.kind === "returned") return asked;
  return { kind: "gave_up", error: asked.error ?? new StoreError("in_doubt") };
}
