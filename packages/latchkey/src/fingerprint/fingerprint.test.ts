import { Readable } from "node:stream";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sameFingerprint } from "../engine/decide.ts";
import {
  FINGERPRINT_VERSION,
  type FingerprintOptions,
  type FingerprintRequest,
  fingerprint,
  fingerprintOf,
} from "./fingerprint.ts";
import { NotFingerprintableError } from "./parsed-value.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

const payment: FingerprintRequest = {
  operation: "payments.create",
  method: "POST",
  path: "/v1/payments",
  query: "b=1&a=2",
  mediaType: "application/json; charset=utf-8",
  headers: [["Stripe-Version", "2026-01-01"]],
  body: bytes('{ "currency": "eur", "amount": 100 }'),
};

function hex(request: Partial<FingerprintRequest>, options: FingerprintOptions = {}): string {
  return Buffer.from(fingerprint({ ...payment, ...request }, options).digest).toString("hex");
}

function formOf(request: Partial<FingerprintRequest>, options: FingerprintOptions = {}): string {
  return fingerprint({ ...payment, ...request }, options).bodyForm;
}

// Computed once by another program from the words of this module. A change here makes every stored fingerprint of
// this version key misuse: it needs a new version instead.
describe("version 1 is what it was", () => {
  const secret = "0123456789abcdef0123456789abcdef";
  const file: FingerprintRequest = {
    operation: "files.put",
    method: "PATCH",
    path: "/f/1",
    query: "",
    mediaType: null,
    headers: [],
    body: Uint8Array.of(0, 255, 10),
  };
  const parsed = { ...payment, body: { parsed: { currency: "eur", amount: 100 } } };

  test.each<[string, FingerprintRequest, FingerprintOptions, string]>([
    ["canonical-json", payment, {}, "7f3421d8b289374ddafc3707baca1124022cdd032f28f9ffce823ea6528f6dbd"],
    [
      "canonical-json",
      payment,
      { secret },
      "b8f90fa7f8e50fba95b4f0cc986c6877ded41647af59f0eaf090304e23b3c8b9",
    ],
    [
      "canonical-json",
      payment,
      { secret: bytes(secret) },
      "b8f90fa7f8e50fba95b4f0cc986c6877ded41647af59f0eaf090304e23b3c8b9",
    ],
    [
      "fields",
      payment,
      { body: { fields: ["note", "amount"] } },
      "f1032ffbf1bfb0a2dd758e4f5b1ed494c2ac0e63737a860e3b29319ab1cb3a06",
    ],
    [
      "parsed",
      parsed,
      { body: "parsed" },
      "d686a7f843106a822066d31a05f4538d67ef7c0b0254ed77a3d845f3a748f96e",
    ],
    ["raw", file, {}, "88cf107be6f17894eb60042e5e01e2c35ed5428b752076cc4e7933ce1017c4c4"],
  ])("%s %#", (bodyForm, request, options, digest) => {
    const result = fingerprint(request, options);
    expect({ ...result, digest: Buffer.from(result.digest).toString("hex") }).toEqual({
      version: 1,
      bodyForm,
      digest,
    });
  });

  test("values and bytes", () => {
    const value = fingerprintOf("mail.send", { b: [true, null], a: 1 });
    expect(Buffer.from(value.digest).toString("hex")).toBe(
      "2b0527505519bee378260f8374b044f59922d6dcf9282e60831431eb7359342e",
    );
    expect(value).toMatchObject({ version: 1, bodyForm: "parsed" });
    const message = fingerprintOf("mail.send", bytes("hi"));
    expect(Buffer.from(message.digest).toString("hex")).toBe(
      "6ba4adc5933dfa3721373c53c9f8c5c4f8dbe48edef998bb5e771d8e6fb04f67",
    );
    expect(message).toMatchObject({ version: 1, bodyForm: "raw" });
  });
});

