import fc from "fast-check";
import { expect, test } from "vitest";
import { parseJsonTree, writeCanonical } from "./json-tree.ts";
import { plainCanonical as plainBytes } from "./plain-json.ts";

function plainCanonical(text: string, maxDepth: number): string | null {
  const bytes = plainBytes(Buffer.from(text), maxDepth);
  return bytes === null ? null : Buffer.from(bytes).toString();
}

/** What the tree makes of a text; null where it has no canonical form. */
function fromTree(text: string, maxDepth = 512): string | null {
  const tree = parseJsonTree(text, maxDepth);
  return tree.ok ? writeCanonical(tree.root) : null;
}

test.each([
  ['{"account":1,"item":"book","amount":42}', '{"account":1,"amount":42,"item":"book"}'],
  [' { "b" : [ ] , "a" : { } } ', '{"a":{},"b":[]}'],
  ["[true,false,null,-7,0,19.99,1.50]", "[true,false,null,-7,0,19.99,1.5]"],
  ['{"aa":1,"a!":2,"a":3,"":4}', '{"":4,"a":3,"a!":2,"aa":1}'],
  ['"\\"\\\\\\b\\f\\n\\r\\t"', '"\\"\\\\\\b\\f\\n\\r\\t"'],
  ['{"é":"€"}', '{"é":"€"}'],
  ["123456789012345", "123456789012345"],
])("%s is plain", (text, canonical) => {
  expect(plainCanonical(text, 512)).toBe(canonical);
  expect(fromTree(text)).toBe(canonical);
});

test.each([
  '"\\/"',
  '"\\u0061"',
  '{"a\\n":1}',
  "1e2",
  "1.5E2",
  "-0",
  "1234567890123456",
  `{${Array.from({ length: 33 }, (_, index) => `"${index}":0`).join()}}`,
  `${"[".repeat(33)}${"]".repeat(33)}`,
  `${'{"b":'.repeat(20)}"${"x".repeat(2_000)}"${',"a":0}'.repeat(20)}`,
])("%s is left to the tree", (text) => {
  expect(plainCanonical(text, 512)).toBeNull();
  expect(fromTree(text)).not.toBeNull();
});

test("what has no canonical form is not plain", () => {
  const texts = [
    "",
    " ",
    "{",
    "[1",
    '{"a":1,}',
    "[1,]",
    "01",
    "-",
    "1.",
    "tru",
    "nulll",
    '"\n"',
    "{} {}",
    '"a',
  ];
  const faults = ['{"a":1,"a":2}', '{"b":0,"a":1,"c":2,"a":3}', "0.1000000000000000055", "[[]]"];
  for (const text of texts) expect([text, plainCanonical(text, 512)]).toEqual([text, null]);
  for (const text of faults) expect([text, plainCanonical(text, 1)]).toEqual([text, null]);
});

const number = fc.oneof(
  fc.integer().map(String),
  fc.double().map(String),
  fc.stringMatching(/^-?[0-9]{1,17}(\.[0-9]{0,4})?(e[0-9])?$/),
);
const string = fc.oneof(
  fc.string({ maxLength: 4 }).map((text) => JSON.stringify(text)),
  fc.string({ unit: fc.constantFrom("a", "b", "\\", "n", "u", '"', "/", "\u0001", "é"), maxLength: 5 }),
  fc.constantFrom(
    '"a"',
    '"b"',
    '"a!"',
    '"\\n"',
    '"\\/"',
    '"\\u0061"',
    '"\ud7ff"',
    '"\ue000"',
    '"\ud83d\ude00"',
  ),
);
const { value: source } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    number,
    string,
    fc.constantFrom("true", "false", "null", "nul", "[]", "{}", ""),
    fc.array(tie("value"), { maxLength: 4 }).map((items) => `[${items.join(" ,")}]`),
    fc
      .array(fc.tuple(string, tie("value")), { maxLength: 4 })
      .map((members) => `{ ${members.map(([name, member]) => `${name}: ${member}`).join(",\n")}}`),
  ),
}));

test("whatever is plain has the form that the tree gives it", () => {
  let plain = 0;
  fc.assert(
    fc.property(source, (text) => {
      const canonical = plainCanonical(text, 512);
      if (canonical === null) return;
      plain++;
      expect(canonical).toBe(fromTree(text));
    }),
    { numRuns: 5_000 },
  );
  expect(plain).toBeGreaterThan(1_000);
});

test("what is not UTF-8 is not plain, wherever it is", () => {
  const faults = [[0x80], [0xc3], [0xc0, 0xaf], [0xed, 0xa0, 0xbd], [0xf4, 0x90, 0x80, 0x80], [0xff]];
  for (const fault of faults) {
    for (const [before, after] of [
      ['"', '"'],
      ['{"a', '":1}'],
      ["", "1"],
      ["1", ""],
    ] as const) {
      const bytes = Buffer.concat([Buffer.from(before), Buffer.from(fault), Buffer.from(after)]);
      expect([bytes.toString("latin1"), plainBytes(bytes, 512)]).toEqual([bytes.toString("latin1"), null]);
    }
  }
  expect(plainBytes(Buffer.from('\ufeff"a"'), 512)).toBeNull();
});

test("names are put in the order of their UTF-16 code units, or left to the tree", () => {
  expect(plainCanonical('{"\ucfff":1,"é":2,"z":3}', 512)).toBe('{"z":3,"é":2,"\ucfff":1}');
  for (const name of ["\ud7ff", "\ue000", "\ud83d\ude00"]) {
    expect(plainCanonical(`{"${name}":1}`, 512)).toBeNull();
    expect(plainCanonical(`{"a":"${name}"}`, 512)).toBe(`{"a":"${name}"}`);
  }
});

test("and what JSON.stringify writes of usual values is plain", () => {
  const name = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 3 });
  const usual = fc.oneof(
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.string({ unit: "binary-ascii" }).map((text) => text.replace(/[^ -~]/gu, "")),
  );
  const body = fc.dictionary(name, fc.oneof(usual, fc.array(usual), fc.dictionary(name, usual)));
  fc.assert(
    fc.property(body, (value) => {
      const text = JSON.stringify(value);
      expect(plainCanonical(text, 512)).toBe(fromTree(text));
    }),
    { numRuns: 500 },
  );
});
