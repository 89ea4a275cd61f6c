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
  /** What a key may look like. An adapter's own `key` option wins, member by member. See `ParseKeyOptions`. */
  readonly keyForm: { readonly syntax: "compat" | "strict" | "opaque"; readonly minLength: number };
  /** What a key is unique in. An operation's own `keyScope` wins. */
  readonly keyScope: "operation" | "tenant" | "path";
  /** How a body is compared with the first one. An adapter's own `fingerprint` wins. */
  readonly body: "auto" | "raw";
  /** The methods that a mount over a whole app protects. An adapter's own `methods` wins. */
  readonly methods: readonly string[];
  /** How long an answer can be replayed, in milliseconds. An operation's own `retentionMs` wins. */
  readonly retentionMs: number;
  /** Send the key back with every answer. An adapter's own `echoKey` wins. */
  readonly echoKey: boolean;
  /** Statuses that differ from the default of the problem's code. */
  readonly statuses: Readonly<Partial<Record<ProblemCode, number>>>;
  /** What a key does between the end of retention and being forgotten. */
  readonly reuse: "reject" | "execute";
  readonly serverErrors: ServerErrors;
  /** Send `Stripe-Should-Retry` and `X-Should-Retry` with problem bodies. An adapter's own option wins. */
  readonly shouldRetryHeaders: boolean;
  /** Give problem bodies the member `error` in the form of Stripe's API, without which its clients see no error. */
  readonly errorMember: boolean;
  /**
   * What a problem's body looks like: RFC 9457, or the error object of the Agentic Commerce Protocol or of the Universal
   * Commerce Protocol. An adapter's own `renderProblem` wins.
   */
  readonly problemForm: "rfc9457" | "acp" | "ucp";
}

/** 24 hours. */
export const dayMs = 24 * 60 * 60 * 1000;
