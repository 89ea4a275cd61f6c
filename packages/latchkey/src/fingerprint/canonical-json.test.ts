import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { anyText } from "../../../../test/support/text.ts";
import { type CanonicalJsonLimits, canonicalJson } from "./canonical-json.ts";

const encoder = new TextEncoder();

/** The canonical text, or the reason in angle brackets. */
function canonical(source: string | Uint8Array, limits: CanonicalJsonLimits = {}): string {
  const result = canonicalJson(typeof source === "string" ? encoder.encode(source) : source, limits);
  return result.ok ? new TextDecoder().decode(result.bytes) : `<${result.reason}>`;
}

describe("canonical form", () => {
  test.each([
    ["null", "null"],
    [" \t\r\n[ true , false ,null ] \n", "[true,false,null]"],
    ['{"b":1,"a":{"d":[],"c":{}}}', '{"a":{"c":{},"d":[]},"b":1}'],
    ["[1.0,1e2,-0,0.1,1E-7]", "[1,100,0,0.1,1e-7]"],
    ['"\\u0061\\/\\b\\f\\n\\r\\t\\"\\\\\\u000F\\u007f"', '"a/\\b\\f\\n\\r\\t\\"\\\\\\u000f\u007f"'],
    ['"\\ud83d\\ude00 \\u2028"', '"😀 \u2028"'],
    ['{"\\u20ac":1,"\\r":2,"1":3,"\\ud83d\\ude02":4,"\\ufb33":5}', '{"\\r":2,"1":3,"€":1,"😂":4,"\ufb33":5}'],
    ['{"aa":1,"a":2,"":3}', '{"":3,"a":2,"aa":1}'],
    [
      '{"__proto__":{"x":1},"toJSON":"f","constructor":{"prototype":2}}',
      '{"__proto__":{"x":1},"constructor":{"prototype":2},"toJSON":"f"}',
    ],
    ['{"toJSON":1,"b":1,"a":2}', '{"a":2,"b":1,"toJSON":1}'],
    ['{"10":1,"9":2}', '{"10":1,"9":2}'],
  ])("%s becomes %s", (source, text) => {
    expect(canonical(source)).toBe(text);
  });

  test("Object.prototype is not touched", () => {
    canonical('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}');
    expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
  });
});

