import fc from "fast-check";
import { ietf, type Policy, type Problem, type ProblemCode, stripe } from "latchkey";
import { describe, expect, test } from "vitest";
import { resolveHttpOptions } from "../../packages/latchkey/src/http/protocol/http-options.ts";
import { type Occurrence, problemReply } from "../../packages/latchkey/src/http/protocol/problem.ts";
import { problemTypes } from "../../packages/latchkey/src/http/protocol/problem-types.ts";
import { problemFaults } from "../support/problem-rules.ts";
import { anyText } from "../support/text.ts";
import { problemSchema } from "./problem-schema.ts";

const schema = problemSchema();
const codes = Object.keys(problemTypes) as ProblemCode[];
const policies: readonly Policy[] = [ietf, stripe];
/** The status of an answer that is a tombstone's own, and no problem body. */
const problemCodes = codes.filter((code) => code !== "answer-not-stored");
const bases = ["urn:latchkey:problem:", "https://api.example/problems#", "tag:api.example,2026:"];

function bodyOf(code: ProblemCode, policy: Policy, problemBase: string, occurrence: Occurrence = {}) {
  const { rules } = resolveHttpOptions({ singleTenant: true, problemBase });
  const { status, body } = problemReply(code, occurrence, policy, rules);
  return { status, problem: JSON.parse(Buffer.from(body).toString("utf8")) as Problem };
}

const each = problemCodes.flatMap((code) =>
  policies.flatMap((policy) => bases.map((base) => ({ code, policy, practice: policy.name, base }))),
);

describe("every problem body", () => {
  test.each(each)("$code under $practice at $base keeps the rules", ({ code, policy, base }) => {
    const { status, problem } = bodyOf(code, policy, base);
    expect(problemFaults(problem, { status, code, policy })).toEqual([]);
  });

  test.skipIf(schema === null).each(each)("$code under $practice at $base has the schema", (one) => {
    expect(schema?.(bodyOf(one.code, one.policy, one.base).problem)).toEqual([]);
  });

  test("keeps both, whatever an occurrence says", () => {
    const text = anyText({ minLength: 1 }).filter((value) => value.trim() !== "");
    const occurrence = fc.record({ detail: text, operationRef: text });
    const arbitrary = fc.tuple(fc.constantFrom(...problemCodes), fc.constantFrom(...policies), occurrence);
    fc.assert(
      fc.property(arbitrary, ([code, policy, details]) => {
        const { status, problem } = bodyOf(code, policy, "urn:latchkey:problem:", details);
        expect(problemFaults(problem, { status, code, policy })).toEqual([]);
        expect(schema?.(problem) ?? []).toEqual([]);
      }),
    );
  });
});

/** A body that is wrong in one thing each; the schema knows some of them. */
const wrong: readonly (readonly [what: string, change: Record<string, unknown>, bySchema: boolean])[] = [
  ["a status that is a text", { status: "422" }, true],
  ["a status that is no status", { status: 99 }, true],
  ["another status than it was sent with", { status: 400 }, false],
  ["a type with a space", { type: "urn:latchkey:problem: key-misuse" }, true],
  ["a relative type", { type: "key-misuse" }, false],
  ["a title that is a number", { title: 1 }, true],
  ["no title", { title: undefined }, false],
  ["no detail", { detail: undefined }, false],
  ["another code", { code: "in-progress" }, false],
  ["retryable as a text", { retryable: "false" }, false],
  ["an unknown member", { key: "k" }, false],
  ["an error where the policy has none", { error: {} }, false],
];

describe("the checks notice", () => {
  test.each(wrong)("%s", (_what, change, bySchema) => {
    const { status, problem } = bodyOf("key-misuse", ietf, "urn:latchkey:problem:");
    const broken: unknown = JSON.parse(JSON.stringify({ ...problem, ...change }));
    expect(problemFaults(broken, { status, code: "key-misuse", policy: ietf })).not.toEqual([]);
    if (schema !== null) expect(schema(broken).length > 0).toBe(bySchema);
  });

  test("an error that is not Stripe's", () => {
    const { status, problem } = bodyOf("key-misuse", stripe, "urn:latchkey:problem:");
    const sent = { status, code: "key-misuse", policy: stripe } as const;
    for (const error of [undefined, {}, { ...problem.error, type: "card_error" }]) {
      expect(problemFaults({ ...problem, error }, sent)).not.toEqual([]);
    }
  });
});
