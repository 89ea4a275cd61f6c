/** Problem bodies (RFC 9457) and the headers that go with them. */
import type { Policy, ProblemCode } from "../../operations/policies/policy.ts";
import type { HeaderEntry, Reply } from "./capture.ts";
import { renderAcp, renderUcp } from "./commerce-forms.ts";
import { problemTypes } from "./problem-types.ts";

/** The default documentation: Latchkey has no site, and this page defines the header. */
export const headerSpecification =
  "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/";

/** The JSON body of an answer that Latchkey gives instead of the handler. */
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
  /** Whether a new key is safe. If false, the request could take effect twice. */
  readonly safe_new_key: boolean;
  /** Id of the record; only shown to the record's own caller. */
  readonly operation_ref?: string;
  /** The same in the form of Stripe's API, under policies with `errorMember`. */
  readonly error?: StripeError;
}

/** Clients of Stripe's API take a body without this member for a result, whatever its status. */
export interface StripeError {
  readonly type: StripeErrorType;
  /** Stripe's own code if it has one (`idempotency_key_in_use`, `rate_limit`, `resource_missing`), otherwise the problem's. */
  readonly code: string;
  readonly message: string;
}

export type StripeErrorType = "idempotency_error" | "invalid_request_error" | "api_error";

/** A problem in the service's own envelope. */
export interface RenderedProblem {
  readonly body: string | Uint8Array;
  readonly contentType: string;
}

/** The details of one occurrence. */
export interface Occurrence {
  /** Replaces the problem type's general detail. */
  readonly detail?: string;
  /** Replaces the problem type's cautious value. */
  readonly safeNewKey?: boolean;
  readonly operationRef?: string | null;
  /** How long to wait before a retry; sent as whole seconds, at least 1. */
  readonly retryAfterMs?: number | null;
}

export interface ProblemSettings {
  readonly problemBase: string;
  readonly problemDocs: string;
  readonly renderProblem: ((problem: Problem) => RenderedProblem) | null;
  /** Null: the policy decides. */
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

/** The headers that tell clients of Stripe's and OpenAI's families whether to retry, if the service sends them. */
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

/** Stripe's own type and code where it has one, because its clients look for them; otherwise the nearest type and our code. */
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

/** Renders each problem form of a policy. */
const forms: Readonly<Record<Policy["problemForm"], (problem: Problem) => RenderedProblem>> = {
  rfc9457: renderStandard,
  acp: renderAcp,
  ucp: renderUcp,
};

function renderStandard(problem: Problem): RenderedProblem {
  return { body: JSON.stringify(problem), contentType: "application/problem+json" };
}

/** The address of a problem's documentation. */
function docsAddress(problemDocs: string, code: ProblemCode): string {
  return problemDocs === headerSpecification ? problemDocs : `${problemDocs}${code}`;
}

/** At least 1: with `Retry-After: 0` clients retry in a tight loop. */
export function wholeSeconds(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1000)));
}
