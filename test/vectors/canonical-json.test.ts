import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../packages/latchkey/src/fingerprint/canonical-json.ts";
import { readVectors } from "./vector-files.ts";

const inputs = readVectors("json-canonicalization/testdata/input", ".json");
const outputs = readVectors("json-canonicalization/testdata/output", ".json");
const hexOutputs = readVectors("json-canonicalization/testdata/outhex", ".txt");

/**
 * The one number in the inputs that a double does not hold. RFC 8785 rounds it; Latchkey refuses it, since rounding
 * makes two amounts one. With the rounded number in its place the whole file must come out as the RFC has it.
 */
const ROUNDED = ["333333333.33333329", "333333333.3333333"] as const;

function decode(bytes: Uint8Array | undefined): string {
  return new TextDecoder().decode(bytes);
}

describe.skipIf(inputs.length === 0)("RFC 8785 test data of cyberphone/json-canonicalization", () => {
  it("has an output in both forms for every input", () => {
    expect(inputs.length).toBeGreaterThanOrEqual(6);
    const stems = [inputs, outputs, hexOutputs].map((files) => files.map(({ name }) => name.split(".")[0]));
    expect(stems[1]).toEqual(stems[0]);
    expect(stems[2]).toEqual(stems[0]);
  });

  it.each(inputs.map(({ name, bytes }, index) => [name, bytes, index] as const))(
    "%s",
    (_name, bytes, index) => {
      const source = decode(bytes);
      if (source.includes(ROUNDED[0])) {
        expect(canonicalJson(bytes)).toEqual({ ok: false, reason: "inexact-number" });
      }
      const result = canonicalJson(new TextEncoder().encode(source.replace(...ROUNDED)));
      const canonical = result.ok ? Buffer.from(result.bytes) : Buffer.alloc(0);
      expect(canonical.toString()).toBe(decode(outputs[index]?.bytes));
      expect(canonical.toString("hex")).toBe(decode(hexOutputs[index]?.bytes).replaceAll(/\s/g, ""));
      expect(canonicalJson(canonical)).toEqual(result);
    },
  );

  it("only one file needs the rounded number", () => {
    expect(inputs.filter(({ bytes }) => decode(bytes).includes(ROUNDED[0])).map(({ name }) => name)).toEqual([
      "values.json",
    ]);
  });
});