describe("what makes two requests different (F1)", () => {
  test.each<[string, Partial<FingerprintRequest>]>([
    ["operation", { operation: "payments.refund" }],
    ["method", { method: "PATCH" }],
    ["path", { path: "/v1/payments/7" }],
    ["query", { query: "b=1&a=3" }],
    ["a query pair moved into the path", { path: "/v1/payments?a=2", query: "b=1" }],
    ["no media type", { mediaType: null }],
    ["an empty media type", { mediaType: "" }],
    ["media type", { mediaType: "application/merge-patch+json" }],
    ["a header's value", { headers: [["Stripe-Version", "2025-01-01"]] }],
    ["a header more", { headers: [...payment.headers, ["Accept-Language", "de"]] }],
    ["no header", { headers: [] }],
    ["body", { body: bytes('{ "currency": "eur", "amount": 101 }') }],
    ["no body", { body: bytes("") }],
  ])("%s", (_name, change) => {
    expect(hex(change)).not.toBe(hex({}));
  });

  test("a missing and an empty media type", () => {
    expect(hex({ mediaType: null })).not.toBe(hex({ mediaType: "" }));
  });
});

describe("what makes no difference (F1, F2)", () => {
  test.each<[string, Partial<FingerprintRequest>]>([
    ["order of the query", { query: "a=2&b=1" }],
    ["spelling of the media type", { mediaType: "APPLICATION/json" }],
    ["case of header names", { headers: [["stripe-version", "2026-01-01"]] }],
    ["order of members and white space", { body: bytes('{"amount":1e2,"currency":"\\u0065ur"}') }],
  ])("%s", (_name, change) => {
    expect(hex(change)).toBe(hex({}));
  });

  test("order of headers, but not of the values of one", () => {
    const [a, b, c] = [
      ["X-A", "1"],
      ["X-B", "2"],
      ["x-a", "3"],
    ] as const;
    expect(hex({ headers: [b, a, c] })).toBe(hex({ headers: [a, c, b] }));
    expect(hex({ headers: [c, a] })).not.toBe(hex({ headers: [a, c] }));
  });
});

describe("form of the body (F2)", () => {
  test.each([
    ['{"amount":1,"amount":2}', '{"amount":2}'],
    ["9007199254740993", "9007199254740992"],
    ["1e400", "null"],
    ['"\\ud800"', '"\\ud801"'],
    ['"\\ud800"', '"\\ufffd"'],
    ['{"a":{"__proto__":1}}', '{"a":{}}'],
    ["[".repeat(600) + "]".repeat(600), `${"[".repeat(600)} ${"]".repeat(600)}`],
  ])("%s and %s differ", (left, right) => {
    expect(hex({ body: bytes(left) })).not.toBe(hex({ body: bytes(right) }));
  });

  test.each<[string, string, string | null, FingerprintOptions]>([
    ["canonical-json", "{}", "application/json", {}],
    ["canonical-json", "{}", "application/problem+json", {}],
    ["raw", "{}", "text/plain", {}],
    ["raw", "{}", null, {}],
    ["raw", "{}", "application/json; charset=utf-16", {}],
    ["raw", "{}", "application/json, application/json", {}],
    ["raw", "{", "application/json", {}],
    ["raw", "", "application/json", {}],
    ["raw", "[[]]", "application/json", { limits: { maxDepth: 1 } }],
    ["raw", "[[]]", "application/json", { limits: { maxBytes: 3 } }],
    ["raw", "{}", "application/json", { body: "raw" }],
  ])("%s: %s as %s", (form, body, mediaType, options) => {
    expect(formOf({ body: bytes(body), mediaType }, options)).toBe(form);
  });

  test("the same bytes in another form are another fingerprint", () => {
    const body = bytes('{"amount":100,"currency":"eur"}');
    const parsed = fingerprint(
      { ...payment, body: { parsed: JSON.parse('{"amount":100,"currency":"eur"}') } },
      { body: "parsed" },
    );
    const digests = [
      hex({ body }),
      hex({ body }, { body: "raw" }),
      Buffer.from(parsed.digest).toString("hex"),
    ];
    expect(new Set(digests).size).toBe(3);
  });

  test("raw keeps every byte apart", () => {
    expect(hex({ body: bytes("{} ") }, { body: "raw" })).not.toBe(
      hex({ body: bytes("{}") }, { body: "raw" }),
    );
  });
});

