/** An effect: one kind of outbound call, and what the other side can do when its outcome is in doubt. */
import type { RunAnswer } from "../engine/run-answer.ts";

/**
 * What is automatic after an uncertain outcome follows from this alone:
 * - `provider`: the other side honours our key for `dedupeWindowMs`, so the call is sent again with the same key and the
 *   same stored input; once the window is over it is unknown. At least once, with one effect as far as the provider keeps
 *   its word.
 * - `lookup`: we can ask. Found: its result is stored. Not found proves nothing unless `close` can make sure that it will
 *   never happen. At most once; with `close`, once.
 * - `none`: unknown at once, and a person decides. At most once.
 */
export type Deduplication = "provider" | "lookup" | "none";

/** What an effect's functions are given beside the input. */
export interface EffectCall {
  /** What the other side should know this call by: the same on every attempt, owner and restart. */
  readonly key: string;
  /** Aborts when the call's time is over or the attempt has lost its lease. */
  readonly signal: AbortSignal;
}

export interface RetryOptions {
  /** How often one attempt sends, the first time included. Default 3. */
  readonly attempts?: number;
  /** Pause before the second send; doubles, with jitter, up to `backoffMaxMs`. Default 200. */
  readonly backoffMs?: number;
  /** Default 5,000. */
  readonly backoffMaxMs?: number;
}

export interface EffectLimits {
  /** How long one send, look-up, close or `onDelivered` may take; then its outcome is in doubt. Default 10 seconds. */
  readonly timeoutMs?: number;
  /** How many of them one process has under way at once. Default: no limit. */
  readonly concurrency?: number;
  /** How many deliveries from the outbox one process begins in any second. Calls do not count. Default: no limit. */
  readonly perSecond?: number;
}

/** How an effect is delivered that was enqueued. */
export interface DeliveryOptions {
  /** How often it is sent, the first time included; then it is a dead letter. Default 20: about an hour. */
  readonly attemptsMax?: number;
  /** Pause before the second send; doubles, with jitter, up to `backoffMaxMs`. Default 1,000. */
  readonly backoffMs?: number;
  /** Default 300,000. */
  readonly backoffMaxMs?: number;
  /**
   * Effects of one aggregate are delivered one after the other, in the order in which they were written; one that is dead
   * holds up those behind it. Then enqueueing needs an aggregate. Default false.
   */
  readonly ordered?: boolean;
  /** How long a delivered one is kept to be seen. Default 24 hours. */
  readonly keepMs?: number;
}

/** What `onDelivered` is given. */
export interface Delivered<I, R> {
  readonly input: I;
  readonly result: R;
  readonly tenant: string;
  /** What the attempt that enqueued it knew as its `id`. */
  readonly recordId: string;
  readonly operation: string;
  /** What the other side knows the delivery by. */
  readonly key: string;
  /**
   * Completes a deferred operation that waits for this delivery with an answer, in the same transaction. One that is
   * finished by then is left as it is.
   *
   * @throws {TypeError} when it is no answer, or the second one.
   */
  answer(answer: RunAnswer): void;
}

export interface EffectOptions<I, R, Tx = unknown> {
  readonly deduplication: Deduplication;
  /** `provider` only, and required there: how long the other side remembers our keys. */
  readonly dedupeWindowMs?: number;
  /**
   * Makes the call. What it returns must be JSON. An error leaves the outcome in doubt, unless it is `NotExecuted`,
   * `EffectRefused`, or `isNotExecuted` or `isRefused` says so.
   */
  readonly execute: (input: I, call: EffectCall) => Promise<R>;
  /** `lookup` only, and required there: what the other side knows of `call.key`. Null: nothing yet. */
  readonly lookup?: (input: I, call: EffectCall) => Promise<Found<R> | null>;
  /** `lookup` only: makes sure that `call.key` can no longer happen, or says that it has. Must be atomic on the other side. */
  readonly close?: (input: I, call: EffectCall) => Promise<Closed<R>>;
  /** With `close`: a closed call is made again under a new key. Default false: the operation fails. */
  readonly reopen?: boolean;
  /** True when this error proves that nothing happened and nothing will. Default: only `NotExecuted` does. */
  readonly isNotExecuted?: (error: unknown) => boolean;
  /** True when this error is the other side's final word, to be kept like a result. Default: only `EffectRefused` is. */
  readonly isRefused?: (error: unknown) => boolean;
  readonly retry?: RetryOptions;
  readonly limits?: EffectLimits;
  readonly delivery?: DeliveryOptions;
  /**
   * Runs in the transaction that finishes a delivery: both or neither. It may run again, for one delivery, until that
   * transaction has committed; the effect itself is not sent again for it.
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
  /** It takes what its own effect gives, in the transactions of the latchkey that it was defined on. */
  readonly onDelivered: ((delivered: Delivered<never, never>, tx: never) => Promise<void>) | null;
}
