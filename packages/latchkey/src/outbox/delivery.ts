/** What the parts of one delivery share: its claim, the end of the claim, and the events. */

import type { AnyEffect } from "../effects/run-effect.ts";
import { StoreError } from "../errors.ts";
import type { Runtime } from "../execution/runtime.ts";
import { decodeJson, effectContext } from "../execution/stored-values.ts";
import type { DeliveryEnd, EffectClaim, OutboxEffect, OutboxSupport } from "../stores/outbox.ts";
import type { TransactionSupport } from "../stores/transactions.ts";
import type { About } from "../telemetry/events.ts";
import type { TraceSpan } from "../telemetry/tracing.ts";
import { retryPauseMs } from "../time/retry-pause.ts";
import { retryUntil } from "../time/retry-until.ts";
import type { Batches } from "./batches.ts";
import type { CrashSuspects } from "./crash-suspects.ts";
import { type DeliveryState, type DeliveryVerdict, unsentTries } from "./next-delivery.ts";
import type { StoreTime } from "./store-time.ts";

/** Shared by all deliveries of one dispatcher. */
export interface Deliveries<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly outbox: OutboxSupport;
  readonly transactions: TransactionSupport<Tx>;
  readonly starts: (leaseMs: number) => Batches<EffectClaim>;
  readonly ends: Batches<DeliveryEnd>;
  readonly storeTime: StoreTime;
  readonly suspects: CrashSuspects;
  /** True when no new send may begin. */
  readonly stopping: () => boolean;
}

export interface Delivery<Tx> {
  readonly all: Deliveries<Tx>;
  /** As claimed. What decides about the delivery is `before`. */
  readonly row: OutboxEffect;
  /** The state before a send began under this claim. */
  readonly before: DeliveryState;
  /** The claim was also the start, and the send has not begun yet. */
  readonly unsent: boolean;
  readonly effect: AnyEffect;
  /** Monotonic time until which the claim is certain to hold. */
  readonly ownedUntilMs: number;
  /** Called when a send begins; it counts for the effect's rate. */
  readonly onSend: () => void;
  /** Called when the send has returned and only its result has to be written. */
  readonly onReturn: () => void;
  /** Present if the service is traced. */
  readonly span?: TraceSpan;
}

/** How a claim ended. `left`: not by this process, as far as it knows; the dispatcher's rescue picks the effect up. */
export type DeliveryResult = "delivered" | "retried" | "reopened" | "dead" | "given_back" | "left";

/** In addition to one call to the other service and `onDelivered`: time for the store to write the results. */
const marginMs = 10_000;

/** How long a claim holds, and again from each start. */
export function leaseMsOf({ settings }: AnyEffect): number {
  return 2 * settings.limits.timeoutMs + marginMs;
}

/** Whether a claim may also be the start: a send that was recorded but never made is repeated, which is harmless here. */
export function startsWithClaim({ settings }: AnyEffect): boolean {
  return settings.deduplication === "provider";
}

/** As the claim found it, if the claim was also the start. */
export function stateBefore({
  state,
  fence,
  sends,
  returns,
  doubtfulSince,
  result,
}: OutboxEffect): DeliveryState {
  return state === "started"
    ? { fence, sends: sends - 1, returns, doubtfulSince: null, result }
    : { fence, sends, returns, doubtfulSince, result };
}

/** Until when a send may begin if its lease was requested at `askedAtMs`: it must end, and be written, within the lease. */
export function sendsUntilMs({ settings }: AnyEffect, askedAtMs: number): number {
  return askedAtMs + settings.limits.timeoutMs;
}

/** Pauses between repeated writes or look-ups that the store did not answer while the claim holds. */
const claimPauses = { firstMs: 50, maxMs: 1_000 };

/**
 * Repeats a guarded call to the store until the store answers; returns null once the time is over.
 *
 * @throws errors that are not failures of the store.
 */
export async function askUntil<Tx, T>(
  { ports }: Runtime<Tx>,
  untilMs: number,
  ask: () => Promise<T>,
): Promise<T | null> {
  const isRetryable = (error: unknown) => error instanceof StoreError;
  const asked = await retryUntil(ports, { untilMs, pauses: claimPauses, isRetryable }, ask);
  return asked.kind === "returned" ? asked.value : null;
}

/** The end of a delivery without the claim, which `Delivery` has. */
export type End = DeliveryEnd extends infer E
  ? E extends EffectClaim
    ? Omit<E, keyof EffectClaim>
    : never
  : never;

