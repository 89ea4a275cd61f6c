import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatKey } from "../../../../test/support/format-key.ts";
import { anyText } from "../../../../test/support/text.ts";
import { type ParseKeyOptions, parseKey } from "./parse-key.ts";
import { parseItem } from "./structured-field.ts";

function keyOf(line: string, options: ParseKeyOptions = {}): string | null {
  const result = parseKey([line], options);
  return result.ok ? result.key : null;
}

function reasonOf(lines: readonly string[], options: ParseKeyOptions = {}): string {
  const result = parseKey(lines, options);
  return result.ok ? "ok" : result.reason;
}

describe("missing and invalid are different (K2)", () => {
  test("no field line is missing", () => {
    expect(reasonOf([])).toBe("missing");
  });

  test.each([
    [[""]],
    [["  "]],
    [['""']],
    [['"   "']],
    [["a", "b"]],
    [["a", "a"]],
    [["", "a"]],
    [['"a', 'b"']],
  ])("%j is invalid", (lines) => {
    expect(reasonOf(lines)).toBe("invalid");
  });
});

describe.each(["compat", "strict"] as const)(
  "what a client's bug leaves in the place of a key, in %s syntax",
  (syntax) => {
    test.each(["undefined", "null", "NaN", "[object Object]", "None", "{{$guid}}"])(
      "%s is invalid",
      (key) => {
        const result = parseKey([`"${key}"`], { syntax });
        expect(result).toMatchObject({ ok: false, reason: "invalid" });
        expect(result.ok ? "" : result.detail).toContain("stands for no value");
      },
    );
  },
);

