import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../packages/latchkey/src/fingerprint/canonical-json.ts";
import { readVectors } from "./vector-files.ts";

const files = readVectors("JSONTestSuite/test_parsing", ".json").map(
  ({ name, bytes }): [string, Uint8Array] => [name, bytes],
);

function starting(prefix: string): [string, Uint8Array][] {
  return files.filter(([name]) => name.startsWith(prefix));
}

/**
 * `y_` must be recognised as JSON text (a missing canonical form, as of duplicate names, is no lack of that), `n_` must
 * not be, `i_` is free. `canonicalJson` stops at its limit of depth and returns "too-deep" without reading on.
 */
describe.skipIf(files.length === 0)("JSONTestSuite test_parsing", () => {
  it("has the files it is known to have", () => {
    expect([starting("y_").length, starting("n_").length, starting("i_").length]).toEqual([95, 188, 35]);
  });

  it.each(starting("y_"))("%s is JSON", (_name, bytes) => {
    expect(canonicalJson(bytes)).not.toEqual({ ok: false, reason: "not-json" });
    expect(canonicalJson(bytes)).not.toEqual({ ok: false, reason: "too-deep" });
  });

  it.each(starting("n_"))("%s is not", (name, bytes) => {
    const tooDeep = ["n_structure_100000_opening_arrays.json", "n_structure_open_array_object.json"].includes(
      name,
    );
    expect(canonicalJson(bytes)).toEqual({ ok: false, reason: tooDeep ? "too-deep" : "not-json" });
  });

  it.each(starting("i_"))("%s is JSON if it is for JSON.parse", (_name, bytes) => {
    const result = canonicalJson(bytes);
    expect(result.ok || result.reason !== "not-json").toBe(parses(bytes));
  });

  it("of the texts that must parse, only those with a duplicate name have no canonical form", () => {
    const without = starting("y_").flatMap(([name, bytes]) => {
      const result = canonicalJson(bytes);
      return result.ok ? [] : [[name, result.reason]];
    });
    expect(without).toEqual([
      ["y_object_duplicated_key.json", "duplicate-name"],
      ["y_object_duplicated_key_and_value.json", "duplicate-name"],
    ]);
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
