/** What RFC 9457 and Latchkey's contract ask of every problem body: the schema's rules and more, without the vectors. */
import type { Policy, ProblemCode } from "latchkey";

const members = ["type", "title", "status", "detail", "code", "retryable", "safe_new_key"];
const optional = ["operation_ref", "error"];
const stripeTypes: readonly unknown[] = ["idempotency_error", "invalid_request_error", "api_error"];

/** Where Stripe's API has a code of its own for a case. */
const stripeCodes: ReadonlyMap<unknown, string> = new Map([
  ["in-progress", "idempotency_key_in_use"],
  ["too-many-keys", "rate_limit"],
  ["not-found", "resource_missing"],
]);

/** What is wrong with `body`, sent with `status`, as the problem `code`. */
export function problemFaults(
  body: unknown,
  sent: { readonly status: number; readonly code: ProblemCode; readonly policy: Policy },
): readonly string[] {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return ["it is no JSON object"];
  const problem = body as Readonly<Record<string, unknown>>;
  if (sent.policy.problemForm === "acp") return acpFaults(problem);
  if (sent.policy.problemForm === "ucp") return ucpFaults(problem);
  const { type, title, status, detail, code, retryable, safe_new_key, operation_ref, error } = problem;
  const wrong: (readonly [boolean, string])[] = [
    [!isUri(type), "`type` is no URI"],
    [!isText(title), "`title` is no text"],
    [status !== sent.status, "`status` is not the one it was sent with"],
    [sent.status < 400 || sent.status > 599, "its status is none of an error"],
    [!isText(detail), "`detail` is no text"],
    [code !== sent.code, `\`code\` is not ${sent.code}`],
    [!String(type).endsWith(sent.code), "`type` does not name the code"],
    [typeof retryable !== "boolean", "`retryable` is no boolean"],
    [typeof safe_new_key !== "boolean", "`safe_new_key` is no boolean"],
    [operation_ref !== undefined && !isText(operation_ref), "`operation_ref` is no text"],
    [sent.policy.errorMember !== (error !== undefined), "`error` does not follow the policy"],
    [error !== undefined && !isStripeError(error, problem), "`error` is not in the form of Stripe's API"],
  ];
  const known = [...members, ...optional];
  return [
    ...members.filter((member) => !(member in problem)).map((member) => `\`${member}\` is missing`),
    ...Object.keys(problem)
      .filter((member) => !known.includes(member))
      .map((member) => `\`${member}\` is in no contract`),
    ...wrong.filter(([is]) => is).map(([, what]) => what),
  ];
}

const acpTypes: readonly unknown[] = ["invalid_request", "processing_error", "service_unavailable"];

/** The protocol's `Error` has these three members, one more that is about a field of the body, and no others. */
function acpFaults(problem: Readonly<Record<string, unknown>>): readonly string[] {
  const { type, code, message, ...others } = problem;
  return [
    ...(acpTypes.includes(type) ? [] : ["`type` is none of the protocol's"]),
    ...(isWord(code) ? [] : ["`code` is no word"]),
    ...(isText(message) ? [] : ["`message` is no text"]),
    ...Object.keys(others).map((member) => `\`${member}\` is in no contract`),
  ];
}

function ucpFaults(problem: Readonly<Record<string, unknown>>): readonly string[] {
  const { code, content, retryable, safe_new_key, operation_ref, ...others } = problem;
  return [
    ...(isWord(code) ? [] : ["`code` is no word"]),
    ...(isText(content) ? [] : ["`content` is no text"]),
    ...(typeof retryable === "boolean" && typeof safe_new_key === "boolean" ? [] : ["no advice"]),
    ...(operation_ref === undefined || isText(operation_ref) ? [] : ["`operation_ref` is no text"]),
    ...Object.keys(others).map((member) => `\`${member}\` is in no contract`),
  ];
}

function isWord(value: unknown): boolean {
  return typeof value === "string" && /^[a-z]+(?:_[a-z]+)*$/u.test(value);
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "";
}

/** Absolute: a relative reference would mean another problem on every route. Of the characters of RFC 3986 alone. */
function isUri(value: unknown): boolean {
  return typeof value === "string" && /^[a-z][a-z0-9+.-]*:[\w.~:/?#[\]@!$&'()*+,;=%-]+$/iu.test(value);
}

function isStripeError(error: unknown, problem: Readonly<Record<string, unknown>>): boolean {
  if (typeof error !== "object" || error === null || Object.keys(error).length !== 3) return false;
  const { type, code, message } = error as Readonly<Record<string, unknown>>;
  const own = stripeCodes.get(problem.code) ?? problem.code;
  return stripeTypes.includes(type) && code === own && message === problem.detail;
}
