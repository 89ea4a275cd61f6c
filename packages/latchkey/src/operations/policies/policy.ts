/** The policy contract: where published practices disagree, a policy names the choice. */
import type { ServerErrors } from "../../engine/classify.ts";

/** The codes of the problem bodies Latchkey answers with (spec: HTTP behaviour). */
export type ProblemCode =
  | "missing-key"
  | "invalid-key"
  | "key-misuse"
  | "in-progress"
  | "outcome-unknown"
  | "commit-in-doubt"
  | "timeout"
  | "expired"
  | "answer-not-stored"
  | "request-too-old"
  | "invalid-request-date"
  | "payload-too-large"
  | "too-many-keys"
  | "not-found"
  | "store-unavailable";

export interface Policy {
  readonly name: string;
  /** What a protected route does without a key: refuse, or run unprotected. A route's own `key` option wins. */
  readonly key: "required" | "optional";
  /** Statuses that differ from the default of the problem's code. */
  readonly statuses: Readonly<Partial<Record<ProblemCode, number>>>;
  /** What a key does between the end of retention and being forgotten. */
  readonly reuse: "reject" | "execute";
  readonly serverErrors: ServerErrors;
  /** Send `Stripe-Should-Retry` and `X-Should-Retry` with problem bodies. An adapter's own option wins. */
  readonly shouldRetryHeaders: boolean;
  /** Give problem bodies the member `error` in the form of Stripe's API, without which its clients see no error. */
  readonly errorMember: boolean;
}
