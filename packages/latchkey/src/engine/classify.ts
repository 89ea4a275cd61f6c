/** How an attempt that answered ends. Pure. */

export type Execution = "transaction" | "lease" | "deferred";

/** The executions under which a request runs its own work. */
export type DirectExecution = Exclude<Execution, "deferred">;

/**
 * What a 5xx answer means.
 * - `by-outcome`: a transaction is rolled back and its key released; under a lease the outcome is unknown.
 * - `store`: it is the answer, replayed like any other (Stripe v1); in a transaction the writes are undone.
 * - `release`: the key is released. Only for operations whose effects are undone by a 5xx.
 */
export type ServerErrors = "by-outcome" | "store" | "release";

export interface Answered {
  readonly execution: Execution;
  readonly status: number;
  /** The handler asked not to store its answer. */
  readonly declined: boolean;
  readonly serverErrors: ServerErrors;
}

export type Disposition =
  /** Commit the writes and store the answer. */
  | "keep"
  /** Undo the writes, store the answer. */
  | "keep_answer_only"
  /** Undo the writes (transaction) and free the key. */
  | "release"
  /** Something may have happened: the record becomes `unknown`. */
  | "doubt";

/** Statuses that mean "not now": they describe the moment, not the request, so a retry must run again. */
const transientStatuses: ReadonlySet<number> = new Set([408, 425, 429]);

export function classifyAnswer(answered: Answered): Disposition {
  if (answered.declined || transientStatuses.has(answered.status)) return "release";
  if (answered.status < 500) return "keep";
  switch (answered.serverErrors) {
    case "store":
      return answered.execution === "transaction" ? "keep_answer_only" : "keep";
    case "release":
      return "release";
    case "by-outcome":
      return answered.execution === "transaction" ? "release" : "doubt";
    default:
      return answered.serverErrors satisfies never;
  }
}
