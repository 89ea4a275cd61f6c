/** Served operations, which own their work: the input, and the answer the first time and on replay. */
import assert from "node:assert/strict";
import type { RunAnswer } from "latchkey";
import { assertProblem, assertReplay, type HttpCase, type ServedInput } from "./case.ts";
import { newKey } from "./client.ts";

const everyByte = Uint8Array.from({ length: 256 }, (_, index) => index);
const octets = { "Content-Type": "application/octet-stream" };

const kinds: readonly (readonly [what: string, answer: RunAnswer, body: Uint8Array | string])[] = [
  ["nothing", { status: 201 }, ""],
  ["204", { status: 204 }, ""],
  ["the JSON value null", { body: null }, "null"],
  ["the JSON value 0", { body: 0 }, "0"],
  ["JSON with characters of all lengths", { status: 201, body: { a: "grüß€😀" } }, '{"a":"grüß€😀"}'],
  ["all byte values", { headers: octets, body: everyByte }, everyByte],
  ["a redirect", { status: 303, headers: { Location: "/elsewhere" } }, ""],
  ["a refusal", { status: 422, body: { error: "no" } }, '{"error":"no"}'],
];

/** Thrown by `toInput`, marked the way frameworks mark errors that are the client's fault. */
const unprocessable = Object.assign(new Error("the amount is missing"), { status: 422, statusCode: 422 });

function throwing(error: Error): () => never {
  return () => {
    throw error;
  };
}

const rejected: readonly (readonly [what: string, toInput: () => unknown, status: number])[] = [
  ["throws", throwing(new Error("the mapping is broken")), 500],
  ["throws a 422", throwing(unprocessable), 422],
  ["makes an input that JSON cannot represent", () => ({ sent: 1n }), 500],
];

