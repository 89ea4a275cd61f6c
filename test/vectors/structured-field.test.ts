import { describe, expect, it } from "vitest";
import { parseKey } from "../../packages/latchkey/src/key/parse-key.ts";
import {
  type BareItem,
  type ItemResult,
  parseItem,
} from "../../packages/latchkey/src/key/structured-field.ts";
import { formatKey } from "../support/format-key.ts";
import { readVectors, type VectorFile } from "./vector-files.ts";

/** A case of httpwg/structured-field-tests; `raw` is missing where only writing is tested. */
interface FieldCase {
  readonly name: string;
  readonly raw?: readonly string[];
  readonly header_type: string;
  readonly expected?: readonly unknown[];
  readonly must_fail?: boolean;
  readonly can_fail?: boolean;
}

function itemCases(files: readonly VectorFile[]): [label: string, FieldCase][] {
  return files.flatMap(({ name, bytes }) => {
    const cases: FieldCase[] = JSON.parse(new TextDecoder().decode(bytes));
    return cases
      .filter((one) => one.header_type === "item")
      .map((one): [string, FieldCase] => [`${name}: ${one.name}`, one]);
  });
}

const parsing = itemCases(readVectors("structured-field-tests", ".json"));
const writing = itemCases(readVectors("structured-field-tests/serialisation-tests", "string-generated.json"));

/** A parsed item in the notation of the vectors. */
function notation(value: BareItem): unknown {
  switch (value.type) {
    case "token":
    case "date":
      return { __type: value.type, value: value.value };
    case "display-string":
      return { __type: "displaystring", value: value.value };
    case "bytes":
      return { __type: "binary", value: base32(value.value) };
    default:
      return value.value;
  }
}

function base32(bytes: Uint8Array): string {
  const bits = Array.from(bytes, (byte) => byte.toString(2).padStart(8, "0")).join("");
  const letters = (bits.match(/.{1,5}/g) ?? []).map((five) => {
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".charAt(Number.parseInt(five.padEnd(5, "0"), 2));
  });
  return letters.join("").padEnd(Math.ceil(letters.length / 8) * 8, "=");
}

function outcome(result: ItemResult): unknown {
  if (!result.ok) return "failed";
  return [
    notation(result.item.value),
    [...result.item.parameters].map(([name, value]) => [name, notation(value)]),
  ];
}

/** The vectors hold -0 where a parser may keep the sign. */
function withoutNegativeZero(expected: readonly unknown[] | undefined): unknown {
  return expected?.map((part) => (part === 0 ? 0 : part));
}

describe.skipIf(parsing.length === 0)("httpwg structured-field-tests, header_type item", () => {
  it("has the cases it is known to have", () => {
    expect(parsing.length).toBeGreaterThanOrEqual(840);
    expect(parsing.filter(([, { must_fail }]) => must_fail).length).toBeGreaterThanOrEqual(357);
  });

  it.each(parsing)("%s", (_label, { raw = [], expected, must_fail, can_fail }) => {
    const actual = outcome(parseItem(raw.join(", ")));
    if (must_fail) expect(actual).toBe("failed");
    else if (!can_fail || actual !== "failed") expect(actual).toEqual(withoutNegativeZero(expected));
  });

  it.each(parsing)("as a key: %s", (_label, { raw = [], expected, must_fail }) => {
    const value = expected?.[0];
    const isString = !must_fail && typeof value === "string" && raw.length === 1;
    const isKey = isString && value.trim() !== "" && value.length <= 255;
    const result = parseKey(raw, { syntax: "strict" });
    expect(result.ok ? result.key : null).toBe(isKey ? value : null);
    const compat = parseKey(raw);
    if (isKey) expect(compat).toEqual(result);
    else if (raw.some((line) => line.includes('"'))) expect(compat.ok).toBe(false);
  });
});

describe.skipIf(writing.length === 0)("httpwg structured-field-tests, writing of Strings", () => {
  it.each(writing)("%s", (_label, { expected, must_fail }) => {
    expect(must_fail).toBe(true);
    expect(() => formatKey(String(expected?.[0]))).toThrow(TypeError);
  });
});
