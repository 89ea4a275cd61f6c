import fc from "fast-check";
import { expect, test } from "vitest";
import { anyText } from "../../../../test/support/text.ts";
import { parseMediaType } from "./media-type.ts";

test.each([
  ["application/json", "application/json", true],
  ["Application/JSON", "application/json", true],
  ["application/json; charset=utf-8", "application/json", true],
  ['application/json;CHARSET="UTF-8"', "application/json", true],
  ["application/json;", "application/json", true],
  ["application/json ; ; charset=utf8", "application/json", true],
  ["application/vnd.api+json; charset=utf-8", "application/vnd.api+json", true],
  ["application/json; charset=iso-8859-1", 'application/json;charset="iso-8859-1"', false],
  ["application/json; b=2; a=1", 'application/json;a="1";b="2"', true],
  ["text/plain; charset=UTF-8", 'text/plain;charset="utf-8"', false],
  ["text/plain", "text/plain", false],
  ["multipart/form-data; boundary=AaB", 'multipart/form-data;boundary="AaB"', false],
  ['a/b; x="q;\\"r\\""', 'a/b;x="q;\\"r\\""', false],
  ["a/b; x=2; y=3; x=1", 'a/b;x="2";x="1";y="3"', false],
  ['a/b; x=""', 'a/b;x=""', false],
  ["application/x-ndjson", "application/x-ndjson", false],
  ["application/jsonp", "application/jsonp", false],
])("%s is %s", (raw, normalized, isJson) => {
  expect(parseMediaType(raw)).toMatchObject({ normalized, isJson, essence: normalized.split(";")[0] });
});

test.each([
  "",
  "json",
  "application/",
  "/json",
  "application/json, application/json",
  "application/json; charset",
  "application/json; charset=",
  'application/json; charset="utf-8',
  "application/json; =x",
  "application/json charset=utf-8",
  'a/b;x="\\',
])("%j breaks the grammar and stays as it is", (raw) => {
  expect(parseMediaType(raw)).toEqual({ multipart: null, essence: null, isJson: false, normalized: raw });
});

test("any text is answered without a throw, and a normalised one is normal", () => {
  const nearMiss = fc.string({ unit: fc.constantFrom(...'a/;= "\\\t+json') });
  fc.assert(
    fc.property(fc.oneof(nearMiss, anyText()), (raw) => {
      const { normalized, essence } = parseMediaType(raw);
      if (essence === null) expect(normalized).toBe(raw);
      else expect(normalized.startsWith(essence)).toBe(true);
    }),
    { numRuns: 1000 },
  );
});