describe("no canonical form", () => {
  test.each([
    ["", "<not-json>"],
    [" ", "<not-json>"],
    ["\ufeff{}", "<not-json>"],
    ["{} {}", "<not-json>"],
    ["{'a':1}", "<not-json>"],
    ["[1,]", "<not-json>"],
    ['{"a":1,}', "<not-json>"],
    ["{a:1}", "<not-json>"],
    ["01", "<not-json>"],
    ["+1", "<not-json>"],
    [".5", "<not-json>"],
    ["1.", "<not-json>"],
    ["1e", "<not-json>"],
    ["-", "<not-json>"],
    ["NaN", "<not-json>"],
    ["tru", "<not-json>"],
    ["nulll", "<not-json>"],
    ['"\n"', "<not-json>"],
    ['"\\x41"', "<not-json>"],
    ['"\\u00g1"', "<not-json>"],
    ['"\\u004"', "<not-json>"],
    ['"a', "<not-json>"],
    ['"\\', "<not-json>"],
    ["[1}", "<not-json>"],
    ["]", "<not-json>"],
    ["\u000b1", "<not-json>"],
    ["\u00a01", "<not-json>"],
    ['{"amount":1,"amount":2}', "<duplicate-name>"],
    ['{"a":1,"\\u0061":1}', "<duplicate-name>"],
    ['[{"x":{"":1,"b":2,"":1}}]', "<duplicate-name>"],
    ['"\\ud800"', "<lone-surrogate>"],
    ['"\\udc00\\ud800"', "<lone-surrogate>"],
    ['"\\udc00\\udc01"', "<lone-surrogate>"],
    ['{"\\ud800":1}', "<lone-surrogate>"],
    ['"\\ud800\\u0041"', "<lone-surrogate>"],
    ["[9007199254740993]", "<inexact-number>"],
    ['{"amount":1e400}', "<inexact-number>"],
    ["0.1000000000000000055511151231257827", "<inexact-number>"],
  ])("%j: %s", (source, reason) => {
    expect(canonical(source)).toBe(reason);
  });

  test.each([
    ["a byte that never occurs", [0x22, 0xff, 0x22]],
    ["an overlong form", [0x22, 0xc0, 0xaf, 0x22]],
    ["an encoded surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ["a truncated character", [0x22, 0xe2, 0x82]],
    ["UTF-16", [0x5b, 0x00, 0x5d, 0x00]],
  ])("%s is not UTF-8, so not JSON, and leaves nothing behind", (_name, bytes) => {
    expect(canonical(Uint8Array.from(bytes))).toBe("<not-json>");
    expect(canonical('"€"')).toBe('"€"');
  });

  test("not-json outranks the faults of values, of which the first is given", () => {
    expect(canonical('{"a":1,"a":1e400')).toBe("<not-json>");
    expect(canonical('[1e400,{"a":1,"a":2}]')).toBe("<inexact-number>");
    expect(canonical('[{"a":1,"a":2},"\\ud800"]')).toBe("<duplicate-name>");
  });
});

describe("limits", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);

  test.each([
    [512, nested(512)],
    [513, "<too-deep>"],
    [6_000, "<too-deep>"],
    [100_000, "<too-deep>"],
  ])("%i arrays in each other", (depth, text) => {
    expect(canonical(nested(depth))).toBe(text);
  });

  test("a deeper limit needs no deeper call stack", () => {
    const limits = { maxDepth: 100_000 };
    expect(canonical(nested(100_000), limits) === nested(100_000)).toBe(true);
    const objects = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
    expect(canonical(objects, limits) === objects).toBe(true);
  });

  test("reading stops where it is too deep, so what follows does not matter", () => {
    expect(canonical("[".repeat(100_000))).toBe("<too-deep>");
    expect(canonical("[[[[x", { maxDepth: 3 })).toBe("<too-deep>");
    expect(canonical("[[[x", { maxDepth: 3 })).toBe("<not-json>");
    expect(canonical("[[[],[]],[[]]]", { maxDepth: 3 })).toBe("[[[],[]],[[]]]");
  });

  test("size is counted in bytes of the source", () => {
    expect(canonical('"€"', { maxBytes: 5 })).toBe('"€"');
    expect(canonical('"€"', { maxBytes: 4 })).toBe("<too-large>");
    expect(canonical(`"${"a".repeat(1_048_574)}"`)).toHaveLength(1_048_576);
    expect(canonical(`"${"a".repeat(1_048_575)}"`)).toBe("<too-large>");
  });

  test.each([{ maxDepth: 0 }, { maxDepth: 1.5 }, { maxBytes: -1 }, { maxBytes: Number.NaN }])(
    "%j is a mistake of the programmer",
    (limits) => {
      expect(() => canonicalJson(encoder.encode("1"), limits)).toThrow(TypeError);
    },
  );
});

test("whether it is JSON does not depend on its numbers, names, surrogates and depth", () => {
  const limits = { maxDepth: 200_000 };
  const texts = ['{"a":1,"a":2}', "1e400", '"\\ud800"', "[".repeat(100_000) + "]".repeat(100_000)];
  for (const text of texts) expect(canonical(text, limits)).not.toBe("<not-json>");
  for (const text of ["", "\ufeff1", "[1,]", "[".repeat(100_000)])
    expect(canonical(text, limits)).toBe("<not-json>");
});

