/** Operations that own their work: a worker can run them, and a resumed attempt goes on after the last finished step. */
import type { Effect } from "../effects/effect.ts";
import type { Execution } from "../engine/classify.ts";
import type { RecordKey } from "../engine/record.ts";
import type { RunAnswer } from "../engine/run-answer.ts";
import type { EnqueuingAttempt } from "./attempt.ts";

export type { RunAnswer };

/**
 * An attempt in steps, under `lease` execution. Steps run one after the other; each name is used once. A resumed attempt
 * runs the same function from its top: steps that are finished return what they returned, without running.
 */
export interface StepAttempt<Tx> extends EnqueuingAttempt {
  /**
   * Runs local work in a transaction that also records the step: both or neither. What it returns must be JSON; the
   * first run, too, gets the value after one round trip. What it enqueues belongs to both.
   *
   * @throws {LatchkeyError} `attempt-lost` when another attempt owns the record; `outcome-in-doubt` when what became of
   * its COMMIT, or of an earlier step, is not known. Let both through: whatever `run` makes of them, the attempt is over.
   */
  phase<R>(name: string, work: (tx: Tx) => Promise<R>): Promise<R>;
  /**
   * Makes one outbound call. The intent, with its input, is written before and the result after. Throws as `phase` does;
   * `outcome-in-doubt` also when the call may have happened; `EffectRefused` when the other side refused for good (now, or
   * before this attempt); and what the effect threw when it provably did not happen.
   */
  call<I, R>(name: string, effect: Effect<I, R>, input: I): Promise<R>;
  /** As `phase`, for the last one: its transaction also completes the attempt with the answer. Return what it returns. */
  finish(name: string, work: (tx: Tx) => Promise<RunAnswer>): Promise<RunAnswer>;
}

/** An attempt of a worker, under `deferred` execution. */
export interface DeferredAttempt<Tx> extends StepAttempt<Tx> {
  /**
   * Says that the operation is over when a delivery of this effect is: return what it returns. The effect's `onDelivered`
   * then gives the answer. One must have been enqueued by a phase of this life.
   *
   * @throws {TypeError} when the effect is another latchkey's, or has no `onDelivered`.
   */
  answeredBy<I, R>(effect: Effect<I, R>): RunAnswer;
}

export type OwnAttempt<Tx, E extends Execution> = E extends "transaction"
  ? EnqueuingAttempt & { readonly tx: Tx }
  : E extends "deferred"
    ? DeferredAttempt<Tx>
    : StepAttempt<Tx>;

export type Run<I, Tx, E extends Execution> = (input: I, attempt: OwnAttempt<Tx, E>) => Promise<RunAnswer>;

/** What an operation owns. */
export interface OwnWork<I, Tx, E extends Execution> {
  /** Changes whenever the list of steps does. Records with steps of another version wait for a person. */
  readonly version: string;
  readonly run: Run<I, Tx, E>;
}

/** What an operation-level look-up is asked. */
export interface LookupQuestion {
  readonly key: RecordKey;
  /** What the attempt knew as its `id`. */
  readonly recordId: string;
  /** As JSON; null where the operation does not own its work. */
  readonly input: unknown;
  /** Aborts after 10 seconds. */
  readonly signal: AbortSignal;
}

/** Finds out what became of an operation as a whole. An error means: ask again later. */
export type Lookup = (question: LookupQuestion) => Promise<LookedUp>;

/** What an operation-level look-up found out about an `unknown` record. */
export type LookedUp =
  | { readonly kind: "completed"; readonly answer: RunAnswer }
  | { readonly kind: "failed"; readonly answer: RunAnswer }
  /** It did not happen and cannot happen any more. */
  | { readonly kind: "not_executed"; readonly proof: "downstream-deduplicates" | "closed-downstream" }
  | { readonly kind: "still_unknown" };