/** Ends the claim, or stores the result so far. False: the claim no longer holds, or the store did not answer. */
export async function written<Tx>(
  { all, row, unsent, ownedUntilMs }: Delivery<Tx>,
  end: End,
): Promise<boolean> {
  const claim = { id: row.id, fence: row.fence, ...end };
  const claimed = (unsent ? { ...claim, unsent } : claim) as DeliveryEnd;
  // The first try needs no timer: a batch limits its calls by itself. If it rejects, `askUntil` gets the same promise as its
  // first try, and decides from its error whether to try again.
  let first: Promise<boolean> | null = all.ends.add(claimed);
  try {
    return await first;
  } catch {
    const held = await askUntil(all.runtime, ownedUntilMs, () => {
      const tried = first;
      first = null;
      return tried ?? all.ends.add(claimed);
    });
    return held === true;
  }
}

function aboutDelivery<Tx>({ all, row }: Delivery<Tx>): About & {
  readonly recordId: string;
  readonly effect: string;
  readonly effectId: string;
} {
  const about = all.runtime.about(row.operation, row);
  return { ...about, recordId: row.recordId, effect: row.effect, effectId: row.id };
}

/** @throws the codec's errors; {SyntaxError} when the bytes are not JSON. */
export async function plainPart<Tx>(
  delivery: Delivery<Tx>,
  part: "input" | "result",
  stored: Uint8Array,
): Promise<unknown> {
  return decodeJson(await plainBytes(delivery, part, stored));
}

/** No promise where the codec needs none. Throws the codec's errors. */
export function plainBytes<Tx>(
  { all, row }: Delivery<Tx>,
  part: "input" | "result",
  stored: Uint8Array,
): Promise<Uint8Array> | Uint8Array {
  return all.runtime.codec.decode(stored, effectContext(row, part));
}

/** A verdict, with the error that led to it. */
export type FailedVerdict = DeliveryVerdict & { readonly error?: unknown };

/** If the claim no longer holds, this end has no effect: the effect was or will be rescued. */
export async function end<Tx>(
  delivery: Delivery<Tx>,
  how: End,
  result: DeliveryResult,
): Promise<DeliveryResult> {
  return (await written(delivery, how)) ? result : left(delivery);
}

export function left<Tx>(delivery: Delivery<Tx>, error: unknown = null): DeliveryResult {
  delivery.all.runtime.emit({ ...aboutDelivery(delivery), type: "effect_left", error });
  return "left";
}

/** @param returned whether a send returned under this claim */
export async function fail<Tx>(
  delivery: Delivery<Tx>,
  state: DeliveryState,
  verdict: Extract<FailedVerdict, { readonly kind: "retry" | "die" }>,
  returned: boolean,
): Promise<DeliveryResult> {
  const { errorCode, error = null } = verdict;
  const { sends } = state;
  delivery.span?.fail(errorCode);
  if (verdict.kind === "die") {
    const result = await end(delivery, { event: "die", errorCode, returned }, "dead");
    const what = { ...aboutDelivery(delivery), sends, errorCode, error };
    if (result === "dead") delivery.all.runtime.emit({ ...what, type: "effect_dead" });
    return result;
  }
  const afterMs = pauseBeforeRetryMs(delivery, returned ? sends : unsentTries(state));
  const { doubtful } = verdict;
  const result = await end(delivery, { event: "retry", errorCode, afterMs, doubtful, returned }, "retried");
  return result === "retried" ? retried(delivery, state, { errorCode, error, afterMs }) : result;
}

export function pauseBeforeRetryMs<Tx>({ all, effect }: Delivery<Tx>, tries: number): number {
  const { backoffMs, backoffMaxMs } = effect.settings.delivery;
  return Math.round(
    retryPauseMs(tries, all.runtime.ports.random, { firstMs: backoffMs, maxMs: backoffMaxMs }),
  );
}

export function retried<Tx>(
  delivery: Delivery<Tx>,
  { sends }: DeliveryState,
  what: { readonly errorCode: string; readonly error: unknown; readonly afterMs: number },
): DeliveryResult {
  delivery.all.runtime.emit({ ...aboutDelivery(delivery), type: "effect_retried", sends, ...what });
  return "retried";
}

export function delivered<Tx>(
  delivery: Delivery<Tx>,
  { sends }: DeliveryState,
  answered: boolean,
): DeliveryResult {
  const { all, row } = delivery;
  const { tenant, scope, key, operation, recordId, effect, id: effectId } = row;
  all.runtime.emit({
    type: "effect_delivered",
    operation,
    tenant,
    // Computed on demand: the hash is a large part of a delivery's cost here, and few listeners read it.
    get keyHash() {
      return all.runtime.about(operation, { tenant, scope, key }).keyHash;
    },
    recordId,
    effect,
    effectId,
    sends,
    answered,
  });
  return "delivered";
}
