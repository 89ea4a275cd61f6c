import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatHttpDate } from "./http-date.ts";
import { checkAgainstMemory, judgeAge, resolveRequestAge } from "./request-age.ts";

const now = Date.UTC(2026, 10, 21, 12, 0, 0);
const age = resolveRequestAge({ maxMs: 60_000, toleranceMs: 10_000 });
const judged = (...lines: string[]) => judgeAge(age, { lines, joined: false }, now);
const ago = (ms: number) => formatHttpDate(now - ms);

describe("a request's age", () => {
  test.each([
    [0, null],
    [60_000, null],
    [61_000, "request-too-old"],
    [86_400_000, "request-too-old"],
    [-10_000, null],
    [-11_000, "invalid-request-date"],
  ] as const)("first sent %i ms ago: %s", (ms, verdict) => {
    expect(judged(ago(ms))).toBe(verdict);
  });

  test("is accepted in one continuous span of time", () => {
    fc.assert(
      fc.property(fc.integer({ min: -200, max: 200 }), (seconds) => {
        const accepted = seconds >= -10 && seconds <= 60;
        expect(judged(ago(seconds * 1000)) === null).toBe(accepted);
      }),
    );
  });

  test("is refused if repeated, joined or malformed", () => {
    expect(judged(ago(0), ago(0))).toBe("invalid-request-date");
    expect(judged(`${ago(0)}, ${ago(0)}`)).toBe("invalid-request-date");
    expect(judged("")).toBe("invalid-request-date");
    expect(judged(new Date(now).toISOString())).toBe("invalid-request-date");
  });

  test("without the header there is no limit, unless it is required", () => {
    expect(judged()).toBeNull();
    const strict = resolveRequestAge({ maxMs: 1, required: true });
    expect(judgeAge(strict, { lines: [], joined: false }, now)).toBe("invalid-request-date");
  });
});

test.each([
  { maxMs: 0 },
  { maxMs: 1.5 },
  { maxMs: Number.POSITIVE_INFINITY },
  { maxMs: 1, toleranceMs: -1 },
  { maxMs: 1, toleranceMs: Number.NaN },
])("out of range: %j", (option) => {
  expect(() => resolveRequestAge(option)).toThrow(TypeError);
});

test("an operation that forgets keys earlier is refused", () => {
  expect(() => checkAgainstMemory(age, "a", 70_000)).not.toThrow();
  expect(() => checkAgainstMemory(age, "a", 69_999)).toThrow(/forgets keys/u);
});
