import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeFields, type Field } from "./length-prefixed.ts";

function hex(fields: readonly Field[]): string {
  return Buffer.concat(encodeFields(fields)).toString("hex");
}

test("tag, 32-bit length, content", () => {
  expect(hex(["aé"])).toBe("740000000361c3a9");
  expect(hex([Uint8Array.of(0, 255)])).toBe("620000000200ff");
  expect(hex([null])).toBe("6e00000000");
  expect(hex([["a"], []])).toBe("6c000000017400000001616c00000000");
  expect(hex(["\ud800"])).toBe("750000000200d8");
});

test.each<[Field[], Field[]]>([
  [
    ["a|b", "c"],
    ["a", "b|c"],
  ],
  [
    ["ab", "c"],
    ["a", "bc"],
  ],
  [["a", ""], ["a"]],
  [[""], [null]],
  [[""], [[]]],
  [["a"], [Uint8Array.of(0x61)]],
  [[["a", "b"]], [["a"], "b"]],
  [["\ud800"], ["\ufffd"]],
  [["\ud800"], ["\ud801"]],
])("%j and %j differ", (left, right) => {
  expect(hex(left)).not.toBe(hex(right));
});

test("different fields have different bytes", () => {
  const { field } = fc.letrec<{ field: Field }>((tie) => ({
    field: fc.oneof(
      { maxDepth: 3 },
      fc.string({ unit: fc.constantFrom("a", "\u0000", "\ud800", "\ufffd", "t"), maxLength: 3 }),
      fc.uint8Array({ maxLength: 3, max: 2 }),
      fc.constant(null),
      fc.array(tie("field"), { maxLength: 3 }),
    ),
  }));
  const text = (value: Field): string =>
    value instanceof Uint8Array
      ? `bytes(${value.join()})`
      : Array.isArray(value)
        ? `[${value.map(text).join()}]`
        : JSON.stringify(value);
  fc.assert(
    fc.property(fc.array(field, { maxLength: 4 }), fc.array(field, { maxLength: 4 }), (left, right) => {
      expect(hex(left) === hex(right)).toBe(text(left) === text(right));
    }),
    { numRuns: 1000 },
  );
});
