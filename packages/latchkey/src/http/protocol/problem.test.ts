import { describe, expect, test } from "vitest";
import { ietf } from "../../operations/policies/ietf.ts";
import type { ProblemCode } from "../../operations/policies/policy.ts";
import { stripe } from "../../operations/policies/stripe.ts";
import type { Reply } from "./capture.ts";
import { resolveHttpOptions } from "./http-options.ts";
import { type Problem, problemReply } from "./problem.ts";
import { problemTypes } from "./problem-types.ts";

const codes = Object.keys(problemTypes) as ProblemCode[];
const settings = (options = {}) => resolveHttpOptions({ singleTenant: true, ...options }).rules;
const header = (reply: Reply, name: string) =>
  reply.headers.find(([each]) => each.toLowerCase() === name.toLowerCase())?.[1];
const body = (reply: Reply) => JSON.parse(Buffer.from(reply.body).toString("utf8"));

describe("problems", () => {
  test.each(codes)("%s has the members of RFC 9457 and of the HTTP contract", (code) => {
    const reply = problemReply(code, {}, ietf, settings());
    expect(reply.status).toBe(problemTypes[code].status);
    expect(body(reply)).toEqual({
      type: `urn:latchkey:problem:${code}`,
      title: problemTypes[code].title,
      status: reply.status,
      detail: problemTypes[code].detail,
      code,
      retryable: problemTypes[code].retryable,
      safe_new_key: problemTypes[code].safeNewKey,
    });
    expect(header(reply, "Content-Type")).toBe("application/problem+json");
    expect(header(reply, "Cache-Control")).toBe("no-store");
    expect(header(reply, "Link")).toMatch(/^<https:[^>]+>; rel="describedby"$/u);
    expect(header(reply, "Retry-After")).toBeUndefined();
  });

  /**
   * The table of the HTTP contract, once more by hand: status, retryable, safe_new_key (decision 015), status under Stripe's
   * practice.
   */
  test.each([
    ["missing-key", 400, false, true, 400],
    ["invalid-key", 400, false, true, 400],
    ["key-misuse", 422, false, false, 400],
    ["in-progress", 409, true, false, 409],
    ["outcome-unknown", 409, false, false, 409],
    ["commit-in-doubt", 503, true, false, 503],
    ["timeout", 408, false, true, 408],
    ["expired", 410, false, false, 410],
    ["request-too-old", 412, false, false, 412],
    ["invalid-request-date", 400, false, false, 400],
    ["payload-too-large", 413, false, true, 413],
    ["too-many-keys", 429, true, false, 429],
    ["not-found", 404, false, false, 404],
    ["store-unavailable", 503, true, false, 503],
  ] as const)("%s is %i", (code, status, retryable, safeNewKey, stripeStatus) => {
    const problem = body(problemReply(code, {}, ietf, settings()));
    expect([problem.status, problem.retryable, problem.safe_new_key]).toEqual([
      status,
      retryable,
      safeNewKey,
    ]);
    expect(problemReply(code, {}, stripe, settings()).status).toBe(stripeStatus);
  });

  test("Retry-After is whole seconds, at least one", () => {
    for (const [ms, seconds] of [
      [0, "1"],
      [1, "1"],
      [1000, "1"],
      [1001, "2"],
      [90_500, "91"],
    ] as const) {
      expect(header(problemReply("in-progress", { retryAfterMs: ms }, ietf, settings()), "Retry-After")).toBe(
        seconds,
      );
    }
    expect(
      header(problemReply("outcome-unknown", { retryAfterMs: null }, ietf, settings()), "Retry-After"),
    ).toBe(undefined);
  });

  test("an occurrence can have its own detail and a reference to the record", () => {
    const reply = problemReply(
      "in-progress",
      { detail: "Just now.", operationRef: "id-1" },
      ietf,
      settings(),
    );
    expect(body(reply)).toMatchObject({ detail: "Just now.", operation_ref: "id-1" });
    expect(body(problemReply("in-progress", { operationRef: null }, ietf, settings()))).not.toHaveProperty(
      "operation_ref",
    );
  });

  test("the service's choice about should-retry headers overrides the policy's", () => {
    const on = problemReply("outcome-unknown", {}, ietf, settings({ shouldRetryHeaders: true }));
    expect([header(on, "Stripe-Should-Retry"), header(on, "X-Should-Retry")]).toEqual(["false", "false"]);
    const off = problemReply("outcome-unknown", {}, stripe, settings({ shouldRetryHeaders: false }));
    expect(header(off, "X-Should-Retry")).toBeUndefined();
  });

  test("should-retry headers follow the policy", () => {
    const retry = problemReply("in-progress", {}, stripe, settings());
    expect([header(retry, "Stripe-Should-Retry"), header(retry, "X-Should-Retry")]).toEqual(["true", "true"]);
    const refuse = problemReply("key-misuse", {}, stripe, settings());
    expect([header(refuse, "Stripe-Should-Retry"), header(refuse, "X-Should-Retry")]).toEqual([
      "false",
      "false",
    ]);
    expect(header(problemReply("in-progress", {}, ietf, settings()), "X-Should-Retry")).toBeUndefined();
  });

  test.each([
    ["key-misuse", "idempotency_error", "key-misuse"],
    ["invalid-key", "invalid_request_error", "invalid-key"],
    ["in-progress", "invalid_request_error", "idempotency_key_in_use"],
    ["too-many-keys", "invalid_request_error", "rate_limit"],
    ["not-found", "invalid_request_error", "resource_missing"],
    ["store-unavailable", "api_error", "store-unavailable"],
  ] as const)("under Stripe's practice %s is also an %s with the code %s", (code, type, stripeCode) => {
    const problem = body(problemReply(code, { detail: "Now." }, stripe, settings()));
    expect(problem).toMatchObject({
      code,
      detail: "Now.",
      error: { type, code: stripeCode, message: "Now." },
    });
    const renderProblem = ({ error }: Problem) => ({
      body: JSON.stringify({ error }),
      contentType: "text/json",
    });
    const rendered = body(problemReply(code, { detail: "Now." }, stripe, settings({ renderProblem })));
    expect(rendered).toEqual({ error: { type, code: stripeCode, message: "Now." } });
  });

  test("type and documentation can have the service's own addresses", () => {
    const own = problemReply("expired", {}, ietf, settings({ problemBase: "https://api.example/problems#" }));
    expect(body(own).type).toBe("https://api.example/problems#expired");
    expect(header(own, "Link")).toBe('<https://api.example/problems#expired>; rel="describedby"');
    const apart = settings({ problemBase: "tag:api.example,2026:", problemDocs: "/docs/" });
    expect(header(problemReply("expired", {}, ietf, apart), "Link")).toBe(
      '</docs/expired>; rel="describedby"',
    );
  });

  test("the service's own format replaces only body and content type", () => {
    const renderProblem = () => ({ body: new Uint8Array([1, 2]), contentType: "application/octet-stream" });
    const reply = problemReply("in-progress", { retryAfterMs: 1 }, ietf, settings({ renderProblem }));
    expect([reply.status, header(reply, "Content-Type"), header(reply, "Retry-After")]).toEqual([
      409,
      "application/octet-stream",
      "1",
    ]);
    expect(reply.body).toEqual(new Uint8Array([1, 2]));
  });
});
