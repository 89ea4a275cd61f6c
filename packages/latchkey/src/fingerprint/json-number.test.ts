import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalNumber } from "./json-number.ts";

test.each([
  ["0", "0"],
  ["-0", "0"],
  ["-0.0e5", "0"],
  ["0e99999999999999999999", "0"],
  ["1", "1"],
  ["1.0", "1"],
  ["1e2", "100"],
  ["1E+2", "100"],
  ["100e-2", "1"],
  ["0.1", "0.1"],
  ["0.10", "0.1"],
  ["1e23", "1e+23"],
  ["100000000000000000000000", "1e+23"],
  ["123456789012345680000", "123456789012345680000"],
  ["9007199254740992", "9007199254740992"],
  ["5e-324", "5e-324"],
  ["1.7976931348623157e308", "1.7976931348623157e+308"],
  [`1${"0".repeat(400)}e-400`, "1"],
  [`0.${"0".repeat(400)}1e401`, "1"],
])("%s is %s", (source, canonical) => {
  expect(canonicalNumber(source)).toBe(canonical);
});

test.each([
  "9007199254740993",
  "-9007199254740993",
  "9007199254740992.5",
  "1e400",
  "-1e400",
  "1e99999999999999999999",
  "1e-400",
  "1e-99999999999999999999",
  "4.94e-324",
  "0.1000000000000000055511151231257827",
  "333333333.33333329",
  "1.00000000000000000000000001",
  "295147905179352825856",
])("a double does not hold %s exactly", (source) => {
  expect(canonicalNumber(source)).toBeNull();
});

// RFC 8785, appendix B: the bits of a double and how it is written.
test.each([
  ["0000000000000000", "0"],
  ["8000000000000000", "0"],
  ["0000000000000001", "5e-324"],
  ["8000000000000001", "-5e-324"],
  ["7fefffffffffffff", "1.7976931348623157e+308"],
  ["ffefffffffffffff", "-1.7976931348623157e+308"],
  ["4340000000000000", "9007199254740992"],
  ["c340000000000000", "-9007199254740992"],
  ["4430000000000000", "295147905179352830000"],
  ["44b52d02c7e14af5", "9.999999999999997e+22"],
  ["44b52d02c7e14af6", "1e+23"],
  ["44b52d02c7e14af7", "1.0000000000000001e+23"],
  ["444b1ae4d6e2ef4e", "999999999999999700000"],
  ["444b1ae4d6e2ef4f", "999999999999999900000"],
  ["444b1ae4d6e2ef50", "1e+21"],
  ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
  ["3eb0c6f7a0b5ed8d", "0.000001"],
  ["41b3de4355555553", "333333333.3333332"],
  ["41b3de4355555554", "333333333.33333325"],
  ["41b3de4355555555", "333333333.3333333"],
  ["41b3de4355555556", "333333333.3333334"],
  ["41b3de4355555557", "333333333.33333343"],
  ["becbf647612f3696", "-0.0000033333333333333333"],
  ["43143ff3c1cb0959", "1424953923781206.2"],
])("the double %s is written %s", (bits, written) => {
  const value = Buffer.from(bits, "hex").readDoubleBE(0);
  expect(canonicalNumber(value.toExponential())).toBe(written);
  expect(canonicalNumber(written)).toBe(written);
});

test("every double has the canonical form ECMAScript prints", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      expect(canonicalNumber(JSON.stringify(value))).toBe(JSON.stringify(value === 0 ? 0 : value));
    }),
    { numRuns: 2000 },
  );
});

/** The value as a fraction: exact, and computed in another way than the code under test does. */
function fraction(text: string): [numerator: bigint, denominator: bigint] {
  const [mantissa = "", exponent = "0"] = text.toLowerCase().split("e");
  const [integer = "", decimals = ""] = mantissa.split(".");
  const scale = Number(exponent) - decimals.length;
  const digits = BigInt(integer + decimals);
  return scale >= 0 ? [digits * 10n ** BigInt(scale), 1n] : [digits, 10n ** BigInt(-scale)];
}

test("a number has a canonical form exactly where its fraction equals that of the printed double", () => {
  const digits = (maxLength: number) =>
    fc.string({ unit: fc.constantFrom(..."0123456789"), minLength: 1, maxLength });
  const source = fc
    .tuple(
      fc.constantFrom("", "-"),
      digits(22),
      fc.option(digits(22)),
      fc.option(fc.integer({ min: -330, max: 330 })),
    )
    .map(([sign, integer, decimals, exponent]) => {
      const whole = integer.replace(/^0+(?=\d)/, "");
      return `${sign}${whole}${decimals === null ? "" : `.${decimals}`}${exponent === null ? "" : `e${exponent}`}`;
    });
  const seen = { exact: 0, inexact: 0 };
  fc.assert(
    fc.property(source, (text) => {
      const value = Number(text);
      const [numerator, denominator] = fraction(text.startsWith("-") ? text.slice(1) : text);
      const [otherNumerator, otherDenominator] = Number.isFinite(value)
        ? fraction(String(Math.abs(value)))
        : [-1n, 1n];
      const exact = numerator * otherDenominator === otherNumerator * denominator;
      seen[exact ? "exact" : "inexact"]++;
      expect(canonicalNumber(text)).toBe(exact ? String(value) : null);
    }),
    { numRuns: 3000 },
  );
  expect(Math.min(seen.exact, seen.inexact)).toBeGreaterThan(100);
});
