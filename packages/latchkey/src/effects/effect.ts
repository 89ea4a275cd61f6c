/** An effect: one kind of outbound call, and what the other side can do when its outcome is in doubt. */
import { timerMaxMs } from "../ports.ts";
import { isStorable } from "../storable.ts";

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
  /** How long one send, look-up or close may take; then its outcome is in doubt. Default 10 seconds. */
  readonly timeoutMs?: number;
  /** How many of them one process has under way at once. Default: no limit. */
  readonly concurrency?: number;
}

export interface EffectOptions<I, R> {
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
  readonly limits: { readonly timeoutMs: number; readonly concurrency: number | null };
}

/**
 * Resolves and checks an effect.
 *
 * @throws {TypeError} when an option is missing, out of range, or of another kind of de-duplication.
 */
export function defineEffect<I, R>(name: string, options: EffectOptions<I, R>): Effect<I, R> {
  if (typeof name !== "string" || name.length === 0 || name.length > 200 || !isStorable(name)) {
    throw new TypeError(
      `An effect's name has 1 to 200 characters, none of them NUL (got ${JSON.stringify(name)})`,
    );
  }
  const settings = resolveSettings(options);
  checkKind(name, settings);
  checkFunctions(name, settings);
  checkNumbers(name, settings);
  return Object.freeze({ name, settings: Object.freeze(settings) });
}

const no = () => false;

function resolveSettings<I, R>(options: EffectOptions<I, R>): EffectSettings<I, R> {
  const { retry = {}, limits = {} } = options;
  return {
    deduplication: options.deduplication,
    dedupeWindowMs: options.dedupeWindowMs ?? null,
    execute: options.execute,
    lookup: options.lookup ?? null,
    close: options.close ?? null,
    reopen: options.reopen ?? false,
    isNotExecuted: options.isNotExecuted ?? no,
    isRefused: options.isRefused ?? no,
    retry: {
      attempts: retry.attempts ?? 3,
      backoffMs: retry.backoffMs ?? 200,
      backoffMaxMs: retry.backoffMaxMs ?? 5_000,
    },
    limits: { timeoutMs: limits.timeoutMs ?? 10_000, concurrency: limits.concurrency ?? null },
  };
}

function checkKind<I, R>(name: string, settings: EffectSettings<I, R>): void {
  const { deduplication, dedupeWindowMs, lookup, close, reopen } = settings;
  const refuse = (why: string): never => {
    throw new TypeError(`Effect ${name}: ${why}`);
  };
  switch (deduplication) {
    case "provider":
      if (dedupeWindowMs === null) refuse("deduplication `provider` needs dedupeWindowMs");
      if (lookup !== null || close !== null) refuse("lookup and close belong to deduplication `lookup`");
      break;
    case "lookup":
      if (lookup === null) refuse("deduplication `lookup` needs a lookup function");
      if (dedupeWindowMs !== null) refuse("dedupeWindowMs belongs to deduplication `provider`");
      break;
    case "none":
      if (lookup !== null || close !== null || dedupeWindowMs !== null)
        refuse("deduplication `none` has no lookup, close or dedupeWindowMs");
      break;
    default:
      refuse(`deduplication must be provider, lookup or none (got ${String(deduplication satisfies never)})`);
  }
  if (reopen && close === null) refuse("reopen needs close: only a closed call may be made again");
}

function checkFunctions<I, R>(name: string, settings: EffectSettings<I, R>): void {
  for (const field of ["execute", "isNotExecuted", "isRefused"] as const) {
    if (typeof settings[field] !== "function")
      throw new TypeError(`Effect ${name}: ${field} must be a function`);
  }
}

function checkNumbers<I, R>(name: string, { dedupeWindowMs, retry, limits }: EffectSettings<I, R>): void {
  const values = { dedupeWindowMs, ...retry, ...limits };
  for (const [field, value] of Object.entries(values)) {
    if (value === null) continue;
    if (!Number.isSafeInteger(value) || value <= 0) {
      throw new TypeError(`Effect ${name}: ${field} must be a positive whole number (got ${value})`);
    }
  }
  if (Math.max(limits.timeoutMs, retry.backoffMs, retry.backoffMaxMs) > timerMaxMs) {
    throw new TypeError(`Effect ${name}: times must be at most ${timerMaxMs} ms`);
  }
}
