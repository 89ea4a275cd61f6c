import { describe, expect, test } from "vitest";
import { checkStoredHeaders, type HeaderEntry, type Reply, storedForm, withoutFraming } from "./capture.ts";

const body = Buffer.from("body");
const reply = (headers: readonly HeaderEntry[], status = 200): Reply => ({ status, headers, body });
const usual = checkStoredHeaders([]);

describe("the stored part of an answer", () => {
  test("headers that belong to it, line by line, in order and as written", () => {
    const headers: HeaderEntry[] = [
      ["Link", "</a>"],
      ["ETag", '"1"'],
      ["LINK", "</b>"],
      ["content-type", "text/plain"],
      ["Location", "/x"],
      ["Retry-After", "5"],
    ];
    expect(storedForm(reply(headers), usual)).toEqual({ status: 200, headers, body, omitted: null });
  });

  test.each([
    "Set-Cookie",
    "WWW-Authenticate",
    "Authorization",
    "Proxy-Authenticate",
    "Connection",
    "Keep-Alive",
    "Transfer-Encoding",
    "Upgrade",
    "Date",
    "Age",
    "Access-Control-Allow-Origin",
    "traceparent",
    "X-Request-Id",
    "X-B3-TraceId",
    "Server-Timing",
    "X-Unheard-Of",
  ])("never %s", (name) => {
    expect(storedForm(reply([[name, "1"]]), usual)).toMatchObject({ headers: [], omitted: null });
  });

  test("names a service adds, except those that belong to one caller or one moment", () => {
    const stored = checkStoredHeaders(["X-Order-Version"]);
    expect(storedForm(reply([["x-order-version", "7"]]), stored).headers).toEqual([["x-order-version", "7"]]);
    for (const name of [
      "Set-Cookie",
      "date",
      "Access-Control-Max-Age",
      "X-B3-SpanId",
      "Content-Length",
      "no header",
      "",
    ]) {
      expect(() => checkStoredHeaders([name]), name).toThrow(TypeError);
    }
  });

  test.each(["a\r\nSet-Cookie: b", "a\nb", "a\0b", "a\x7fb", "grüß \u20ac"])(
    "a value that cannot be sent (%j) leaves a tombstone",
    (value) => {
      const headers: HeaderEntry[] = [
        ["ETag", '"1"'],
        ["Location", value],
      ];
      const stored = storedForm(reply(headers), usual);
      expect(stored).toEqual({
        status: 200,
        headers: [["ETag", '"1"']],
        body: new Uint8Array(0),
        omitted: "not-storable",
      });
    },
  );

  test("tabs and latin-1 can be sent", () => {
    expect(storedForm(reply([["Location", "a\tgrüß"]]), usual).omitted).toBeNull();
  });

  test("an interim status is not stored", () => {
    expect(storedForm(reply([], 103), usual).omitted).toBe("not-storable");
  });
});

describe("an answer without its framing", () => {
  test("has no length, transfer encoding or trailers", () => {
    const headers: HeaderEntry[] = [
      ["Content-Length", "4"],
      ["transfer-encoding", "chunked"],
      ["Trailer", "X"],
      ["ETag", '"1"'],
    ];
    expect(withoutFraming("POST", reply(headers))).toEqual({ status: 200, headers: [["ETag", '"1"']], body });
  });

  test.each([
    ["HEAD", 200],
    ["POST", 204],
    ["POST", 205],
    ["POST", 304],
  ])("%s with %i has no body", (method, status) => {
    expect(withoutFraming(method, reply([], status)).body).toHaveLength(0);
  });
});
