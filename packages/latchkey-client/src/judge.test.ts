import { describe, expect, test } from "vitest";
import { problemReply } from "../../latchkey/src/http/protocol/problem.ts";
import { problemTypes } from "../../latchkey/src/http/protocol/problem-types.ts";
import { ietf } from "../../latchkey/src/operations/policies/ietf.ts";
import type { Policy, ProblemCode } from "../../latchkey/src/operations/policies/policy.ts";
import { stripe } from "../../latchkey/src/operations/policies/stripe.ts";
import { type Judgement, judge } from "./judge.ts";

const now = Date.parse("2026-11-25T12:00:00Z");
const judged = (status: number, headers: Record<string, string> = {}, body: unknown = null) =>
  judge({ status, headers: new Headers(headers), body }, now);
const seen = ({ outcome, retryable }: Judgement) => [outcome, retryable];

function problem(code: ProblemCode, policy: Policy, safeNewKey?: boolean) {
  const settings = {
    problemBase: "urn:",
    problemDocs: "urn:",
    renderProblem: null,
    shouldRetryHeaders: null,
  };
  const occurrence = { retryAfterMs: 2_000, ...(safeNewKey === undefined ? {} : { safeNewKey }) };
  const { status, headers, body } = problemReply(code, occurrence, policy, settings);
  return judge(
    {
      status,
      headers: new Headers(headers.map(([name, value]): [string, string] => [name, value])),
      body: JSON.parse(new TextDecoder().decode(body)),
    },
    now,
  );
}

/** That one has no problem body; it is an answer with a header. */
const { "answer-not-stored": _, ...withBodies } = problemTypes;
const codes = Object.keys(withBodies).filter((code): code is ProblemCode => code in problemTypes);

describe.each([
  ["ietf", ietf],
  ["stripe", stripe],
])("Latchkey's problems under the policy %s", (_name, policy) => {
  test.each(codes)("%s is judged by its members", (code) => {
    const { retryable, safeNewKey } = problemTypes[code];
    const outcome = safeNewKey ? "refused" : "open";
    expect(problem(code, policy)).toEqual({ outcome, retryable, retryAfterMs: 2_000 });
  });

  test("what is known of an occurrence counts more than its kind", () => {
    expect(seen(problem("key-misuse", policy, true))).toEqual(["refused", false]);
  });
});

describe("answers of servers that are not Latchkey", () => {
  test.each([200, 201, 204, 302])("%i is done", (status) => {
    expect(seen(judged(status))).toEqual(["done", false]);
  });

  test("202 is pending where it says at what address, and done where it does not", () => {
    expect(seen(judged(202, { Location: "/jobs/1" }))).toEqual(["pending", false]);
    expect(seen(judged(202))).toEqual(["done", false]);
  });

  test.each([400, 402, 404, 410, 422])("%i of the handler is refused", (status) => {
    expect(seen(judged(status, {}, { message: "no" }))).toEqual(["refused", false]);
  });

  test.each([401, 403, 501, 505])("%i is open, and is not sent again by itself", (status) => {
    expect(seen(judged(status))).toEqual(["open", false]);
  });

  test.each([408, 409, 425, 429, 500, 502, 503, 504])("%i is open, and is sent again", (status) => {
    expect(seen(judged(status))).toEqual(["open", true]);
  });

  test.each([
    [400, { title: "Idempotency-Key is missing" }],
    [422, { type: "https://api.example/idempotency", title: "Idempotency-Key is already used" }],
    [
      400,
      { error: { type: "idempotency_error", message: "Keys can only be used with the same parameters" } },
    ],
    [409, { code: "idempotency_conflict" }],
  ])("a problem about the key (%i) is open, and is not sent again", (status, body) => {
    expect(seen(judged(status, {}, body))).toEqual(["open", false]);
  });

  test.each([
    { title: "A request is outstanding for this Idempotency-Key" },
    { error: { type: "invalid_request_error", code: "idempotency_key_in_use" } },
  ])("409 while the first request runs is sent again: %j", (body) => {
    expect(seen(judged(409, {}, body))).toEqual(["open", true]);
  });

  test("a stored answer is final: asking again gives the same", () => {
    const replay = { "Idempotent-Replayed": "true" };
    expect(seen(judged(409, replay, { message: "taken" }))).toEqual(["refused", false]);
    expect(seen(judged(500, replay))).toEqual(["open", false]);
    expect(seen(judged(200, replay))).toEqual(["done", false]);
  });

  test.each(["Stripe-Should-Retry", "X-Should-Retry"])("%s decides whether to send again", (name) => {
    expect(seen(judged(409, { [name]: "false" }))).toEqual(["open", false]);
    expect(seen(judged(400, { [name]: "true" }))).toEqual(["open", true]);
  });

  test("members in an envelope of the service's own count, and what is no object does not harm", () => {
    expect(seen(judged(502, {}, { message: "declined", safe_new_key: true, retryable: false }))).toEqual([
      "refused",
      false,
    ]);
    for (const body of ["text", 7, null, [], { error: "text" }, { retryable: "yes" }]) {
      expect(seen(judged(503, {}, body))).toEqual(["open", true]);
    }
  });
});

describe("Retry-After", () => {
  const after = (headers: Record<string, string>) => judged(503, headers).retryAfterMs;

  test("seconds, or a date counted from the server's own clock", () => {
    expect(after({ "Retry-After": "3" })).toBe(3_000);
    const at = "Wed, 25 Nov 2026 12:00:10 GMT";
    expect(after({ "Retry-After": at })).toBe(10_000);
    expect(after({ "Retry-After": at, Date: "Wed, 25 Nov 2026 12:00:06 GMT" })).toBe(4_000);
    expect(after({ "Retry-After": at, Date: "Wed, 25 Nov 2026 12:00:20 GMT" })).toBe(0);
  });

  test.each(["", "soon", "-1", "1.5"])("%j is none", (value) => {
    expect(after({ "Retry-After": value })).toBeNull();
  });
});
