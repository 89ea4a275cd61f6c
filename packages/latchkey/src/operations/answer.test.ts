import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeAnswer, encodeAnswer } from "./answer.ts";

const everyByte = Uint8Array.from({ length: 256 }, (_, index) => index);

test("any answer survives its stored form byte for byte", () => {
  const headers = fc.array(fc.tuple(fc.string(), fc.string()));
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 599 }), headers, fc.uint8Array(), (status, given, body) => {
      const decoded = decodeAnswer(encodeAnswer({ status, headers: given, body, omitted: null }, 1_000_000));
      expect(decoded.status).toBe(status);
      expect(decoded.headers).toEqual(given);
      expect(Buffer.from(decoded.body).equals(body)).toBe(true);
      expect(decoded.omitted).toBeNull();
    }),
  );
});

test("a body with newlines and every byte value is not cut", () => {
  const body = Buffer.concat([Buffer.from("\n\n"), everyByte, Buffer.from("\n")]);
  const decoded = decodeAnswer(encodeAnswer({ status: 200, headers: [], body, omitted: null }, 1_000));
  expect(Buffer.from(decoded.body).equals(body)).toBe(true);
});

test("a body over the limit becomes a tombstone with status and headers", () => {
  const answer = { status: 201, headers: [["location", "/a"]] as const, body: everyByte, omitted: null };
  expect(decodeAnswer(encodeAnswer(answer, 256)).omitted).toBeNull();
  expect(decodeAnswer(encodeAnswer(answer, 255))).toEqual({
    status: 201,
    headers: [["location", "/a"]],
    body: new Uint8Array(0),
    omitted: "too-large",
  });
});

test("the stored form is schema version 1, literally", () => {
  const answer = { status: 201, headers: [["etag", '"x"']] as const, body: Buffer.from("hi"), omitted: null };
  const stored = Buffer.from(encodeAnswer(answer, 100)).toString("latin1");
  expect(stored).toBe('{"v":1,"s":201,"h":[["etag","\\"x\\""]],"o":null}\nhi');
});

test.each(["", "{}", '{"v":2,"s":200,"h":[],"o":null}\n'])(
  "anything but an answer of a known version is rejected: %j",
  (bytes) => {
    expect(() => decodeAnswer(Buffer.from(bytes))).toThrow();
  },
);
