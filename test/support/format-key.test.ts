import { expect, test } from "vitest";
import { formatKey } from "./format-key.ts";

test.each([
  ["k", '"k"'],
  ["a b,c;d", '"a b,c;d"'],
  ['a"b\\c', '"a\\"b\\\\c"'],
  ["", '""'],
])("%j is written as %s", (key, written) => {
  expect(formatKey(key)).toBe(written);
});

test.each(["\u0000", "a\nb", "\u007f", "ü", "\ud800"])("%j cannot be written", (key) => {
  expect(() => formatKey(key)).toThrow(TypeError);
});