describe("compat syntax (K1)", () => {
  test.each([
    ['"k"', "k"],
    ["k", "k"],
    ["  k  ", "k"],
    ['  "k"  ', "k"],
    ['"k";v=1;w', "k"],
    ['"a b"', "a b"],
    ['"a,b"', "a,b"],
    ['"\\"\\\\"', '"\\'],
    ["8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ["stripe-node-retry-8e03978e", "stripe-node-retry-8e03978e"],
    ["12345", "12345"],
    ["?1", "?1"],
    ["'k'", "'k'"],
    ["k;v=1", "k;v=1"],
    ["!~", "!~"],
  ])("%s is the key %s", (line, key) => {
    expect(keyOf(line)).toBe(key);
  });

  test.each([
    "a b",
    "a,b",
    'a"b',
    "\tk",
    "k\t",
    '"k',
    '"k"x',
    '"k", "l"',
    '"k" "l"',
    '"k";V=1',
    '"k\\n"',
    '"\u0000"',
    "k\u0000",
    '"ü"',
    "ü",
    "k\u007f",
    "\u00a0k",
    "k\r\nx: y",
  ])("%j is invalid", (line) => {
    expect(reasonOf([line])).toBe("invalid");
  });
});

describe("strict syntax", () => {
  test("takes a String with parameters", () => {
    expect(keyOf('"k";v=1', { syntax: "strict" })).toBe("k");
  });

  test.each(["k", "8e03978e", "1", "?1", ":aw==:", '%"k"', "@1"])("refuses %s", (line) => {
    expect(reasonOf([line], { syntax: "strict" })).toBe("invalid");
  });
});

describe("limits", () => {
  test.each([
    [255, "ok"],
    [256, "invalid"],
  ])("%i characters are %s", (length, reason) => {
    expect(reasonOf(["k".repeat(length)])).toBe(reason);
    expect(reasonOf([`"${"k".repeat(length)}"`])).toBe(reason);
    expect(reasonOf([`"${"\\\\".repeat(length)}"`])).toBe(reason);
  });

  test("minLength and maxLength count decoded characters", () => {
    expect(reasonOf(['"\\"\\""'], { minLength: 3 })).toBe("invalid");
    expect(reasonOf(['"\\"\\"\\""'], { minLength: 3, maxLength: 3 })).toBe("ok");
    expect(reasonOf(["abcd"], { maxLength: 3 })).toBe("invalid");
  });

  test.each([
    { minLength: 0 },
    { minLength: 1.5 },
    { maxLength: 256 },
    { maxLength: Number.NaN },
    { minLength: 9, maxLength: 8 },
  ])("%j is a mistake of the programmer", (options) => {
    expect(() => parseKey(["k"], options)).toThrow(TypeError);
  });

  test("a pattern is searched in the decoded key, without state between keys", () => {
    const options = { pattern: /^[a-z]+$/g };
    expect([keyOf('"abc"', options), keyOf("abc", options), keyOf("abc1", options)]).toEqual([
      "abc",
      "abc",
      null,
    ]);
  });

  test("a pattern never sees a key over the limit", () => {
    let calls = 0;
    const pattern = /x/;
    pattern[Symbol.search] = () => calls++;
    expect(reasonOf(["k".repeat(256)], { pattern })).toBe("invalid");
    expect(calls).toBe(0);
    expect(reasonOf(["k"], { pattern })).toBe("ok");
    expect(calls).toBe(1);
  });
});

describe("joined lines of Fetch Headers", () => {
  function joined(...lines: string[]): string | null {
    const headers = new Headers();
    for (const line of lines) headers.append("Idempotency-Key", line);
    return keyOf(headers.get("Idempotency-Key") ?? "", { joined: true });
  }

  test.each([[['"a"', '"b"']], [["a", "b"]], [["a", "a"]], [['"a";v="x"', '"b"']], [['"\\""', '"b"']]])(
    "%j are a repeat",
    (lines) => {
      const result = parseKey([lines.join(", ")], { joined: true });
      expect(result).toEqual({
        ok: false,
        reason: "invalid",
        detail: expect.stringContaining("more than once"),
      });
      expect(joined(...lines)).toBeNull();
    },
  );

  test("a comma inside a quoted String is no repeat", () => {
    expect(joined('"a, b"')).toBe("a, b");
    expect(joined('"a\\",b"')).toBe('a",b');
    expect(joined('"a";v="x,y"')).toBe("a");
  });
});

test("keys that look personal are refused on request (K6)", () => {
  expect(keyOf("jane@example.com")).toBe("jane@example.com");
  expect(reasonOf(['"jane@example.com"'], { refusePersonal: true })).toBe("invalid");
  expect(keyOf("8e03978e-40d5-43dd-bc93-6894a57f9324", { refusePersonal: true })).not.toBeNull();
});

test("the detail never contains the key", () => {
  const lines = ["canary 4711", '"canary', `canary${"x".repeat(300)}`, "canary@example.com", "canary,canary"];
  for (const line of lines) {
    const result = parseKey([line], { refusePersonal: true, pattern: /^never$/, joined: true });
    expect(result.ok ? "canary" : result.detail).not.toContain("canary");
  }
});

test("quoted and bare are one key, in both syntaxes where they apply", () => {
  const bare = fc
    .string({ unit: "grapheme-ascii", minLength: 1, maxLength: 255 })
    .map((text) => text.replaceAll(/[ ",]/g, "_"));
  fc.assert(
    fc.property(bare, (key) => {
      expect(keyOf(key)).toBe(key);
      expect(keyOf(formatKey(key))).toBe(key);
      expect(keyOf(formatKey(key), { syntax: "strict" })).toBe(key);
    }),
  );
});

test("two different keys never become one; any lines are answered without a throw", () => {
  const text = anyText({ maxLength: 300 });
  const nearMiss = fc.string({ unit: fc.constantFrom(...'"\\;=, ka1\t') });
  fc.assert(
    fc.property(fc.array(fc.oneof(text, nearMiss), { maxLength: 2 }), fc.boolean(), (lines, joined) => {
      const result = parseKey(lines, { joined });
      if (!result.ok) return;
      expect(result.key).toMatch(/^[\x20-\x7e]{1,255}$/);
      expect(keyOf(formatKey(result.key), { syntax: "strict" })).toBe(result.key);
    }),
    { numRuns: 2000 },
  );
});

describe("opaque syntax", () => {
  test.each([
    ["k", "k"],
    ["  k  ", "k"],
    ["a key, with; everything", "a key, with; everything"],
    ['"k"', '"k"'],
    ['"k', '"k'],
    ["k".repeat(255), "k".repeat(255)],
  ])("%j is %j", (line, key) => {
    expect(keyOf(line, { syntax: "opaque" })).toBe(key);
  });

  test.each(["", "   ", "k".repeat(256), "a\tb", "schl\u00fcssel", "a\0", "undefined", "[object Object]"])(
    "%j is invalid",
    (line) => {
      expect(reasonOf([line], { syntax: "opaque" })).toBe("invalid");
    },
  );

  test("where field lines are joined, a comma and a space are a repeat, and a comma alone is not", () => {
    const joined = { syntax: "opaque", joined: true } as const;
    expect(reasonOf(["a, b"], joined)).toBe("invalid");
    expect(keyOf("a,b", joined)).toBe("a,b");
  });
});

test("what one expression reads as a String is read alike by the parser of all items", () => {
  const piece = fc.constantFrom(
    '"',
    "\\",
    " ",
    "!",
    "#",
    "[",
    "]",
    "~",
    "a",
    ";",
    "b=1",
    "\t",
    "\u007f",
    "\u00e9",
  );
  const texts = fc.array(piece, { maxLength: 6 }).map((pieces) => `"x${pieces.join("")}"`);
  fc.assert(
    fc.property(texts, (text) => {
      const parsed = parseItem(text);
      const value = parsed.ok ? parsed.item.value.value : null;
      expect(keyOf(text, { syntax: "strict" })).toBe(value);
    }),
    { numRuns: 2_000 },
  );
});
