import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { admit, digestOf, finished, type IntentRecord } from "./intent.ts";

const draft: IntentRecord = {
  version: 1,
  key: "new",
  digest: "d",
  method: "POST",
  url: "https://shop.example/orders",
  type: "application/json",
  body: new Uint8Array([123, 125]),
  isKept: true,
  startedAt: 10_000,
  doneAt: null,
};
const open = { ...draft, key: "stored", startedAt: 9_000 };
const done = finished(open, 9_500);
const lifetimeMs = 2_000;

describe("admit", () => {
  test("a name that is new gets the new record", () => {
    expect(admit(undefined, draft, lifetimeMs)).toEqual({ ok: true, record: draft });
  });

  test.each([
    ["open", open],
    ["done", done],
  ])("the same request under a name that is %s keeps its key", (_, stored) => {
    expect(admit(stored, draft, lifetimeMs)).toEqual({ ok: true, record: stored });
  });

  test.each([
    ["open", open, "request-changed"],
    ["done", done, "intent-done"],
  ])("another request under a name that is %s is refused", (_, stored, code) => {
    expect(admit(stored, { ...draft, digest: "other" }, lifetimeMs)).toEqual({
      ok: false,
      code,
      key: "stored",
    });
  });

  test.each([
    ["open", open, "intent-too-old"],
    ["done", done, "intent-done"],
  ])("a name that is %s and as old as servers keep keys is refused", (_, stored, code) => {
    const at = (now: number) => admit(stored, { ...draft, startedAt: now }, lifetimeMs);
    expect(at(10_999).ok).toBe(true);
    expect(at(11_000)).toEqual({ ok: false, code, key: "stored" });
  });

  test("what is done keeps the key and nothing of the request", () => {
    expect(done).toEqual({ ...open, type: null, body: null, isKept: false, doneAt: 9_500 });
  });
});

describe("digestOf", () => {
  const encode = (text: string) => new TextEncoder().encode(text);

  test("it is the same for the same and different for the different", () => {
    const body = fc.uint8Array({ maxLength: 40 });
    fc.assert(
      fc.property(body, body, (left, right) => {
        const isSame = Buffer.from(left).equals(right);
        expect(digestOf("POST /", left) === digestOf("POST /", right)).toBe(isSame);
      }),
    );
  });

  test("a bit, an order or a border between target and body makes another", () => {
    const pairs = [
      ["POST /ab", "c"],
      ["POST /a", "bc"],
      ["POST /abc", ""],
      ["POST /ab", "\0c"],
      ["POST /ba", "c"],
      ["PUT /ab", "c"],
    ];
    const digests = pairs.map(([target = "", body = ""]) => digestOf(target, encode(body)));
    expect(new Set(digests).size).toBe(digests.length);
    const amounts = Array.from({ length: 20_000 }, (_, amount) =>
      digestOf("POST /", encode(`{"amount":${amount}}`)),
    );
    expect(new Set(amounts).size).toBe(amounts.length);
    expect(digests[0]).toMatch(/^[0-9a-f]{16}$/u);
  });
});
