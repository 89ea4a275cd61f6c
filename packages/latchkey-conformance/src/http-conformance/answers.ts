/** Answers: what the first caller gets, and what the second one gets. */
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { systemPorts } from "latchkey";
import { pause } from "latchkey/internal";
import { assertReplay, type HandlerAnswer, type HttpCase } from "./case.ts";
import { newKey, requestBytes, sendBytes } from "./client.ts";

const json = ["Content-Type", "application/json"] as const;
const everyByte = Uint8Array.from({ length: 256 }, (_, index) => index);

/** Lets the server's side of the connection make progress. */
const turn = () => pause(systemPorts.clock, 1);

async function* chunks(): AsyncGenerator<Uint8Array> {
  for (const text of ["one ", "two ", "three"]) {
    yield Buffer.from(text);
    await turn();
  }
}

const kinds: readonly (readonly [what: string, answer: () => HandlerAnswer, body: Uint8Array | string])[] = [
  ["nothing", () => ({ status: 201 }), ""],
  ["204", () => ({ status: 204 }), ""],
  ["the JSON value null", () => ({ status: 200, headers: [json], body: "null" }), "null"],
  ["the JSON value 0", () => ({ status: 200, headers: [json], body: "0" }), "0"],
  ["text", () => ({ status: 200, headers: [["Content-Type", "text/plain"]], body: "grüß" }), "grüß"],
  [
    "all byte values",
    () => ({ status: 200, headers: [["Content-Type", "application/octet-stream"]], body: everyByte }),
    everyByte,
  ],
  [
    "a stream",
    () => ({ status: 200, headers: [["Content-Type", "text/plain"]], body: chunks() }),
    "one two three",
  ],
  ["a redirect", () => ({ status: 303, headers: [["Location", "/elsewhere"]] }), ""],
  ["a refusal", () => ({ status: 422, headers: [json], body: '{"error":"no"}' }), '{"error":"no"}'],
];

