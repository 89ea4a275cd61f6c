import fc from "fast-check";
import { expect, test } from "vitest";
import { looksPersonal } from "./looks-personal.ts";

test.each([
  "jane@example.com",
  "order-jane.doe+shop@mail.example.co.uk-1",
  "jane%40example.com",
  "<jane@example.com>",
  "mailto:jane_@x.example",
  "a@b@example.org",
  "jane@1.example",
])("%s looks like an e-mail address", (key) => {
  expect(looksPersonal(key)).toBe("e-mail");
});

test.each([
  "+4915112345678",
  "order:+49 151 1234-5678",
  "%2B4915112345678-1",
  "tel:+1(415)555-2671",
  "415-555-2671",
  "(415) 555-2671",
  "1.415.555.2671",
  "order-415.555.2671",
])("%s looks like a phone number", (key) => {
  expect(looksPersonal(key)).toBe("phone");
});

test.each([
  "8e03978e-40d5-43dd-bc93-6894a57f9324",
  "12345678-1234-1234-1234-123456789012",
  "01ARZ3NDEKTSV4RRFFQ69G5FAV",
  "stripe-node-retry-8e03978e",
  "order-1234567890",
  "2026-11-21-0001",
  "2026-11-21T10:11:12.123Z",
  "pkg@1.2.3",
  "user@localhost",
  "@example.com",
  "jane@.com",
  "a+b+c",
  "x+4915112345678",
  "+1234567",
  "+1234567890123456",
  "+1234567890abcdef",
  "hash415-555-2671",
  "",
])("%s does not", (key) => {
  expect(looksPersonal(key)).toBeNull();
});

test("no UUID looks personal", () => {
  const digitsOnly = fc
    .array(fc.integer({ min: 0, max: 9 }), { minLength: 32, maxLength: 32 })
    .map((digits) => digits.join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"));
  fc.assert(
    fc.property(fc.oneof(fc.uuid(), digitsOnly), (key) => {
      expect(looksPersonal(key)).toBeNull();
    }),
    { numRuns: 1000 },
  );
});