describe("business fields", () => {
  const options: FingerprintOptions = { body: { fields: ["amount", "customer.id"] } };
  const fields = (body: string) => hex({ body: bytes(body) }, options);

  test("only they count, in canonical form", () => {
    expect(fields('{"amount":1.0,"customer":{"id":"c","name":"x"},"note":"a"}')).toBe(
      fields('{"note":"b","customer":{"id":"\\u0063"},"amount":1}'),
    );
    expect(fields('{"amount":1}')).not.toBe(fields('{"amount":2}'));
  });

  test("missing, null, and the text null are different", () => {
    const bodies = [
      '{"amount":1}',
      '{"amount":1,"customer":{"id":null}}',
      '{"amount":1,"customer":{"id":"null"}}',
    ];
    expect(new Set(bodies.map(fields)).size).toBe(3);
  });

  test("a value does not wander from one field to another", () => {
    expect(fields('{"amount":1}')).not.toBe(fields('{"customer":{"id":1}}'));
  });

  test("names that objects inherit are not found in them", () => {
    const inherited = { body: { fields: ["constructor", "a"] } } as const;
    expect(hex({ body: bytes('{"a":1}') }, inherited)).not.toBe(
      hex({ body: bytes('{"a":1,"constructor":{}}') }, inherited),
    );
  });

  test("the order in which they are named makes no difference", () => {
    const reversed = { body: { fields: ["customer.id", "amount"] } } as const;
    expect(hex({}, reversed)).toBe(hex({}, options));
  });

  test.each([
    ["canonical-json", "[1]"],
    ["canonical-json", '"amount"'],
    ["canonical-json", '{"other":1}'],
    ["canonical-json", '{"customer":[{"id":1}]}'],
    ["raw", '{"amount":1,"amount":2}'],
    ["raw", '{"amount":1,"note":1e400}'],
    ["fields", '{"amount":null}'],
  ])("%s: %s", (form, body) => {
    expect(formOf({ body: bytes(body) }, options)).toBe(form);
  });

  test("a body that is not JSON counts as a whole", () => {
    expect(formOf({ mediaType: "text/plain", body: bytes('{"amount":1}') }, options)).toBe("raw");
  });

  test.each([[[]], [["a", "a"]], [[""]], [["a..b"]], [[".a"]], [["a."]]])(
    "%j is a mistake of the programmer",
    (names) => {
      expect(() => hex({}, { body: { fields: names } })).toThrow(TypeError);
    },
  );
});

class Amount {
  readonly #cents: number;
  constructor(cents: number) {
    this.#cents = cents;
  }
  get isFree(): boolean {
    return this.#cents === 0;
  }
}

