import { describe, expect, test } from "vitest";
import { answerOfRun, failureAnswer, valueOfAnswer } from "./answer-of-run.ts";

describe("the answer of run", () => {
  test("is JSON, with its type", () => {
    const answer = answerOfRun({ status: 201, headers: { Location: "/1" }, body: { a: 1 } });
    expect(answer).toEqual({
      status: 201,
      headers: [
        ["Location", "/1"],
        ["Content-Type", "application/json"],
      ],
      body: Buffer.from('{"a":1}'),
      omitted: null,
    });
    expect(valueOfAnswer(answer)).toEqual({ a: 1 });
  });

  test("may be nothing, null, or bytes of a type of their own", () => {
    expect(answerOfRun({})).toEqual({ status: 200, headers: [], body: Buffer.alloc(0), omitted: null });
    expect(valueOfAnswer(answerOfRun({}))).toBeUndefined();
    expect(valueOfAnswer(answerOfRun({ body: null }))).toBeNull();
    const bytes = new Uint8Array([0, 255]);
    const answer = answerOfRun({ headers: { "content-type": "application/x" }, body: bytes });
    bytes[0] = 1;
    expect(valueOfAnswer(answer)).toEqual(new Uint8Array([0, 255]));
    expect(
      valueOfAnswer(answerOfRun({ headers: { "Content-Type": "application/a+json; v=1" }, body: 1 })),
    ).toBe(1);
  });

  test("sends a list as one line per value", () => {
    expect(answerOfRun({ headers: { Link: ["<a>", "<b>"] } }).headers).toEqual([
      ["Link", "<a>"],
      ["Link", "<b>"],
    ]);
  });

  test.each([
    [null],
    ["text"],
    [{ status: 199 }],
    [{ status: 600 }],
    [{ status: 200.5 }],
    [{ status: "200" }],
    [{ headers: { "a b": "c" } }],
    [{ headers: { "": "c" } }],
    [{ headers: { a: "c\r\nset-cookie: x" } }],
    [{ headers: { a: "\u20ac" } }],
    [{ headers: { "Content-Length": "3" } }],
    [{ body: new Uint8Array(1) }],
    [{ body: () => 1 }],
  ])("is refused: %j", (given) => {
    expect(() => answerOfRun(given as never)).toThrow(TypeError);
  });
});

test("a final failure is a problem with status 502, after which a new key is safe", () => {
  const answer = failureAnswer("closed-downstream", "why", { safeNewKey: true });
  expect(answer).toMatchObject({ status: 502, headers: [["Content-Type", "application/problem+json"]] });
  expect(valueOfAnswer(answer)).toMatchObject({
    status: 502,
    code: "closed-downstream",
    detail: "why",
    retryable: false,
    safe_new_key: true,
  });
});
