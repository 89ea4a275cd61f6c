import { describe, expect, test } from "vitest";
import { jsonText } from "./json-text.ts";

const depth = 20_000;

describe("the JSON of what was parsed", () => {
  test.each(['"text"', "null", "[]", "{}", '{"a":[1,"2",null,{"b":true}],"__proto__":{"c":[]}}'])(
    "is that of JSON.stringify: %s",
    (text) => {
      expect(jsonText(JSON.parse(text))).toBe(text);
    },
  );

  test.each([
    ["arrays", "[", "]", "1"],
    ["objects", '{"a":', "}", '{"b":[1,{"c":"d"}],"e":null}'],
  ])("is written at any depth: %s", (_, open, close, inside) => {
    const text = open.repeat(depth) + inside + close.repeat(depth);
    const parsed: unknown = JSON.parse(text);
    expect(() => JSON.stringify(parsed)).toThrow(RangeError);
    expect(jsonText(parsed)).toBe(text);
  });

  test("a long list inside a deep one is written, too", () => {
    const inside = JSON.stringify(Array.from({ length: 200_000 }, (_, at) => at));
    const text = "[".repeat(depth) + inside + "]".repeat(depth);
    expect(jsonText(JSON.parse(text))).toBe(text);
  });

  test("what has none is a mistake", () => {
    expect(() => jsonText(1n)).toThrow(TypeError);
  });
});