class Named {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

describe("parsed bodies", () => {
  const parsed = (value: unknown) => hex({ body: { parsed: value } }, { body: "parsed" });

  test("order of members makes no difference, __proto__ and toJSON are ordinary", () => {
    expect(parsed({ a: 1, b: 2 })).toBe(parsed({ b: 2, a: 1 }));
    expect(parsed(JSON.parse('{"__proto__":1,"a":1}'))).not.toBe(parsed({ a: 1 }));
    expect(parsed(JSON.parse('{"toJSON":1,"b":1,"a":2}'))).toBe(
      parsed(JSON.parse('{"a":2,"b":1,"toJSON":1}')),
    );
  });

  test("what has no canonical form is still distinguished", () => {
    expect(parsed("\ud800")).not.toBe(parsed("\ud801"));
    const deep = (inner: string) => JSON.parse("[".repeat(600) + inner + "]".repeat(600));
    expect(parsed(deep("1"))).not.toBe(parsed(deep("2")));
  });

  test("canonical and merely stringified text of the same bytes are different", () => {
    const body = { parsed: [[1]] };
    expect(hex({ body }, { body: "parsed" })).not.toBe(
      hex({ body }, { body: "parsed", limits: { maxDepth: 1 } }),
    );
  });

  test.each([
    ["undefined", undefined],
    ["a function", () => 1],
    ["NaN", { a: [Number.NaN] }],
    ["infinity, as JSON.parse makes of 1e400", JSON.parse("[1e400]")],
    ["a bigint", 1n],
    ["a bigint inside", { a: [{ b: 1n }] }],
    ["a Map", { a: new Map([["b", 1]]) }],
    ["a Set", [new Set([1])]],
    ["an invalid Date", { a: new Date(Number.NaN) }],
    ["an Error", { a: Object.assign(new Error("x"), { code: 1 }) }],
    ["a RegExp", { a: /x/u }],
    ["a Blob", { a: new Blob(["x"]) }],
    ["a File", { a: new File(["x"], "a.txt") }],
    ["a FormData", new FormData()],
    ["search parameters", new URLSearchParams("a=1")],
    ["headers", new Headers({ a: "1" })],
    ["a stream of Node's", { a: Readable.from(["x"]) }],
    ["a stream of the web's", { a: new Blob(["x"]).stream() }],
    ["bytes without an index", { a: new ArrayBuffer(1) }],
    ["a view without an index", { a: new DataView(new ArrayBuffer(1)) }],
    ["a promise", { a: Promise.resolve(1) }],
    ["an iterator", { a: [1].values() }],
    ["an instance whose members are private", { a: new Amount(1) }],
    ["what toJSON makes another such of", { toJSON: () => new Map([["a", 1]]) }],
    ["too deep for JSON.stringify", JSON.parse("[".repeat(100_000) + "]".repeat(100_000))],
  ])("%s cannot be fingerprinted", (_name, value) => {
    expect(() => parsed(value)).toThrow(NotFingerprintableError);
    expect(() => fingerprintOf("o", value)).toThrow(NotFingerprintableError);
  });

  test("a cycle cannot be fingerprinted", () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    expect(() => parsed(cycle)).toThrow(NotFingerprintableError);
  });

  test.each([
    ["dates", new Date(1), new Date(2)],
    ["addresses", new URL("https://a.example/1"), new URL("https://a.example/2")],
    ["bytes", Buffer.from("a"), Buffer.from("b")],
    ["arrays of numbers", new Float64Array([1]), new Float64Array([2])],
    ["no numbers and one", new Uint8Array(0), new Uint8Array(1)],
    ["instances with members", new Named("a"), new Named("b")],
    ["objects without a prototype", Object.create(null), Object.assign(Object.create(null), { a: 1 })],
    ["objects of another realm", runInNewContext("({})"), runInNewContext("({ a: {} })")],
    ["boxed values", new String("a"), new String("b")],
  ])("%s are distinguished", (_name, left, right) => {
    expect(parsed({ a: left })).not.toBe(parsed({ a: right }));
    expect(parsed({ a: left })).toBe(parsed({ a: left }));
  });

  test("a member that is undefined is none, as for JSON", () => {
    expect(parsed({ a: 1, b: undefined })).toBe(parsed({ a: 1 }));
  });

  test("are opt-in, and then the only form", () => {
    expect(() => hex({ body: { parsed: 1 } })).toThrow(TypeError);
    expect(() => hex({ body: { parsed: 1 } }, { body: "raw" })).toThrow(TypeError);
    expect(() => hex({}, { body: "parsed" })).toThrow(TypeError);
  });
});

