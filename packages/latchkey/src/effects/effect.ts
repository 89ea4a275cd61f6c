/** An effect: one kind of outbound call, and what the other service offers when its outcome is in doubt. */
import type { RunAnswer } from "../engine/run-answer.ts";

/**
 * What Latchkey does after an uncertain outcome depends on this alone:
 * - `provider`: the other service honours our key for `dedupeWindowMs`, so Latchkey sends the call again with the same key and
 *   the same stored input; after the window it is unknown. At least once, with one effect if the provider deduplicates
 *   reliably.
 * - `lookup`: the other service can be asked. If it has the call, its result is stored. Not found proves nothing unless `close`
 *   ensures that the call will never happen. At most once; with `close`, once.
 * - `none`: unknown at once, and a person decides. At most once.
 */
export type Deduplication = "provider" | "lookup" | "none";

/** The second argument of an effect's functions, after the input. */
export interface EffectCall {
  /** The key to send to the other service: the same on every attempt, owner and restart. */
  readonly key: string;
  /** Aborts when the call's time limit is over or the attempt has lost its lease. */
  readonly signal: AbortSignal;
}

export interface RetryOptions {
  /** How often one attempt sends, including the first time. Default 3. */
  readonly attempts?: number;
  /** Pause before the second send; it doubles, with jitter, up to `backoffMaxMs`. Default 200. */
  readonly backoffMs?: number;
  /** The longest pause between two sends, in milliseconds. Default 5,000. */
  readonly backoffMaxMs?: number;
}

export interface EffectLimits {
  /** How long one send, look-up, close or `onDelivered` may take; after that its outcome is in doubt. Default 10 seconds. */
  readonly timeoutMs?: number;
  /** How many of them one process runs at once. Default: no limit. */
  readonly concurrency?: number;
  /** How many deliveries from the outbox one process starts in any second. Calls do not count. Default: no limit. */
  readonly perSecond?: number;
}

/** How an enqueued effect is delivered. */
export interface DeliveryOptions {
  /** How often it is sent, including the first time; after that it is a dead letter. Default 20: about an hour. */
  readonly attemptsMax?: number;
  /** Pause before the second send; it doubles, with jitter, up to `backoffMaxMs`. Default 1,000. */
  readonly backoffMs?: number;
  /** The longest pause between two sends, in milliseconds. Default 300,000. */
  readonly backoffMaxMs?: number;
  /**
   * Deliver the effects of one aggregate one after the other, in the order in which they were written; a dead letter holds up
   * those behind it. Enqueueing then needs an aggregate. Default false.
   */
  readonly ordered?: boolean;
  /**
   * How long a delivered effect stays visible. Default 24 hours. With 0 its row is removed as it is delivered, which costs
   * Postgres less, or at the latest by the record-cleaner. Then nothing shows that it was delivered, and a ledger cannot be
   * compared with it.
   */
  readonly keepMs?: number;
}

/** The argument of `onDelivered`. */
export interface Delivered<I, R> {
  readonly input: I;
  readonly result: R;
  readonly tenant: string;
  /** The id of the record whose attempt enqueued it: its `attempt.id`. */
  readonly recordId: string;
  readonly operation: string;
  /** The key that the delivery was sent with. */
  readonly key: string;
  /**
   * Completes a deferred operation that waits for this delivery, in the same transaction. An operation that has finished
   * meanwhile is not changed.
   *
   * @throws {TypeError} when the argument is not an answer, or on a second call.
   */
  answer(answer: RunAnswer): void;
}

export interface EffectOptions<I, R, Tx = unknown> {
  readonly deduplication: Deduplication;
  /** `provider` only, and required: how long the other service remembers our keys. */
  readonly dedupeWindowMs?: number;
  /**
   * Makes the call. Its return value must be JSON. An error leaves the outcome in doubt, unless it is `NotExecuted` or
   * `EffectRefused`, or `isNotExecuted` or `isRefused` returns true.
   */
  readonly execute: (input: I, call: EffectCall) => Promise<R>;
  /** `lookup` only, and required: what the other service knows about `call.key`. Null: nothing yet. */
  readonly lookup?: (input: I, call: EffectCall) => Promise<Found<R> | null>;
  /** `lookup` only: ensures that `call.key` can no longer happen, or returns that it has. Must be atomic there. */
  readonly close?: (input: I, call: EffectCall) => Promise<Closed<R>>;
  /** With `close`: repeat a closed call under a new key. Default false: the operation fails. */
  readonly reopen?: boolean;
  /** True when this error proves that nothing happened and nothing will. Default: only `NotExecuted` does. */
  readonly isNotExecuted?: (error: unknown) => boolean;
  /** True when this error is the other service's final word, to be stored like a result. Default: only `EffectRefused` is. */
  readonly isRefused?: (error: unknown) => boolean;
  readonly retry?: RetryOptions;
  readonly limits?: EffectLimits;
  readonly delivery?: DeliveryOptions;
  /**
   * Runs in the transaction that finishes a delivery: both commit or neither. It may run again for the same delivery until
   * that transaction has committed; the effect itself is not sent again for it.
   */
  readonly onDelivered?: (delivered: Delivered<I, R>, tx: Tx) => Promise<void>;
}

export interface Found<R> {
  readonly found: R;
}

export type Closed<R> = { readonly closed: true } | { readonly happened: R };

export interface Effect<I = unknown, R = unknown> {
  readonly name: string;
  readonly settings: EffectSettings<I, R>;
}

/** Every option of an effect, resolved. */
export interface EffectSettings<I, R> {
  readonly deduplication: Deduplication;
  /** Null unless `deduplication` is `provider`. */
  readonly dedupeWindowMs: number | null;
  readonly execute: (input: I, call: EffectCall) => Promise<R>;
  readonly lookup: ((input: I, call: EffectCall) => Promise<Found<R> | null>) | null;
  readonly close: ((input: I, call: EffectCall) => Promise<Closed<R>>) | null;
  readonly reopen: boolean;
  readonly isNotExecuted: (error: unknown) => boolean;
  readonly isRefused: (error: unknown) => boolean;
  readonly retry: Required<RetryOptions>;
  readonly limits: {
    readonly timeoutMs: number;
    readonly concurrency: number | null;
    readonly perSecond: number | null;
  };
  readonly delivery: Required<DeliveryOptions>;
  /** Takes the input and result of its own effect, and a transaction of the latchkey that defined it. */
  readonly onDelivered: ((delivered: Delivered<never, never>, tx: never) => Promise<void>) | null;
}
