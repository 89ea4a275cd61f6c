/** The types of a `transaction` submission: its job, its rounds, and what becomes of the work. */
import type { Decision, GiveUpReason } from "../../engine/decide.ts";
import type { Guard } from "../../engine/record.ts";
import type { Answer } from "../../operations/answer.ts";
import type { Result, Work } from "../../operations/attempt.ts";
import type { Operation } from "../../operations/operation.ts";
import type { NewLife } from "../../stores/life.ts";
import type { Retention } from "../../stores/retention.ts";
import type { TransactionSupport } from "../../stores/transactions.ts";
import type { CountNewKey } from "../admission.ts";
import type { Submitted } from "../attempt-span.ts";
import type { Runtime } from "../runtime.ts";

/** The life that a handler was started for. */
export interface AdmittedLife {
  readonly life: NewLife;
  readonly replaces: Guard | null;
}

/** The value of the transaction's work, whatever happens to the transaction. */
export type Ran =
  | { readonly kind: "decided"; readonly decision: Decision; readonly now: number }
  | { readonly kind: "dead_lease"; readonly guard: Guard; readonly because: GiveUpReason }
  | { readonly kind: "limited"; readonly result: Result }
  /** Only an ordinary admission can handle the record's state. */
  | { readonly kind: "again" }
  /** The record has had attempts: it is not known yet whether it has steps. */
  | { readonly kind: "retried"; readonly admittedLife: AdmittedLife; readonly guard: Guard }
  | { readonly kind: "threw"; readonly error: unknown }
  | (AdmittedLife & {
      readonly kind: "answered";
      readonly answer: Answer;
      /** Whether effects commit with it. */
      readonly enqueued: boolean;
      /** From its COMMIT on. */
      readonly retention: Retention;
    });

export type AnsweredRan = Extract<Ran, { readonly kind: "answered" }>;

export interface Job<Tx> {
  readonly runtime: Runtime<Tx>;
  readonly operation: Operation;
  readonly submission: Submitted;
  readonly support: TransactionSupport<Tx>;
  readonly work: Work<Tx, "transaction">;
  /** Counts the key as new, once for each submission, even if its transaction starts over. */
  readonly countNewKey: CountNewKey;
  /** The last retried record that was found to have no steps. */
  readonly stepless: { guard: Guard | null };
  /** Called when the handler is about to run. */
  readonly onHandlerStart: () => void;
  /** Whether the next round may start its handler before admission: the first round, if the operation allows it. */
  readonly optimistic: { next: boolean };
  /** Shares the transaction of this round with other submissions; null: it has its own. */
  readonly batches: SharedRounds<Tx> | null;
}

/** Lets the first rounds of several submissions share transactions. */
export interface SharedRounds<Tx> {
  /** Null: it continues in its own transactions. Throws the same errors as a round in a transaction of its own. */
  round(job: Job<Tx>): Promise<Round>;
  /** @throws {StoreError} `not_sent` if none of them may run again. */
  requireOpen(): void;
}

/** `null`: there is no result yet; start over. */
export type Round = Result | null;

/** What a round knows that its transaction itself cannot return. */
export interface RoundState {
  /** Set when a handler's run is admitted. */
  admitted: AdmittedLife | null;
  /** On the process's monotonic clock. */
  readonly startedAtMs: number;
  /** The outcome of a COMMIT in doubt that the round shares; absent: the round finds it out. */
  resolved?: Promise<ResolvedCommit>;
}

/** What is known about a COMMIT whose answer was lost. */
export type ResolvedCommit = "committed" | "rolled_back" | "in_doubt";