/** The canonical form of a value by the words of RFC 8785, recursive and from parsed values. */
function reference(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(reference).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([name, inner]) => `${JSON.stringify(name)}:${reference(inner)}`).join(",")}}`;
}

const wellFormed = anyText();
const scalar = fc.oneof(
  wellFormed,
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.maxSafeInteger(),
  fc.boolean(),
  fc.constant(null),
);
const name = fc.oneof(wellFormed, fc.constantFrom("__proto__", "toJSON", "constructor", "a", "b", "10", "9"));
const { value: jsonValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    scalar,
    fc.array(tie("value"), { maxLength: 6 }),
    fc.dictionary(name, tie("value"), { maxKeys: 6 }),
  ),
}));

/** Writes a value as JSON in one of the many ways: order of members, white space and escapes chosen by `choose`. */
function writeSomehow(value: unknown, choose: (below: number) => number): string {
  const space = () => ["", " ", "\n", "\t \r"][choose(4)];
  if (Array.isArray(value)) {
    return `[${space()}${value.map((item) => `${writeSomehow(item, choose)}${space()}`).join(`,${space()}`)}]`;
  }
  if (typeof value === "string") return writeString(value, choose);
  if (typeof value === "number") return choose(2) === 0 ? JSON.stringify(value) : value.toExponential();
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([key, inner]) =>
      `${space()}${writeString(key, choose)}${space()}:${space()}${writeSomehow(inner, choose)}`,
  );
  for (let index = members.length - 1; index > 0; index--) {
    const other = choose(index + 1);
    [members[index], members[other]] = [members[other] ?? "", members[index] ?? ""];
  }
  return `{${members.join(`${space()},`)}${space()}}`;
}

function writeString(text: string, choose: (below: number) => number): string {
  const escaped = [...text].map((character) => {
    if (choose(3) > 0) return JSON.stringify(character).slice(1, -1);
    const units = Array.from({ length: character.length }, (_, index) => {
      const hex = character.charCodeAt(index).toString(16).padStart(4, "0");
      return `\\u${choose(2) === 0 ? hex : hex.toUpperCase()}`;
    });
    return units.join("");
  });
  return `"${escaped.join("")}"`;
}

describe("properties", () => {
  test("equals the recursive reference, and is its own canonical form", () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        const text = canonical(JSON.stringify(value));
        expect(text).toBe(reference(value));
        expect(canonical(text)).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  test("order of members, white space, escapes and notation of numbers make no difference", () => {
    fc.assert(
      fc.property(jsonValue, fc.infiniteStream(fc.nat()), (value, stream) => {
        const choose = (below: number) => (stream.next().value ?? 0) % below;
        expect(canonical(writeSomehow(value, choose))).toBe(reference(value));
      }),
      { numRuns: 500 },
    );
  });

  test("different values have different forms", () => {
    fc.assert(
      fc.property(jsonValue, jsonValue, (left, right) => {
        const equal = reference(left) === reference(right);
        expect(canonical(JSON.stringify(left)) === canonical(JSON.stringify(right))).toBe(equal);
      }),
      { numRuns: 500 },
    );
  });

  const mutated = fc
    .tuple(
      jsonValue,
      fc.array(fc.tuple(fc.nat(), fc.constantFrom(...'[]{},:"\\0123e.-+tfn u\u0001\ufeff'), fc.boolean())),
    )
    .map(([value, changes]) => {
      let text = JSON.stringify(value);
      for (const [at, character, insert] of changes.slice(0, 3)) {
        const index = at % (text.length + 1);
        text = text.slice(0, index) + character + text.slice(insert ? index : index + 1);
      }
      return encoder.encode(text);
    });
  const scraps = fc
    .array(
      fc.constantFrom(
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        '"a"',
        '"',
        "1",
        "-0",
        "1e4",
        "null",
        " ",
        "\\u0041",
        ".",
      ),
    )
    .map((parts) => encoder.encode(parts.join("")));

  test("bytes are recognised as JSON exactly where JSON.parse takes them; nothing throws", () => {
    const seen = { json: 0, other: 0 };
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array(), mutated, scraps), (bytes) => {
        const expected = parses(bytes);
        seen[expected ? "json" : "other"]++;
        expect(canonical(bytes) === "<not-json>").toBe(!expected);
      }),
      { numRuns: 3000 },
    );
    expect(Math.min(seen.json, seen.other)).toBeGreaterThan(100);
  });
});

function parses(bytes: Uint8Array): boolean {
  try {
    JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
    return true;
  } catch {
    return false;
  }
}
