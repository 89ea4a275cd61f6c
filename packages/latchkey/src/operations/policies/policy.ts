/** The policy contract: where published practices disagree, a policy names the choice. */
import type { ServerErrors } from "../../engine/classify.ts";

/** The codes of the problem bodies that Latchkey sends: docs/errors.md. */
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
  /** Whether a protected route refuses a request without a key or runs it unprotected. A route's own `key` option wins. */
  readonly key: "required" | "optional";
  /** The accepted form of a key. An adapter's own `key` option wins, member by member. See `ParseKeyOptions`. */
  readonly keyForm: { readonly syntax: "compat" | "strict" | "opaque"; readonly minLength: number };
  /** The scope in which a key is unique. An operation's own `keyScope` wins. */
  readonly keyScope: "operation" | "tenant" | "path";
  /** How a body is compared with the first one. An adapter's own `fingerprint` wins. */
  readonly body: "auto" | "raw";
  /** The methods that are protected if the whole app is mounted. An adapter's own `methods` wins. */
  readonly methods: readonly string[];
  /** How long an answer can be replayed, in milliseconds. An operation's own `retentionMs` wins. */
  readonly retentionMs: number;
  /** Send the key back with every answer. An adapter's own `echoKey` wins. */
  readonly echoKey: boolean;
  /** Statuses that differ from the default of the problem's code. */
  readonly statuses: Readonly<Partial<Record<ProblemCode, number>>>;
  /** How a key is treated between the end of its retention and being forgotten. */
  readonly reuse: "reject" | "execute";
  readonly serverErrors: ServerErrors;
  /** Send `Stripe-Should-Retry` and `X-Should-Retry` with problem bodies. An adapter's own option wins. */
  readonly shouldRetryHeaders: boolean;
  /** Add the member `error` to problem bodies, in the form of Stripe's API, without which its clients see no error. */
  readonly errorMember: boolean;
  /**
   * The form of a problem's body: RFC 9457, or the error object of the Agentic Commerce Protocol or of the Universal Commerce
   * Protocol. An adapter's own `renderProblem` wins.
   */
  readonly problemForm: "rfc9457" | "acp" | "ucp";
}

/** 24 hours. */
export const dayMs = 24 * 60 * 60 * 1000;
