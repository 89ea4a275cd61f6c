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
  /** The record's stable id (UUIDv7), for domain rows to refer to. Cleaning never touches those rows. */
  readonly id: string;
  /**
   * The client's key, as it was read: a quoted header value without its quotes. Null where there is none to tell: for a
   * request that needs none and sent none, and under `keySecret` for an attempt that a worker runs.
   */
  readonly key: string | null;
  /** Attempt number and token; hand them to systems that can refuse a stale owner. */
  readonly fence: Fence;
  /** Aborts before the lease can be taken by another, and when the attempt's time is over. */
  readonly signal: AbortSignal;
  /**
   * Declines storing: the answer is sent, the key may be used again. Under `transaction` the writes are rolled back.
   * For answers that say nothing happened, such as a validation error.
   */
  release(): void;
  /** Keeps this answer for another time than the operation's. */
  retain(retention: Partial<Retention>): void;
}

export interface EnqueueOptions {
  /** What the effect belongs to, e.g. an order's number, of 1 to 200 characters. Ordered effects need one. */
  readonly aggregate?: string;
  /** How many milliseconds after the COMMIT it is due, up to 365 days. Default 0. */
  readonly delayMs?: number;
}

export interface Enqueued {
  /** Of the effect in the outbox (UUIDv7). */
  readonly id: string;
  /** What the other side will know its delivery by. */
  readonly key: string;
}

/**
 * Writes an effect into the outbox with the COMMIT of this transaction: it exists exactly when that has happened, and a
 * worker delivers it afterwards. Of work that is rolled back, released, or whose writes are undone, nothing is delivered;
 * work that runs again enqueues again.
 *
 * @throws {TypeError} outside a transaction; when the input has no JSON form, the effect is another latchkey's or an option
 * is out of range; and from the 1,001st effect of one transaction on.
 */
export type Enqueue = <I, R>(effect: Effect<I, R>, input: I, options?: EnqueueOptions) => Enqueued;

/** An attempt that runs in transactions of its record's database. */
export interface EnqueuingAttempt extends Attempt {
  /** Where its record is, as the store knows it: under `keySecret` the key is its hash. */
  readonly record: RecordKey;
  readonly enqueue: Enqueue;
}

/** What a handler is given beside the framework's own arguments. */
export type HandlerContext<Tx, E extends Execution> = E extends "transaction"
  ? { readonly tx: Tx; readonly attempt: EnqueuingAttempt }
  : { readonly attempt: Attempt };

/** A request, as admission needs it. */
export interface Submission {
  readonly key: RecordKey;
  /** The client's key, where `key` has another: null is none. Default: that of `key`. */
  readonly clientKey?: string | null;
  readonly fingerprint: Fingerprint;
  readonly principal: string | null;
  /** Whether a life that it begins under a lease can be read by its id, for a status resource. Default false. */
  readonly addressable?: boolean;
  /** What is kept with a new life for people who support its sender. Absent: nothing. */
  readonly summarize?: () => RequestSummary;
}

/**
 * Runs the handler once and captures its answer. It may be called again, after a rollback, and must then start from a
 * clean response.
 */
export type Work<Tx, E extends Execution = Execution> = (context: HandlerContext<Tx, E>) => Promise<Answer>;

/** How a submission ended. Errors of the handler itself are thrown. */
export type Result =
  /** The handler ran. `stored` is false when its answer was released or its outcome is unknown. */
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
      /** The span in which it was executed first, as a W3C traceparent. Absent: none was kept. */
      readonly trace?: string;
    }
  | { readonly kind: "timeout"; readonly recordId: string }
  /** A worker runs it, or will: its record says what becomes of it. */
  | { readonly kind: "accepted"; readonly recordId: string; readonly retryAfterMs: number }
  | { readonly kind: "in_progress"; readonly recordId: string | null; readonly retryAfterMs: number }
  | Misuse
  | { readonly kind: "unknown"; readonly recordId: string; readonly retryAfterMs: number | null }
  | { readonly kind: "expired" }
  /** A limit of the tenant's was reached; nothing ran and nothing was stored. */
  | { readonly kind: "too_many_keys"; readonly because: LimitName; readonly retryAfterMs: number }
  | { readonly kind: "commit_in_doubt"; readonly retryAfterMs: number };
