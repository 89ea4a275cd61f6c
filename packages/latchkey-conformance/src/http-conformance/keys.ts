/** Keys: missing, malformed, optional. */
import assert from "node:assert/strict";
import { stripe } from "latchkey";
import { assertProblem, assertReplay, type HttpCase } from "./case.ts";
import { newKey, requestBytes, sendBytes } from "./client.ts";

const refused = { status: 400, retryable: false, safeNewKey: true } as const;

const malformed: readonly (readonly [what: string, value: string])[] = [
  ["empty", ""],
  ["empty and quoted", '""'],
  ["only spaces", '"   "'],
  ["of 256 characters", "k".repeat(256)],
  ["quoted, of 256 characters", `"${"k".repeat(256)}"`],
  ["not ASCII", "schl\u00fcssel"],
  ["with a tab", "a\tb"],
  ["with a bare space", "a b"],
  ["without its closing quote", '"a'],
  ["with an unknown escape", '"a\\,"'],
  ["a list", '"a", "b"'],
  ["the word undefined, sent by a client's bug", "undefined"],
  ["null, quoted", '"null"'],
  ["an object converted to text", '"[object Object]"'],
  ["NaN", "NaN"],
];

export const keyCases: readonly HttpCase[] = [
  {
    name: "keys: a missing key is refused before anything runs",
    async run({ start }, execution) {
      const subject = await start({ execution });
      assertProblem(await subject.send({ key: null }), "missing-key", refused);
      assert.equal(subject.starts(), 0);
    },
  },
  ...malformed.map(
    ([what, value]): HttpCase => ({
      name: `keys: one that is ${what} is refused, even if none is required`,
      execution: "lease",
      async run({ start }) {
        for (const key of ["required", "optional"] as const) {
          const subject = await start({ execution: "lease", options: { key } });
          assertProblem(await subject.send({ key: value }), "invalid-key", refused);
          assert.equal(subject.starts(), 0);
        }
      },
    }),
  ),
  {
    name: "keys: a repeated header is refused",
    execution: "lease",
    async run({ start, seesFieldLines }) {
      const subject = await start({ execution: "lease" });
      const repeats = [
        ["a", "b"],
        ["a", "a"],
        ['"a"', '"b"'],
        // Joined with a comma, these two lines are one valid String.
        ...(seesFieldLines ? [['"a', 'b"']] : []),
      ];
      for (const [first = "", second = ""] of repeats) {
        const answer = await subject.send({ key: first, headers: [["Idempotency-Key", second]] });
        assertProblem(answer, "invalid-key", refused);
      }
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "keys: a NUL in the header never reaches a handler",
    execution: "lease",
    async run({ start }) {
      const subject = await start({ execution: "lease" });
      const exchange = sendBytes(subject.url, requestBytes(["Idempotency-Key: a\0b"], ""));
      await exchange.closed;
      assert.match(exchange.received().toString("latin1"), /^HTTP\/1\.1 400 /u);
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "keys: quoted or bare, with or without parameters, it is the same key",
    execution: "lease",
    async run({ start }) {
      const subject = await start({ execution: "lease" });
      const key = newKey();
      const first = await subject.send({ key });
      for (const same of [`"${key}"`, `"${key}";v=1`, ` ${key} `])
        assertReplay(first, await subject.send({ key: same }));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "keys: one of 255 characters is accepted",
    execution: "lease",
    async run({ start }) {
      const subject = await start({ execution: "lease" });
      assert.equal((await subject.send({ key: "k".repeat(255) })).status, 201);
    },
  },
  {
    name: "keys: without one, an operation that requires none runs every time and stores nothing",
    async run({ start }, execution) {
      const subject = await start({ execution, options: { key: "optional" } });
      for (const starts of [1, 2]) {
        const answer = await subject.send({ key: null });
        assert.equal(answer.status, 201);
        assert.equal(answer.body.toString(), '{"amount":1}', "the handler must have its body");
        assert.equal(answer.header("idempotent-replayed"), null);
        assert.equal(subject.starts(), starts);
      }
      const key = newKey();
      assertReplay(await subject.send({ key }), await subject.send({ key }));
    },
  },
  {
    name: "keys: Stripe's practice makes them optional",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: stripe });
      assert.equal((await subject.send({ key: null })).status, 201);
      assert.equal((await subject.send({ key: null })).status, 201);
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "keys: the service chooses the header's name, the syntax and the marker",
    execution: "lease",
    async run({ start }) {
      const settings = {
        header: "X-Request-Key",
        replayHeader: "X-Replay",
        key: { syntax: "strict", minLength: 3 },
      } as const;
      const subject = await start({ execution: "lease", settings });
      const call = (key: string) => subject.send({ key: null, headers: [["X-Request-Key", key]] });
      assertProblem(await subject.send({ key: "ignored" }), "missing-key", refused);
      assertProblem(await call("bare"), "invalid-key", refused);
      assertProblem(await call('"ab"'), "invalid-key", refused);
      assert.equal((await call('"abc"')).header("x-replay"), null);
      assert.equal((await call('"abc"')).header("x-replay"), "true");
    },
  },
];