describe("multipart bodies (version 2)", () => {
  const parts = (boundary: string, { name = "f", file = "A" } = {}) =>
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${file}\r\n--${boundary}--\r\n`;
  const upload = (boundary: string, text = parts(boundary), type = "form-data") => ({
    mediaType: `multipart/${type}; boundary=${boundary}`,
    body: bytes(text),
  });

  test("the boundary does not count", () => {
    expect(fingerprint({ ...payment, ...upload("one") })).toMatchObject({
      version: 2,
      bodyForm: "multipart",
    });
    expect(hex(upload("one"))).toBe(hex(upload("a-much-longer-one")));
    const quoted = { ...upload("one"), mediaType: 'Multipart/Form-Data; Boundary="one"' };
    expect(hex(quoted)).toBe(hex(upload("one")));
    const padded = upload("one", parts("one").replace("--one\r\n", "--one \t\r\n"));
    expect(hex(padded)).toBe(hex(upload("two")));
  });

  test.each([
    ["another file", upload("one", parts("one", { file: "B" }))],
    ["an empty file", upload("one", parts("one", { file: "" }))],
    ["another name", upload("one", parts("one", { name: "g" }))],
    ["a part more", upload("one", `${parts("one").replace("--one--\r\n", "")}${parts("one")}`)],
    ["something after the last part", upload("one", `${parts("one")}x`)],
    ["something before the first part", upload("one", `x\r\n${parts("one")}`)],
    ["another type of multipart", upload("one", parts("one"), "mixed")],
  ])("%s counts", (_what, other) => {
    expect(hex(other)).not.toBe(hex(upload("one")));
    expect(fingerprint({ ...payment, ...other }).bodyForm).toBe("multipart");
  });

  test.each([
    ["is cut off", (boundary: string) => parts(boundary).slice(0, -6)],
    ["has bare line feeds", (boundary: string) => parts(boundary).replaceAll("\r\n", "\n")],
    [
      "has a line that begins with its boundary",
      (boundary: string) => parts(boundary, { file: `\r\n--${boundary}x` }),
    ],
    ["has a part without the end of its head", (boundary: string) => `--${boundary}\r\nx\r\n--${boundary}--`],
    ["has no part", () => "nothing"],
  ])("one that %s counts byte for byte, with its boundary", (_what, text) => {
    const [one, two] = ["one", "two"].map((boundary) => upload(boundary, text(boundary)));
    expect(formOf(one ?? {})).toBe("raw");
    expect(hex(one ?? {})).not.toBe(hex(two ?? {}));
  });

  test("no parts of one body are another's", () => {
    // The inner boundary of the one is the outer boundary of the other.
    const inner = parts("two", { file: "A" });
    expect(hex(upload("one", parts("one", { file: inner })))).not.toBe(hex(upload("two", inner)));
  });

  test.each([
    "multipart/form-data",
    "multipart/form-data; boundary=a; boundary=b",
    'multipart/form-data; boundary=""',
  ])("%s stays with version 1", (mediaType) => {
    expect(fingerprint({ ...payment, mediaType, body: bytes(parts("a")) }).version).toBe(1);
  });

  test("raw bytes are raw bytes, and version 1 can be asked for", () => {
    expect(hex(upload("one"), { body: "raw" })).not.toBe(hex(upload("two"), { body: "raw" }));
    const before = fingerprint({ ...payment, ...upload("one") }, { version: FINGERPRINT_VERSION });
    expect(before).toMatchObject({ version: 1, bodyForm: "raw" });
    expect(hex(upload("one"), { version: 1 })).not.toBe(hex(upload("two"), { version: 1 }));
  });
});

describe("conditions (version 2)", () => {
  test("count, in any order of names", () => {
    const conditions = [
      ["Range", "bytes=0-1"],
      ["if-range", '"1"'],
    ] as const;
    expect(fingerprint({ ...payment, conditions }).version).toBe(2);
    expect(hex({ conditions })).toBe(
      hex({
        conditions: [
          ["if-range", '"1"'],
          ["range", "bytes=0-1"],
        ],
      }),
    );
    expect(hex({ conditions })).not.toBe(hex({ conditions: conditions.slice(1) }));
    expect(hex({ conditions: [] })).toBe(hex({}));
    expect(hex({ conditions }, { version: 1 })).toBe(hex({}));
  });
});

describe("versions and secrets", () => {
  test("an unknown version is refused, the stored one can be asked for", () => {
    expect(hex({}, { version: FINGERPRINT_VERSION })).toBe(hex({}));
    expect(() => hex({}, { version: 2 })).toThrow(TypeError);
  });

  test("a secret changes the digest; an empty one is refused", () => {
    expect(new Set([hex({}), hex({}, { secret: "one" }), hex({}, { secret: "two" })]).size).toBe(3);
    expect(() => hex({}, { secret: "" })).toThrow(TypeError);
    expect(() => fingerprintOf("o", 1, { secret: new Uint8Array() })).toThrow(TypeError);
  });

  test("equal means version and digest", () => {
    const one = fingerprint(payment);
    const other = fingerprint({ ...payment, path: "/" });
    expect(sameFingerprint(one, { version: one.version, digest: Uint8Array.from(one.digest) })).toBe(true);
    expect(sameFingerprint(one, other)).toBe(false);
    expect(sameFingerprint(one, { ...one, version: 2 })).toBe(false);
    expect(sameFingerprint(one, { ...one, digest: one.digest.slice(1) })).toBe(false);
  });
});

describe("values without HTTP", () => {
  test("operation and value count, order of members does not", () => {
    const same = (left: unknown, right: unknown) =>
      sameFingerprint(fingerprintOf("o", left), fingerprintOf("o", right));
    expect(same({ a: 1, b: [1] }, { b: [1], a: 1 })).toBe(true);
    expect(same({ a: 1 }, { a: 2 })).toBe(false);
    expect(same("{}", {})).toBe(false);
    expect(same(bytes("1"), 1)).toBe(false);
    expect(sameFingerprint(fingerprintOf("o", 1), fingerprintOf("p", 1))).toBe(false);
  });

  test("a value and the round-tripped value are the same (X12)", () => {
    const input = { at: new Date(0), gone: undefined, zero: -0 };
    expect(
      sameFingerprint(fingerprintOf("o", input), fingerprintOf("o", JSON.parse(JSON.stringify(input)))),
    ).toBe(true);
  });
});

describe("properties", () => {
  const latin1 = fc.string({
    unit: fc.integer({ min: 1, max: 255 }).map((code) => String.fromCharCode(code)),
  });
  const request = fc.record({
    operation: latin1,
    method: latin1,
    path: latin1,
    query: fc.string({ unit: fc.constantFrom(..."ab=&%41+") }),
    mediaType: fc.oneof(fc.constantFrom(null, "application/json", "text/plain"), latin1),
    headers: fc.array(fc.tuple(fc.constantFrom("a", "B", "c"), latin1), { maxLength: 3 }),
    body: fc.oneof(fc.uint8Array(), fc.json().map(bytes)),
  });

  test("any request has a fingerprint, and the same one again", () => {
    fc.assert(
      fc.property(
        request,
        fc.constantFrom<FingerprintOptions>({}, { body: "raw" }, { body: { fields: ["a"] } }),
        (value, options) => {
          const first = fingerprint(value, options);
          expect(first.digest).toHaveLength(32);
          expect(sameFingerprint(first, fingerprint(structuredClone(value), options))).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("different bytes of a body that is not JSON have different fingerprints", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), (left, right) => {
        const equal = Buffer.compare(left, right) === 0;
        expect(hex({ body: left, mediaType: null }) === hex({ body: right, mediaType: null })).toBe(equal);
      }),
    );
  });

  test("different bytes of a JSON body have equal fingerprints only where they are the same JSON value", () => {
    const scrap = fc
      .array(fc.constantFrom("{", "}", '"a"', '"b"', ":", ",", "1", "1.0", " ", "[", "]"), { maxLength: 5 })
      .map((parts) => parts.join(""));
    const json = fc.oneof(
      scrap,
      fc.constantFrom('{"a":1,"b":1}', '{"b":1.0,"a":1}', "[1]", "[ 1]", '{"a":1,"a":1}'),
    );
    const meaning = (text: string) => {
      const form = formOf({ body: bytes(text) });
      return form === "raw" ? `raw ${text}` : JSON.stringify(JSON.parse(text, sortMembers));
    };
    fc.assert(
      fc.property(json, json, (left, right) => {
        expect(hex({ body: bytes(left) }) === hex({ body: bytes(right) })).toBe(
          meaning(left) === meaning(right),
        );
      }),
      { numRuns: 1000 },
    );
  });

  test("a change of any one part changes the fingerprint", () => {
    fc.assert(
      fc.property(request, fc.constantFrom("operation", "method", "path"), latin1, (value, part, other) => {
        fc.pre(value[part] !== other);
        expect(sameFingerprint(fingerprint(value), fingerprint({ ...value, [part]: other }))).toBe(false);
      }),
    );
  });
});

function sortMembers(_name: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)));
}