export const answerCases: readonly HttpCase[] = [
  ...kinds.map(
    ([what, answer, body]): HttpCase => ({
      name: `answers: ${what}, then the same again`,
      async run({ start }, execution) {
        const subject = await start({ execution, handle: async () => answer() });
        const key = newKey();
        const first = await subject.send({ key });
        assert.deepEqual(first.body, Buffer.from(body as string));
        assert.equal(first.status, answer().status);
        if (first.status === 204)
          assert.equal(first.header("content-length"), null, "there is no body to count");
        assertReplay(first, await subject.send({ key }), ["location"]);
        assertReplay(first, await subject.send({ key }), ["location"]);
        assert.equal(subject.starts(), 1);
      },
    }),
  ),
  {
    name: "answers: a compressed body is replayed compressed",
    execution: "lease",
    async run({ start }) {
      const body = gzipSync("compressed");
      const headers = [["Content-Type", "text/plain"] as const, ["Content-Encoding", "gzip"] as const];
      const subject = await start({
        execution: "lease",
        handle: async () => ({ status: 200, headers, body }),
      });
      const key = newKey();
      const first = await subject.send({ key });
      assert.deepEqual(first.body, body);
      assertReplay(first, await subject.send({ key }), ["content-encoding"]);
    },
  },
  {
    name: "answers: the first caller gets every header, the second only those that belong to the answer",
    async run({ start }, execution) {
      const headers = [
        ["Content-Type", "text/plain"],
        ["Link", "</a>; rel=a"],
        ["ETag", '"v1"'],
        ["Location", "/orders/1"],
        ["Link", "</b>; rel=b"],
        ["Set-Cookie", "a=1"],
        ["Set-Cookie", "b=2"],
        ["X-Request-Id", "r-1"],
        ["Access-Control-Allow-Origin", "*"],
        ["X-Order-Version", "7"],
        ["X-Other", "8"],
      ] as const;
      const settings = { storedHeaders: ["X-Order-Version"] };
      const handle = async () => ({ status: 201, headers, body: "done" });
      const subject = await start({ execution, settings, handle });
      const key = newKey();
      const first = await subject.send({ key });
      const replay = await subject.send({ key });
      assertReplay(first, replay, ["link", "etag", "location", "x-order-version"]);
      assert.equal(first.header("link"), "</a>; rel=a, </b>; rel=b");
      assert.equal(replay.header("location"), "/orders/1");
      assert.equal(replay.header("x-order-version"), "7");
      const cookies = (answer: typeof first) => answer.lines.filter(([name]) => name === "set-cookie").length;
      assert.equal(cookies(first), 2, "both cookies, on separate lines");
      for (const name of ["set-cookie", "x-request-id", "access-control-allow-origin", "x-other"]) {
        assert.notEqual(first.header(name), null, `${name} reaches the first caller`);
        assert.equal(replay.header(name), null, `${name} is not replayed`);
      }
    },
  },
  {
    name: "answers: one too large to store leaves a tombstone that says so, and never runs again",
    async run({ start }, execution) {
      const body = "x".repeat(101);
      const subject = await start({
        execution,
        options: { answerLimitBytes: 100 },
        handle: async () => ({
          status: 201,
          headers: [
            ["Location", "/orders/1"],
            ["Content-Encoding", "identity"],
          ],
          body,
        }),
      });
      const key = newKey();
      const first = await subject.send({ key });
      assert.equal(first.body.toString(), body, "the first caller gets all of it");
      const replay = await subject.send({ key });
      assert.equal(replay.status, 201);
      assert.equal(replay.body.byteLength, 0);
      assert.equal(replay.header("location"), "/orders/1");
      assert.equal(replay.header("content-encoding"), null, "it would describe bytes that are missing");
      assert.equal(replay.header("idempotent-replayed"), "true");
      assert.equal(replay.header("idempotency-status"), "answer-not-stored");
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "answers: one of 20 MB reaches the first caller complete",
    execution: "transaction",
    async run({ start }, execution) {
      const body = Buffer.alloc(20 * 1024 * 1024, everyByte);
      const headers = [["Content-Type", "application/octet-stream"] as const];
      const subject = await start({ execution, handle: async () => ({ status: 200, headers, body }) });
      const key = newKey();
      const first = await subject.send({ key });
      assert.equal(first.body.equals(body), true);
      const replay = await subject.send({ key });
      assert.equal(replay.body.byteLength, 0);
      assert.equal(replay.header("idempotency-status"), "answer-not-stored");
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "answers: HEAD gets the headers and no body, both times",
    async run({ start }, execution) {
      const headers = [
        ["Content-Type", "text/plain; charset=utf-8"],
        ["ETag", '"v1"'],
      ] as const;
      const handle = async () => ({ status: 200, headers, body: "hidden" });
      const subject = await start({ execution, method: "GET", handle });
      const call = { method: "HEAD", key: newKey(), body: "", contentType: null };
      const first = await subject.send(call);
      assert.equal(first.header("etag"), '"v1"');
      assert.equal(first.body.byteLength, 0);
      assertReplay(first, await subject.send(call), ["etag"]);
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "answers: if the client disconnects, the handler finishes and the retry gets its answer",
    async run({ start }, execution) {
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
      async function* slow(): AsyncGenerator<Uint8Array> {
        yield Buffer.from("before ");
        arrive();
        await released;
        yield Buffer.from("after");
      }
      const subject = await start({ execution, handle: async () => ({ status: 201, body: slow() }) });
      const key = newKey();
      const hangUp = new AbortController();
      const lost = subject.send({ key }, hangUp.signal);
      await arrived;
      hangUp.abort();
      await assert.rejects(lost);
      // The server handles each of these after the disconnect.
      for (let round = 0; round < 3; round++) await subject.send({ key: null });
      release();
      let retry = await subject.send({ key });
      for (let round = 0; round < 500 && retry.status === 409; round++) retry = await subject.send({ key });
      assert.equal(retry.status, 201);
      assert.equal(retry.body.toString(), "before after");
      assert.equal(retry.header("idempotent-replayed"), "true");
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "answers: no byte is sent before the store has confirmed",
    async run({ start }, execution) {
      const headers = [["Content-Type", "text/plain"] as const];
      const subject = await start({
        execution,
        handle: async () => ({ status: 201, headers, body: chunks() }),
      });
      const { reached, confirm } = subject.parkCompletion();
      const exchange = sendBytes(subject.url, requestBytes([`Idempotency-Key: ${newKey()}`], ""));
      await reached;
      for (let round = 0; round < 20; round++) await turn();
      assert.equal(exchange.received().toString(), "");
      confirm();
      await exchange.closed;
      assert.match(exchange.received().toString(), /^HTTP\/1\.1 201 .*one two three/su);
    },
  },
];
