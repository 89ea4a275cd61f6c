/** Requests: which are the same, and which are refused. */
import assert from "node:assert/strict";
import { assertProblem, assertReplay, type HttpCase, type Setup } from "./case.ts";
import { type HttpCall, newKey } from "./client.ts";

const json = (body: string): HttpCall => ({ body });
const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;
const misuse = { status: 422, retryable: false, safeNewKey: false } as const;

/** An upload of one file, as a client sends it with this boundary. */
const upload = (boundary: string, file = "A"): HttpCall => ({
  contentType: `multipart/form-data; boundary=${boundary}`,
  body: `--${boundary}\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n${file}\r\n--${boundary}--\r\n`,
});

interface Pair {
  readonly what: string;
  readonly first: HttpCall;
  readonly second: HttpCall;
  readonly settings?: Setup["settings"];
}

const same: readonly Pair[] = [
  {
    what: "members in another order",
    first: json('{"a":1,"b":[2]}'),
    second: json('{ "b" : [2], "a" : 1.0 }'),
  },
  { what: "6,000 nested arrays, byte for byte", first: json(nested(6000)), second: json(nested(6000)) },
  { what: "no body", first: { body: "", contentType: null }, second: { body: "", contentType: null } },
  {
    what: "a media type in another spelling",
    first: { contentType: "application/json" },
    second: { contentType: "Application/JSON; charset=utf-8" },
  },
  {
    what: "query parameters in another order",
    first: { target: "/run?a=1&b=2" },
    second: { target: "/run?b=2&a=1" },
  },
  {
    what: "the selected business fields",
    first: json('{"amount":1,"note":"a"}'),
    second: json('{"amount":1,"note":"b"}'),
    settings: { fingerprint: { body: { fields: ["amount"] } } },
  },
  { what: "a multipart body with another boundary", first: upload("one"), second: upload("two") },
  {
    what: "a multipart body with another boundary, if the parsed value counts",
    first: upload("one"),
    second: upload("two"),
    settings: { fingerprint: "parsed" },
  },
  {
    what: "another trace header",
    first: { headers: [["X-Request-Id", "1"]] },
    second: { headers: [["X-Request-Id", "2"]] },
  },
];

const different: readonly Pair[] = [
  { what: "2^53 and 2^53+1", first: json('{"a":9007199254740992}'), second: json('{"a":9007199254740993}') },
  { what: "1e400 and null", first: json('{"a":1e400}'), second: json('{"a":null}') },
  {
    what: "duplicate names and only the last of them",
    first: json('{"a":1,"a":2}'),
    second: json('{"a":2}'),
  },
  { what: "6,000 and 6,001 nested arrays", first: json(nested(6000)), second: json(nested(6001)) },
  { what: "an own __proto__ and none", first: json('{"__proto__":{"a":1}}'), second: json("{}") },
  { what: "with and without a query", first: { target: "/run" }, second: { target: "/run?dry=1" } },
  { what: "another query", first: { target: "/run?to=a" }, second: { target: "/run?to=b" } },
  {
    what: "another media type",
    first: { contentType: "text/plain", body: "a=1" },
    second: { contentType: "text/csv", body: "a=1" },
  },
  {
    what: "another text",
    first: { contentType: "text/plain", body: "a" },
    second: { contentType: "text/plain", body: "b" },
  },
  {
    what: "members in another order, if raw bytes count",
    first: json('{"a":1,"b":2}'),
    second: json('{"b":2,"a":1}'),
    settings: { fingerprint: "raw" },
  },
  { what: "another file in a multipart body", first: upload("one"), second: upload("one", "B") },
  {
    what: "another boundary, if raw bytes count",
    first: upload("one"),
    second: upload("two"),
    settings: { fingerprint: "raw" },
  },
  {
    what: "a part of the answer and all of it",
    first: { headers: [["Range", "bytes=0-1"]] },
    second: {},
  },
  {
    what: "another range",
    first: { headers: [["Range", "bytes=0-1"]] },
    second: { headers: [["Range", "bytes=2-3"]] },
  },
  {
    what: "with and without a precondition",
    first: { headers: [["If-Match", '"1"']] },
    second: {},
  },
  {
    what: "the same bytes at another position",
    first: { headers: [["Content-Range", "bytes 0-11/24"]] },
    second: { headers: [["Content-Range", "bytes 12-23/24"]] },
  },
  {
    what: "another API version, if it counts",
    first: { headers: [["X-Api-Version", "1"]] },
    second: { headers: [["X-Api-Version", "2"]] },
    settings: { fingerprint: { headers: ["X-Api-Version"] } },
  },
];

export const requestBodyCases: readonly HttpCase[] = [
  ...same.map(
    ({ what, first, second, settings = {} }): HttpCase => ({
      name: `requests: ${what}: the same request`,
      execution: "lease",
      async run({ start }) {
        const subject = await start({
          execution: "lease",
          settings,
          handle: async () => ({ status: 201, body: "done" }),
        });
        const key = newKey();
        assertReplay(await subject.send({ ...first, key }), await subject.send({ ...second, key }));
        assert.equal(subject.starts(), 1);
      },
    }),
  ),
  ...different.map(
    ({ what, first, second, settings = {} }): HttpCase => ({
      name: `requests: ${what}: another request`,
      execution: "lease",
      async run({ start }) {
        const subject = await start({
          execution: "lease",
          settings,
          handle: async () => ({ status: 201, body: "done" }),
        });
        const key = newKey();
        assert.equal((await subject.send({ ...first, key })).status, 201);
        assertProblem(await subject.send({ ...second, key }), "key-misuse", misuse);
        assert.equal(subject.starts(), 1);
      },
    }),
  ),
  {
    name: "requests: a body that claims to be JSON and is not has the same outcome each time",
    execution: "lease",
    async run({ start }) {
      for (const body of ["not json", '{"a":', "\u0000", '{"a":1}{"a":2}']) {
        const subject = await start({ execution: "lease" });
        const key = newKey();
        const first = await subject.send({ key, body });
        const second = await subject.send({ key, body });
        assert.ok([201, 400].includes(first.status), "it runs, or the framework refuses to parse it");
        assert.equal(second.status, first.status);
        assert.equal(subject.starts(), first.status === 201 ? 1 : 0);
      }
    },
  },
  {
    name: "requests: the handler reads the body as it was sent",
    async run({ start }, execution) {
      const body = Uint8Array.from({ length: 256 }, (_, index) => index);
      const subject = await start({ execution });
      const answer = await subject.send({ body, contentType: "application/octet-stream" });
      assert.deepEqual(answer.body, Buffer.from(body));
    },
  },
  {
    name: "requests: a body over the limit is refused before anything runs, and its key stays free",
    async run({ start }, execution) {
      const subject = await start({ execution });
      const key = newKey();
      const tenMegabytes = Buffer.alloc(10 * 1024 * 1024, "x");
      const answer = await subject.send({ key, body: tenMegabytes, contentType: "text/plain" });
      assertProblem(answer, "payload-too-large", { status: 413, retryable: false, safeNewKey: true });
      assert.equal(subject.starts(), 0);
      assert.equal((await subject.send({ key })).status, 201);
    },
  },
];