const all = [
  ...kinds.map(
    ([what, answer, body]): HttpCase => ({
      name: `served: ${what}, then the same again`,
      async run({ serve }, execution) {
        const subject = await serve({ execution, run: async () => answer });
        const key = newKey();
        const first = await subject.send({ key });
        assert.deepEqual(first.body, Buffer.from(body as string));
        assert.equal(first.status, answer.status ?? 200);
        assertReplay(first, await subject.send({ key }), ["location"]);
        assertReplay(first, await subject.send({ key }), ["location"]);
        assert.equal(subject.starts(), 1);
      },
    }),
  ),
  {
    name: "served: the operation gets the input that the route makes of the request's body",
    async run({ serve }, execution) {
      const given: ServedInput[] = [];
      const subject = await serve({
        execution,
        toInput: (sent) => ({ sent, amount: JSON.parse(sent).amount }),
        async run(input) {
          given.push(input);
          return { status: 201, body: input };
        },
      });
      const first = await subject.send({ body: '{"amount":7,"name":"grüß"}' });
      assert.equal(first.header("content-type"), "application/json");
      assert.deepEqual(given, [first.json()]);
      assert.equal(first.json().amount, 7);
      assert.deepEqual(JSON.parse(String(first.json().sent)), { amount: 7, name: "grüß" });
    },
  },
  {
    name: "served: writes and answer are stored together, once",
    execution: "transaction",
    async run({ serve, committedRows }) {
      const subject = await serve({
        execution: "transaction",
        async run(_input, { write }) {
          await write("first");
          return { status: 201, body: "done" };
        },
      });
      const key = newKey();
      assertReplay(await subject.send({ key }), await subject.send({ key }));
      if (committedRows !== null) assert.deepEqual(await committedRows(), ["first"]);
    },
  },
  {
    name: "served: the first caller gets every header, the second only those that belong to the answer",
    async run({ serve }, execution) {
      const headers = {
        Link: ["</a>; rel=a", "</b>; rel=b"],
        ETag: '"v1"',
        Location: "/orders/1",
        "Set-Cookie": ["a=1", "b=2"],
        "X-Request-Id": "r-1",
        "X-Order-Version": "7",
        "X-Other": "8",
      };
      const settings = { storedHeaders: ["X-Order-Version"] };
      const run = async () => ({ status: 201, headers, body: "done" });
      const subject = await serve({ execution, settings, run });
      const key = newKey();
      const first = await subject.send({ key });
      const replay = await subject.send({ key });
      assertReplay(first, replay, ["link", "etag", "location", "x-order-version"]);
      assert.equal(first.header("link"), "</a>; rel=a, </b>; rel=b");
      assert.equal(replay.header("x-order-version"), "7");
      assert.equal(
        first.lines.filter(([name]) => name === "set-cookie").length,
        2,
        "both cookies, on separate lines",
      );
      for (const name of ["set-cookie", "x-request-id", "x-other"]) {
        assert.notEqual(first.header(name), null, `${name} reaches the first caller`);
        assert.equal(replay.header(name), null, `${name} is not replayed`);
      }
    },
  },
  {
    name: "served: HEAD gets the headers and no body, both times",
    async run({ serve }, execution) {
      const run = async () => ({ headers: { ETag: '"v1"' }, body: "hidden" });
      const subject = await serve({ execution, method: "GET", run });
      const call = { method: "HEAD", key: newKey(), body: "", contentType: null };
      const first = await subject.send(call);
      assert.equal(first.status, 200);
      assert.equal(first.header("etag"), '"v1"');
      assert.equal(first.body.byteLength, 0);
      assertReplay(first, await subject.send(call), ["etag"]);
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "served: an answer too large to store leaves a tombstone that says so, and never runs again",
    async run({ serve }, execution) {
      const body = "x".repeat(101);
      const run = async () => ({ status: 201, headers: { Location: "/orders/1" }, body });
      const subject = await serve({ execution, options: { answerLimitBytes: 100 }, run });
      const key = newKey();
      const first = await subject.send({ key });
      assert.equal(first.body.toString(), JSON.stringify(body), "the first caller gets all of it");
      const replay = await subject.send({ key });
      assert.equal(replay.status, 201);
      assert.equal(replay.body.byteLength, 0);
      assert.equal(replay.header("location"), "/orders/1");
      assert.equal(replay.header("idempotent-replayed"), "true");
      assert.equal(replay.header("idempotency-status"), "answer-not-stored");
      assert.equal(subject.starts(), 1);
    },
  },
  ...rejected.map(
    ([what, toInput, status]): HttpCase => ({
      name: `served: if a route ${what}, the framework answers, and the key stays unused`,
      async run({ serve }, execution) {
        let made = 0;
        const subject = await serve({
          execution,
          toInput: (sent) => {
            made += 1;
            return made === 1 ? toInput() : { sent };
          },
        });
        const key = newKey();
        const failed = await subject.send({ key });
        assert.equal(failed.status, status);
        assert.equal(failed.header("idempotent-replayed"), null);
        assert.equal(subject.starts(), 0);
        // With another body: nothing was stored that it could contradict.
        const mended = await subject.send({ key, body: '{"amount":2}' });
        assert.equal(mended.status, 201);
        assertReplay(mended, await subject.send({ key, body: '{"amount":2}' }));
        assert.equal(subject.starts(), 1);
      },
    }),
  ),
  {
    name: "served: if the work throws, the framework answers, and the key runs again",
    async run({ serve, committedRows }, execution) {
      let runs = 0;
      const subject = await serve({
        execution,
        async run(_input, { write }) {
          runs += 1;
          if (execution === "transaction") await write(`row ${runs}`);
          if (runs === 1) throw new Error("failed on purpose");
          return { status: 201, body: "done" };
        },
      });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      const second = await subject.send({ key });
      assert.equal(second.status, 201);
      assertReplay(second, await subject.send({ key }));
      assert.equal(subject.starts(), 2);
      if (committedRows !== null) assert.deepEqual(await committedRows(), ["row 2"]);
    },
  },
  {
    name: "served: a 429 is temporary and is released",
    async run({ serve }, execution) {
      const answers = [429, 201];
      const subject = await serve({ execution, run: async () => ({ status: answers.shift() ?? 500 }) });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 429);
      const second = await subject.send({ key });
      assert.equal(second.status, 201);
      assertReplay(second, await subject.send({ key }));
    },
  },
  {
    name: "served: finished steps are not repeated when the work is resumed",
    execution: "lease",
    async run({ serve }) {
      let runs = 0;
      const subject = await serve({
        execution: "lease",
        options: { leaseEnd: "resume" },
        async run(_input, { write, attempt }) {
          runs += 1;
          await write("recorded");
          if (runs === 1) throw new Error("the other service refused the connection");
          return { status: 201, body: { attempt: attempt.fence.attempt } };
        },
      });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      const second = await subject.send({ key });
      assert.deepEqual([second.status, second.json()], [201, { attempt: 2 }]);
      assertReplay(second, await subject.send({ key }));
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "served: without a key, if none is required, it runs each time",
    async run({ serve }, execution) {
      const settings = { expiresHeader: "Idempotency-Expires" };
      const subject = await serve({ execution, settings, options: { key: "optional" } });
      for (const starts of [1, 2]) {
        const answer = await subject.send({ key: null });
        assert.equal(answer.status, 201);
        assert.equal(answer.header("idempotent-replayed"), null);
        assert.equal(answer.header("idempotency-expires"), null, "it is never replayed");
        assert.equal(subject.starts(), starts);
      }
      const key = newKey();
      const first = await subject.send({ key });
      assertReplay(first, await subject.send({ key }), ["idempotency-expires"]);
      assert.notEqual(first.header("idempotency-expires"), null);
    },
  },
  {
    name: "served: a body over the limit is refused before the route reads it",
    async run({ serve }, execution) {
      let made = 0;
      const subject = await serve({
        execution,
        settings: { bodyLimitBytes: 10 },
        toInput(sent) {
          made += 1;
          return { sent };
        },
      });
      const refused = await subject.send({ body: '{"amount":1234}' });
      assertProblem(refused, "payload-too-large", { status: 413, retryable: false, safeNewKey: true });
      assert.equal(made, 0);
    },
  },
] satisfies readonly HttpCase[];

export const servedCases: readonly HttpCase[] = all.map((each) => ({ ...each, served: true }));
