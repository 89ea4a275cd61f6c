/** Problem bodies (RFC 9457) and the headers that go with them. */
import type { Policy, ProblemCode } from "../../operations/policies/policy.ts";
import type { HeaderEntry, Reply } from "./capture.ts";
import { renderAcp, renderUcp } from "./commerce-forms.ts";
import { problemTypes } from "./problem-types.ts";

/** Latchkey has no site of its own to point to; this page says what the header means. */
export const headerSpecification =
  "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/";

/** An answer that Latchkey gives in a handler's place, as its JSON body says it. */
export interface Problem {
  /** Identifies the kind of problem: `problemBase` and the code. */
  readonly type: string;
  readonly title: string;
  readonly status: number;
  /** For people; programs read `code`. */
  readonly detail: string;
  readonly code: ProblemCode;
  /** Whether the same request with the same key may be sent again. */
  readonly retryable: boolean;
  /** Whether a new key is safe. Where it is false, the request could take effect twice. */
  readonly safe_new_key: boolean;
  /** Id of the record it is about; only ever shown to the record's own caller. */
  readonly operation_ref?: string;
  /** The same in the form of Stripe's API; under policies with `errorMember`. */
  readonly error?: StripeError;
}

/** What clients of Stripe's API look for in a body; they take one without it for a result, whatever its status. */
export interface StripeError {
  readonly type: StripeErrorType;
  /** Stripe's own code where it has one for the case (`idempotency_key_in_use`, `rate_limit`, `resource_missing`), else the problem's. */
  readonly code: string;
  readonly message: string;
}

export type StripeErrorType = "idempotency_error" | "invalid_request_error" | "api_error";

/** A problem in the service's own envelope. */
export interface RenderedProblem {
  readonly body: string | Uint8Array;
  readonly contentType: string;
}

/** What is known about one occurrence. */
export interface Occurrence {
  /** More exact than the detail of the kind. */
  readonly detail?: string;
  /** What is known of this occurrence, where its kind has to be careful. */
  readonly safeNewKey?: boolean;
  readonly operationRef?: string | null;
  /** When to ask again; sent as whole seconds, at least 1. */
  readonly retryAfterMs?: number | null;
}

export interface ProblemSettings {
  readonly problemBase: string;
  readonly problemDocs: string;
  readonly renderProblem: ((problem: Problem) => RenderedProblem) | null;
  /** Null: as the policy says. */
  readonly shouldRetryHeaders: boolean | null;
}

/** The answer for a problem. */
export function problemReply(
  code: ProblemCode,
  occurrence: Occurrence,
  policy: Policy,
  settings: ProblemSettings,
): Reply {
  const problem = describe(code, occurrence, policy, settings);
  const { body, contentType } = (settings.renderProblem ?? forms[policy.problemForm])(problem);
  const { retryAfterMs } = occurrence;
  const headers: HeaderEntry[] = [
    ["Content-Type", contentType],
    ["Cache-Control", "no-store"],
    ["Link", `<${docsAddress(settings.problemDocs, code)}>; rel="describedby"`],
  ];
  if (typeof retryAfterMs === "number") headers.push(["Retry-After", wholeSeconds(retryAfterMs)]);
  headers.push(...shouldRetryHeaders(problem.retryable, policy, settings));
  return {
    status: problem.status,
    headers,
    body: typeof body === "string" ? Buffer.from(body, "utf8") : body,
  };
}

/** The headers by which clients of Stripe's and OpenAI's families learn whether to retry, where they are wanted. */
export function shouldRetryHeaders(
  retryable: boolean,
  policy: Policy,
  settings: Pick<ProblemSettings, "shouldRetryHeaders">,
): readonly HeaderEntry[] {
  if (!(settings.shouldRetryHeaders ?? policy.shouldRetryHeaders)) return [];
  return [
    ["Stripe-Should-Retry", String(retryable)],
    ["X-Should-Retry", String(retryable)],
  ];
}

function describe(
  code: ProblemCode,
  occurrence: Occurrence,
  policy: Policy,
  settings: ProblemSettings,
): Problem {
  const kind = problemTypes[code];
  const { operationRef } = occurrence;
  const detail = occurrence.detail ?? kind.detail;
  return {
    type: `${settings.problemBase}${code}`,
    title: kind.title,
    status: policy.statuses[code] ?? kind.status,
    detail,
    code,
    retryable: kind.retryable,
    safe_new_key: occurrence.safeNewKey ?? kind.safeNewKey,
    ...(typeof operationRef === "string" ? { operation_ref: operationRef } : {}),
    ...(policy.errorMember ? { error: stripeError(code, detail) } : {}),
  };
}

/** Stripe's own words where it has one for the case: its clients look for them. Elsewhere the nearest type, and our code. */
const stripeErrors: Readonly<Record<ProblemCode, readonly [type: StripeErrorType, code?: string]>> = {
  "missing-key": ["invalid_request_error"],
  "invalid-key": ["invalid_request_error"],
  "key-misuse": ["idempotency_error"],
  "in-progress": ["invalid_request_error", "idempotency_key_in_use"],
  "outcome-unknown": ["api_error"],
  "commit-in-doubt": ["api_error"],
  timeout: ["api_error"],
  expired: ["invalid_request_error"],
  "answer-not-stored": ["api_error"],
  "request-too-old": ["invalid_request_error"],
  "invalid-request-date": ["invalid_request_error"],
  "payload-too-large": ["invalid_request_error"],
  "too-many-keys": ["invalid_request_error", "rate_limit"],
  "not-found": ["invalid_request_error", "resource_missing"],
  "store-unavailable": ["api_error"],
};

function stripeError(problem: ProblemCode, message: string): StripeError {
  const [type, code = problem] = stripeErrors[problem];
  return { type, code, message };
}

/** How each form of a policy is written. */
const forms: Readonly<Record<Policy["problemForm"], (problem: Problem) => RenderedProblem>> = {
  rfc9457: renderStandard,
  acp: renderAcp,
  ucp: renderUcp,
};

function renderStandard(problem: Problem): RenderedProblem {
  return { body: JSON.stringify(problem), contentType: "application/problem+json" };
}

/** The address of the documentation of one problem. */
function docsAddress(problemDocs: string, code: ProblemCode): string {
  return problemDocs === headerSpecification ? problemDocs : `${problemDocs}${code}`;
}

/** `Retry-After: 0` makes clients hammer; the smallest wait is a second. */
export function wholeSeconds(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1000)));
}
