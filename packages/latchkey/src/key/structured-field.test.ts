import fc from "fast-check";
import { expect, test } from "vitest";
import { anyText } from "../../../../test/support/text.ts";
import { type BareItem, parseItem } from "./structured-field.ts";

function bareItemOf(input: string): BareItem | null {
  const result = parseItem(input);
  return result.ok ? result.item.value : null;
}

test.each<[string, BareItem]>([
  ['"foo bar"', { type: "string", value: "foo bar" }],
  ['  "foo"  ', { type: "string", value: "foo" }],
  ['"a\\"b\\\\c"', { type: "string", value: 'a"b\\c' }],
  ['""', { type: "string", value: "" }],
  ["42", { type: "integer", value: 42 }],
  ["-0", { type: "integer", value: 0 }],
  ["999999999999999", { type: "integer", value: 999_999_999_999_999 }],
  ["-1.250", { type: "decimal", value: -1.25 }],
  ["*a/b:c", { type: "token", value: "*a/b:c" }],
  [":AQID:", { type: "bytes", value: Uint8Array.of(1, 2, 3) }],
  ["?1", { type: "boolean", value: true }],
  ["@-1659578233", { type: "date", value: -1_659_578_233 }],
  ['%"f%c3%bc%22"', { type: "display-string", value: 'fü"' }],
])("parses %s", (input, value) => {
  expect(bareItemOf(input)).toEqual(value);
});

test.each([
  "",
  " ",
  '\t"a"',
  '"a"\t',
  '"a" ;b',
  '"a", "b"',
  '"a"x',
  '"a',
  '"a\\',
  '"a\\,"',
  '"\u0000"',
  '"ü"',
  "'a'",
  "8e03978e-40d5-43dd-bc93-6894a57f9324",
  "1234567890123456",
  "1.",
  "1.1234",
  "1234567890123.1",
  "-",
  "?2",
  "?",
  ":a:",
  ":=YQ:",
  ":YQ=:",
  ":YWI==:",
  ":YQ======:",
  ":====:",
  ":YQ==",
  "@1.5",
  '%"%C3%BC"',
  '%"%c3"',
  "(1 2)",
  '"a";',
  '"a";B=1',
  '"a";b=',
  '"a";b="',
  '"a";b=(1)',
])("refuses %j", (input) => {
  expect(parseItem(input)).toEqual({ ok: false, detail: expect.stringMatching(/./) });
});

test("keeps parameters in the order of first appearance, with the last value of a repeated name", () => {
  const result = parseItem('"k"; b=1;a="x,y";*c.-_9;  b=:AQ:;d=%"e";f=?0;g=@1;h=1.5;i=t');
  expect(result.ok && result.item.value).toEqual({ type: "string", value: "k" });
  expect(result.ok && [...result.item.parameters]).toEqual([
    ["b", { type: "bytes", value: Uint8Array.of(1) }],
    ["a", { type: "string", value: "x,y" }],
    ["*c.-_9", { type: "boolean", value: true }],
    ["d", { type: "display-string", value: "e" }],
    ["f", { type: "boolean", value: false }],
    ["g", { type: "date", value: 1 }],
    ["h", { type: "decimal", value: 1.5 }],
    ["i", { type: "token", value: "t" }],
  ]);
});

test("the reason never quotes the input", () => {
  const result = parseItem('"canary-4711');
  expect(result.ok ? "" : result.detail).not.toContain("canary");
});

test("any text of any bytes is parsed or refused, never thrown on", () => {
  const latin1 = fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
  });
  const nearMiss = fc.string({ unit: fc.constantFrom(...'"\\;=,: %?@*a1-.c3\t\u00fc') });
  fc.assert(
    fc.property(fc.oneof(latin1, nearMiss, anyText()), (input) => {
      expect(typeof parseItem(input).ok).toBe("boolean");
    }),
    { numRuns: 2000 },
  );
});

test("every byte sequence and every printable text survives writing and parsing", () => {
  const printable = fc.string({ unit: "grapheme-ascii" });
  fc.assert(
    fc.property(fc.uint8Array(), printable, (bytes, text) => {
      expect(bareItemOf(`:${Buffer.from(bytes).toString("base64")}:`)).toEqual({
        type: "bytes",
        value: new Uint8Array(bytes),
      });
      const quoted = `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
      expect(bareItemOf(quoted)).toEqual({ type: "string", value: text });
    }),
  );
});
