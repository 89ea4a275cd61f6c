/** Operations that own their work: a worker can run them, and a resumed attempt continues after the last finished step. */
import type { Effect } from "../effects/effect.ts";
import type { Execution } from "../engine/classify.ts";
import type { RecordKey } from "../engine/record.ts";
import type { RunAnswer } from "../engine/run-answer.ts";
import type { EnqueuingAttempt } from "./attempt.ts";

export type { RunAnswer };

/**
 * An attempt in steps, under `lease` execution. Steps run one after the other; each name may be used once. A resumed attempt
 * runs the same function from the top: finished steps return their stored result without running.
 */
export interface StepAttempt<Tx> extends EnqueuingAttempt {
  /**
   * Runs local work in a transaction that also records the step: both commit or neither. Its return value must be JSON; the
   * first run also gets it after a round trip through JSON. Effects that it enqueues belong to the same transaction.
   *
   * @throws {LatchkeyError} `attempt-lost` if another attempt owns the record; `outcome-in-doubt` if the outcome of its COMMIT
   * or of an earlier step is unknown. Do not catch them: whatever `run` returns then, the attempt is over.
   */
  phase<R>(name: string, work: (tx: Tx) => Promise<R>): Promise<R>;
  /**
   * Makes one outbound call. The intent, with its input, is written before and the result after. Throws as `phase` does;
   * `outcome-in-doubt` also if the call may have happened; `EffectRefused` if the other service refused for good, now or in an
   * earlier attempt; and the effect's own error if the call provably did not happen.
   */
  call<I, R>(name: string, effect: Effect<I, R>, input: I): Promise<R>;
  /** Like `phase`, for the last step: its transaction also completes the attempt with the answer. Return its return value. */
  finish(name: string, work: (tx: Tx) => Promise<RunAnswer>): Promise<RunAnswer>;
}

/** A worker's attempt, under `deferred` execution. */
export interface DeferredAttempt<Tx> extends StepAttempt<Tx> {
  /**
   * Ends the operation when an effect of this kind has been delivered: return this function's return value. The effect's
   * `onDelivered` then gives the answer. A phase of this life must have enqueued one.
   *
   * @throws {TypeError} if the effect belongs to another latchkey, or has no `onDelivered`.
   */
  answeredBy<I, R>(effect: Effect<I, R>): RunAnswer;
}

export type OwnAttempt<Tx, E extends Execution> = E extends "transaction"
  ? EnqueuingAttempt & { readonly tx: Tx }
  : E extends "deferred"
    ? DeferredAttempt<Tx>
    : StepAttempt<Tx>;

export type Run<I, Tx, E extends Execution> = (input: I, attempt: OwnAttempt<Tx, E>) => Promise<RunAnswer>;

/** The work that an operation owns. */
export interface OwnWork<I, Tx, E extends Execution> {
  /** Changes whenever the list of steps does. Records with steps of another version wait for an operator. */
  readonly version: string;
  readonly run: Run<I, Tx, E>;
}

/** The argument of an operation-level look-up. */
export interface LookupQuestion {
  readonly key: RecordKey;
  /** The `id` of the attempt. */
  readonly recordId: string;
  /** As JSON; null if the operation does not own its work. */
  readonly input: unknown;
  /** Aborts after 10 seconds. */
  readonly signal: AbortSignal;
}

/** Finds out the outcome of an operation as a whole. If it throws, it is called again later. */
export type Lookup = (question: LookupQuestion) => Promise<LookedUp>;

/** What an operation-level look-up found out about an `unknown` record. */
export type LookedUp =
  | { readonly kind: "completed"; readonly answer: RunAnswer }
  | { readonly kind: "failed"; readonly answer: RunAnswer }
  /** It did not happen and can no longer happen. */
  | { readonly kind: "not_executed"; readonly proof: "downstream-deduplicates" | "closed-downstream" }
  | { readonly kind: "still_unknown" };
