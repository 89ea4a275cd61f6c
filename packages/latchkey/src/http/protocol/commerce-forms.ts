/** Problem bodies of the two commerce protocols for agents, whose clients expect their own form. */
import type { ProblemCode } from "../../operations/policies/policy.ts";

/** The part of a problem that both forms use. */
interface Described {
  readonly code: ProblemCode;
  readonly detail: string;
  readonly retryable: boolean;
  readonly safe_new_key: boolean;
  readonly operation_ref?: string;
}

interface Rendered {
  readonly body: string;
  readonly contentType: string;
}

/** The `Error` of the Agentic Commerce Protocol, which allows no other members. */
export interface AcpError {
  readonly type: "invalid_request" | "processing_error" | "service_unavailable";
  readonly code: string;
  readonly message: string;
}

/** A protocol error of the Universal Commerce Protocol: `code`, `content`, and members that a client may act on. */
export interface UcpError extends Omit<Described, "code" | "detail"> {
  readonly code: string;
  readonly content: string;
}

/** The first three codes are the Agentic Commerce Protocol's; neither protocol defines codes for the others. */
const words: Readonly<Record<ProblemCode, readonly [code: string, type?: AcpError["type"]]>> = {
  "missing-key": ["idempotency_key_required"],
  "key-misuse": ["idempotency_conflict"],
  "in-progress": ["idempotency_in_flight"],
  "invalid-key": ["idempotency_key_invalid"],
  "outcome-unknown": ["idempotency_outcome_unknown", "processing_error"],
  "commit-in-doubt": ["idempotency_outcome_unconfirmed", "service_unavailable"],
  timeout: ["request_not_started", "processing_error"],
  expired: ["idempotency_key_expired"],
  "answer-not-stored": ["idempotency_answer_not_stored", "processing_error"],
  "request-too-old": ["request_too_old"],
  "invalid-request-date": ["invalid_request_date"],
  "payload-too-large": ["payload_too_large"],
  "too-many-keys": ["too_many_requests", "service_unavailable"],
  "not-found": ["not_found"],
  "store-unavailable": ["idempotency_unavailable", "service_unavailable"],
};

export function renderAcp({ code, detail }: Described): Rendered {
  const [word, type = "invalid_request"] = words[code];
  return asJson({ type, code: word, message: detail } satisfies AcpError);
}

export function renderUcp({ code, detail, retryable, safe_new_key, operation_ref }: Described): Rendered {
  const [word] = words[code];
  const reference = operation_ref === undefined ? {} : { operation_ref };
  return asJson({ code: word, content: detail, retryable, safe_new_key, ...reference } satisfies UcpError);
}

function asJson(body: object): Rendered {
  return { body: JSON.stringify(body), contentType: "application/json" };
}
