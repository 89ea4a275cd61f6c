import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatHttpDate, parseHttpDate } from "./http-date.ts";

const example = "Sun, 06 Nov 1994 08:49:37 GMT";
/** 1000-01-01 to 9999-12-31, in seconds. Clients do not send earlier years. */
const second = fc.integer({ min: -30_610_224_000, max: 253_402_300_799 });

describe("HTTP dates", () => {
  test("the example of RFC 9110", () => {
    expect(parseHttpDate(example)).toBe(784_111_777_000);
    expect(formatHttpDate(784_111_777_000)).toBe(example);
  });

  test("a fraction of a second is dropped, so that the date is never later than the time", () => {
    expect(formatHttpDate(784_111_777_999)).toBe(example);
  });

  test("every second can be written and read again", () => {
    fc.assert(
      fc.property(second, (at) => {
        const text = formatHttpDate(at * 1000);
        expect(text).toMatch(/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/u);
        expect(parseHttpDate(text)).toBe(at * 1000);
      }),
    );
  });

  test("one changed character is another date or none", () => {
    const character = fc.string({ minLength: 1, maxLength: 1, unit: "binary-ascii" });
    fc.assert(
      fc.property(second, fc.nat(28), character, (at, index, other) => {
        const text = formatHttpDate(at * 1000);
        const changed = text.slice(0, index) + other + text.slice(index + 1);
        const read = parseHttpDate(changed);
        if (read !== null) expect(formatHttpDate(read)).toBe(changed);
        expect(read === at * 1000).toBe(changed === text);
      }),
      { numRuns: 1_000 },
    );
  });

  test("any text is a date in exactly this form, or none", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 29, maxLength: 29 }), (text) => {
        const read = parseHttpDate(text);
        if (read !== null) expect(formatHttpDate(read)).toBe(text);
      }),
    );
  });

  test.each([
    ["RFC 850", "Sunday, 06-Nov-94 08:49:37 GMT"],
    ["asctime", "Sun Nov  6 08:49:37 1994"],
    ["ISO 8601", "1994-11-06T08:49:37Z"],
    ["seconds", "784111777"],
    ["a wrong weekday", "Mon, 06 Nov 1994 08:49:37 GMT"],
    ["a day past its month's end", "Thu, 30 Feb 1995 08:49:37 GMT"],
    ["another hour than there is", "Sun, 06 Nov 1994 24:49:37 GMT"],
    ["a leap second", "Sat, 31 Dec 2016 23:59:60 GMT"],
    ["another zone", "Sun, 06 Nov 1994 08:49:37 UTC"],
    ["other letters", "sun, 06 nov 1994 08:49:37 gmt"],
    ["space around it", ` ${example}`],
    ["two of them", `${example}, ${example}`],
    ["nothing", ""],
  ])("not %s", (_what, text) => {
    expect(parseHttpDate(text)).toBeNull();
  });
});
