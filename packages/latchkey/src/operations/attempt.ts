import type { Effect } from "../effects/effect.ts";
import type { Execution } from "../engine/classify.ts";
import type { Misuse } from "../engine/decide.ts";
import type { Fence, Fingerprint, RecordKey } from "../engine/record.ts";
import type { Retention } from "../stores/store.ts";
import type { Answer } from "./answer.ts";
import type { LimitName } from "./limits.ts";
import type { RequestSummary } from "./summary.ts";

/** One execution for a record, as its handler sees it. */
export interface Attempt {
  /** The record's stable id (UUIDv7), for domain rows to refer to. Latchkey never deletes those rows. */
  readonly id: string;
  /**
   * The client's key as parsed: a quoted header value without its quotes. Null if the request needed no key and sent none,
   * and under `keySecret` for an attempt that a worker runs.
   */
  readonly key: string | null;
  /** Attempt number and token; pass them to systems that can refuse a stale owner. */
  readonly fence: Fence;
  /** Aborts before another owner can take the lease, and when the attempt's time limit is over. */
  readonly signal: AbortSignal;
  /**
   * Sends the answer without storing it, and frees the key. Under `transaction` the writes are rolled back. For answers that
   * mean that nothing happened, such as a validation error.
   */
  release(): void;
  /** Sets how long this answer is stored, in place of the operation's retention. */
  retain(retention: Partial<Retention>): void;
}

export interface EnqueueOptions {
  /** What the effect belongs to, such as an order's number: 1 to 200 characters. Ordered effects need one. */
  readonly aggregate?: string;
  /** Milliseconds from the COMMIT until it is due, up to 365 days. Default 0. */
  readonly delayMs?: number;
}

export interface Enqueued {
  /** The id of the effect in the outbox (UUIDv7). */
  readonly id: string;
  /** The key that the other service will get with its delivery. */
  readonly key: string;
}

/**
 * Writes an effect into the outbox with the COMMIT of this transaction: it exists exactly if the transaction commits, and a
 * worker delivers it afterwards. Nothing is delivered for work that is rolled back, released or undone; work that runs again
 * enqueues again.
 *
 * @throws {TypeError} outside a transaction; if the input has no JSON form, the effect belongs to another latchkey or an
 * option is out of range; and from the 1,001st effect of a transaction on.
 */
export type Enqueue = <I, R>(effect: Effect<I, R>, input: I, options?: EnqueueOptions) => Enqueued;

/** An attempt that runs in transactions of its record's database. */
export interface EnqueuingAttempt extends Attempt {
  /** The record's key as the store knows it: under `keySecret` the key is its hash. */
  readonly record: RecordKey;
  readonly enqueue: Enqueue;
}

/** What a handler gets in addition to the framework's arguments. */
export type HandlerContext<Tx, E extends Execution> = E extends "transaction"
  ? { readonly tx: Tx; readonly attempt: EnqueuingAttempt }
  : { readonly attempt: Attempt };

/** A request, as admission needs it. */
export interface Submission {
  readonly key: RecordKey;
  /** The client's key, if it differs from the one in `key`; null if there is none. Default: the one in `key`. */
  readonly clientKey?: string | null;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
  /** Whether a life that starts under a lease can be read by its id, for a status resource. Default false. */
  readonly addressable?: boolean;
  /** The summary to store with a new life for people who support its sender. Absent: none. */
  readonly summarize?: () => RequestSummary;
}

/**
 * Runs the handler once and captures its answer. It may be called again, after a rollback, and must then start from a
 * clean response.
 */
export type Work<Tx, E extends Execution = Execution> = (context: HandlerContext<Tx, E>) => Promise<Answer>;

/** How a submission ended. Errors of the handler itself are thrown. */
export type Result =
  /** The handler ran. `stored` is false if its answer was released or its outcome is unknown. */
  | {
      readonly kind: "executed";
      readonly recordId: string;
      readonly answer: Answer;
      readonly stored: boolean;
      readonly expiresAt: number | null;
    }
  | {
      readonly kind: "replay";
      readonly recordId: string;
      readonly answer: Answer;
      readonly expiresAt: number;
      /** The span of the first execution, as a W3C traceparent. Absent: none was stored. */
      readonly trace?: string;
    }
  | { readonly kind: "timeout"; readonly recordId: string }
  /** A worker runs it, or will; its record has the result. */
  | { readonly kind: "accepted"; readonly recordId: string; readonly retryAfterMs: number }
  | { readonly kind: "in_progress"; readonly recordId: string | null; readonly retryAfterMs: number }
  | Misuse
  | { readonly kind: "unknown"; readonly recordId: string; readonly retryAfterMs: number | null }
  | { readonly kind: "expired" }
  /** The tenant has reached a limit; nothing ran and nothing was stored. */
  | { readonly kind: "too_many_keys"; readonly because: LimitName; readonly retryAfterMs: number }
  | { readonly kind: "commit_in_doubt"; readonly retryAfterMs: number };
