/** Served operations: what a caller gets instead of an answer, and what is rejected when the route is created. */
import assert from "node:assert/strict";
import { parseHttpDate } from "latchkey/internal";
import { assertProblem, assertReplay, assertRetryAfter, createGate, type HttpCase } from "./case.ts";
import { newKey } from "./client.ts";

const misuse = { status: 422, retryable: false, safeNewKey: false } as const;
const invalid = { status: 400, retryable: false, safeNewKey: true } as const;
const minuteMs = 60_000;

const all: readonly HttpCase[] = [
  {
    name: "served: an operation without `run` is rejected when the route is created",
    async run({ startWrong }, execution) {
      await assert.rejects(startWrong("served", execution), TypeError);
    },
  },
  {
    name: "served: a missing key, a malformed key and a missing tenant are refused",
    async run({ serve }, execution) {
      const subject = await serve({ execution });
      assertProblem(await subject.send({ key: null }), "missing-key", invalid);
      assertProblem(await subject.send({ key: '"unfinished' }), "invalid-key", invalid);
      assert.equal((await subject.send({ tenant: null })).status, 500);
      assert.equal((await subject.send({ tenant: "throw" })).status, 500);
      assert.equal((await subject.send({ tenant: "Bearer token" })).status, 500);
      assert.equal((await subject.send({ key: "undefined" })).status, 400);
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "served: a key with another body, or of another principal, is misuse and changes nothing",
    async run({ serve }, execution) {
      const subject = await serve({ execution });
      const key = newKey();
      const first = await subject.send({ key, principal: "alice" });
      const others = [{ key, principal: "alice", body: '{"amount":2}' }, { key, principal: "bob" }, { key }];
      for (const other of others) {
        const answer = await subject.send(other);
        assertProblem(answer, "key-misuse", misuse);
        assert.equal(answer.json().operation_ref, undefined);
      }
      assertReplay(first, await subject.send({ key, principal: "alice" }));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "served: two tenants with the same key are independent",
    async run({ serve }, execution) {
      const subject = await serve({ execution });
      const key = newKey();
      const first = await subject.send({ key, tenant: "tenant-a" });
      const other = await subject.send({ key, tenant: "tenant-b", body: '{"amount":2}' });
      assert.equal(other.status, 201);
      assert.equal(other.header("idempotent-replayed"), null);
      assertReplay(first, await subject.send({ key, tenant: "tenant-a" }));
    },
  },
  {
    name: "served: a duplicate of a running request gets 409 with Retry-After",
    async run({ serve }, execution) {
      const gate = createGate();
      const subject = await serve({
        execution,
        async run() {
          await gate.pass();
          return { status: 201, body: "done" };
        },
      });
      const key = newKey();
      const running = subject.send({ key });
      await gate.arrived;
      const duplicate = await subject.send({ key });
      assertProblem(duplicate, "in-progress", { status: 409, retryable: true, safeNewKey: false });
      assertRetryAfter(duplicate);
      gate.open();
      assertReplay(await running, await subject.send({ key }));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "served: an unknown outcome is not retryable, and says that a new key is not safe",
    execution: "lease",
    async run({ serve }) {
      // Steps of another version than the operation's wait for a person.
      let version = "1";
      const subject = await serve({
        execution: "lease",
        options: { leaseEnd: "resume" },
        async run(_input, { write }) {
          await write(`step of version ${version}`);
          version = "2";
          throw new Error("failed on purpose");
        },
      });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      for (let round = 0; round < 2; round++) {
        const answer = await subject.send({ key });
        assertProblem(answer, "outcome-unknown", { status: 409, retryable: false, safeNewKey: false });
        assert.equal(typeof answer.json().operation_ref, "string");
      }
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "served: a stored answer says how long it is kept, is gone after that, and runs as new once it is forgotten",
    async run({ serve, advance }, execution) {
      const settings = { expiresHeader: "Idempotency-Expires" };
      const options = { retentionMs: minuteMs, forgetAfterMs: 2 * minuteMs };
      const subject = await serve({ execution, settings, options });
      const key = newKey();
      const first = await subject.send({ key });
      const expires = first.header("idempotency-expires") ?? "";
      assert.ok(parseHttpDate(expires) !== null, `"${expires}" must be an HTTP date`);
      assertReplay(first, await subject.send({ key }), ["idempotency-expires"]);
      await advance(minuteMs + 1_000);
      assertProblem(await subject.send({ key }), "expired", {
        status: 410,
        retryable: false,
        safeNewKey: false,
      });
      await advance(minuteMs);
      assert.equal((await subject.send({ key })).header("idempotent-replayed"), null);
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "served: a request that was first sent too long ago is refused",
    execution: "lease",
    async run({ serve }) {
      const settings = { requestAge: { header: "X-First-Sent", maxMs: minuteMs } };
      const subject = await serve({ execution: "lease", settings });
      const old = await subject.send({ headers: [["X-First-Sent", "Sun, 06 Nov 1994 08:49:37 GMT"]] });
      assertProblem(old, "request-too-old", { status: 412, retryable: false, safeNewKey: false });
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "served: a store that is down refuses before anything runs, and serves again once it is back",
    async run({ serve }, execution) {
      const subject = await serve({ execution });
      const key = newKey();
      subject.setStoreDown(true);
      const answer = await subject.send({ key });
      assertProblem(answer, "store-unavailable", { status: 503, retryable: true, safeNewKey: false });
      assertRetryAfter(answer);
      assert.equal(subject.starts(), 0);
      subject.setStoreDown(false);
      const first = await subject.send({ key });
      assert.equal(first.status, 201);
      assertReplay(first, await subject.send({ key }));
    },
  },
  {
    name: "served: a tenant over its limit is refused before anything runs",
    async run({ serve }, execution) {
      const limiter = { consume: () => Promise.reject({ msBeforeNext: 1_500 }) };
      const subject = await serve({ execution, limits: { newKeys: limiter } });
      const refused = await subject.send({});
      assertProblem(refused, "too-many-keys", { status: 429, retryable: true, safeNewKey: false });
      assertRetryAfter(refused);
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "served: no byte is sent before the store has confirmed",
    async run({ serve }, execution) {
      const subject = await serve({ execution });
      const { reached, confirm } = subject.parkCompletion();
      let answered = false;
      const first = subject.send({});
      void first.then(() => {
        answered = true;
      });
      await reached;
      // Each of these is a complete round trip.
      for (let round = 0; round < 5; round++) assert.equal((await subject.send({ key: null })).status, 400);
      assert.equal(answered, false);
      confirm();
      assert.equal((await first).status, 201);
    },
  },
];

export const servedRefusalCases: readonly HttpCase[] = [
  ...all.map((each): HttpCase => ({ ...each, served: true })),
  {
    name: "served: an operation that owns its work is rejected if the route passes a handler",
    async run({ startWrong }, execution) {
      await assert.rejects(startWrong("protected", execution), TypeError);
    },
  },
];
