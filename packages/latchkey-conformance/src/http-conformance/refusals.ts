/** Refusals: what a caller gets instead of an answer. */
import assert from "node:assert/strict";
import { stripe } from "latchkey";
import { assertProblem, assertReplay, assertRetryAfter, createGate, type HttpCase } from "./case.ts";
import { newKey } from "./client.ts";

const misuse = { status: 422, retryable: false, safeNewKey: false } as const;

export const refusalCases: readonly HttpCase[] = [
  {
    name: "refusals: a key with another body is misuse and changes nothing",
    async run({ start }, execution) {
      const subject = await start({ execution });
      const key = newKey();
      const first = await subject.send({ key });
      const answer = await subject.send({ key, body: '{"amount":2}' });
      assertProblem(answer, "key-misuse", misuse);
      assert.equal(answer.json().operation_ref, undefined);
      assertReplay(first, await subject.send({ key }));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "refusals: Stripe's practice answers misuse with 400, and says whether to retry",
    async run({ start }, execution) {
      const subject = await start({ execution, policy: stripe });
      const key = newKey();
      await subject.send({ key });
      const answer = await subject.send({ key, body: '{"amount":2}' });
      assertProblem(answer, "key-misuse", { ...misuse, status: 400 });
      assert.equal(answer.header("stripe-should-retry"), "false");
      assert.equal(answer.header("x-should-retry"), "false");
    },
  },
  {
    name: "refusals: a duplicate of a running request gets 409 with Retry-After",
    async run({ start }, execution) {
      const gate = createGate();
      const subject = await start({
        execution,
        async handle() {
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
    name: "refusals: a duplicate that is allowed to wait gets the first answer",
    async run({ start }, execution) {
      const gate = createGate();
      const subject = await start({
        execution,
        options: { waitMs: 10_000 },
        async handle() {
          await gate.pass();
          return { status: 201, body: "done" };
        },
      });
      const key = newKey();
      const running = subject.send({ key });
      await gate.arrived;
      const duplicate = subject.send({ key });
      gate.open();
      assertReplay(await running, await duplicate);
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "refusals: two tenants with the same key are independent",
    async run({ start }, execution) {
      const subject = await start({ execution });
      const key = newKey();
      const first = await subject.send({ key, tenant: "tenant-a" });
      const other = await subject.send({ key, tenant: "tenant-b", body: '{"amount":2}' });
      assert.equal(other.status, 201);
      assert.equal(other.header("idempotent-replayed"), null);
      assertReplay(first, await subject.send({ key, tenant: "tenant-a" }));
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "refusals: another principal of the tenant learns nothing",
    async run({ start }, execution) {
      const subject = await start({ execution });
      const key = newKey();
      const first = await subject.send({ key, principal: "alice" });
      const answer = await subject.send({ key, principal: "bob" });
      assertProblem(answer, "key-misuse", misuse);
      assert.equal(answer.json().operation_ref, undefined);
      assertReplay(first, await subject.send({ key, principal: "alice" }));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "refusals: a tenant or a principal that looks like a credential is an error before anything runs",
    async run({ start }, execution) {
      const subject = await start({ execution, options: { key: "optional" } });
      for (const who of [{ tenant: "Bearer token" }, { principal: "Bearer token" }]) {
        assert.equal((await subject.send(who)).status, 500);
        assert.equal((await subject.send({ ...who, key: null })).status, 500);
      }
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "refusals: another principal cannot tell a key of the tenant from a key that it has misused itself",
    async run({ start, advance }, execution) {
      const gate = createGate();
      const options = { retentionMs: 60_000, forgetAfterMs: 120_000 };
      const subject = await start({
        execution,
        options,
        async handle() {
          await gate.pass();
          return { status: 201, headers: [["Location", "/orders/secret"]], body: "secret" };
        },
      });
      const key = newKey();
      const other = '{"amount":2}';
      /** Everyone except the record's own caller must get the same answer. */
      const assertSame = async (code: string) => {
        const refused = await Promise.all([
          subject.send({ key, principal: "alice", body: other }),
          subject.send({ key, principal: "bob" }),
          subject.send({ key, principal: "bob", body: other }),
          subject.send({ key }),
        ]);
        const seen = refused.map(({ status, lines, body }) => ({
          status,
          lines: lines.filter(([name]) => name !== "date"),
          body: body.toString(),
        }));
        for (const each of seen) assert.deepEqual(each, seen[0]);
        assert.equal(refused[0]?.json().code, code);
        assert.equal(refused[0]?.json().operation_ref, undefined);
        assert.doesNotMatch(JSON.stringify(seen), /secret|alice/u);
      };
      const first = subject.send({ key, principal: "alice" });
      await gate.arrived;
      // A transaction shows nothing before its end, so a caller can only learn that it is running.
      await assertSame(execution === "lease" ? "key-misuse" : "in-progress");
      gate.open();
      await first;
      await assertSame("key-misuse");
      assertReplay(await first, await subject.send({ key, principal: "alice" }), ["location"]);
      await advance(61_000);
      await assertSame("key-misuse");
      assert.equal(subject.starts(), 1);
      const because = subject.events.flatMap((event) => (event.type === "key_misuse" ? [event.because] : []));
      assert.ok(
        because.includes("principal") && because.includes("fingerprint"),
        "the service must learn which",
      );
      await advance(60_000);
      const fresh = await subject.send({ key, principal: "bob" });
      assert.equal(fresh.header("idempotent-replayed"), null, "a forgotten key is free for everyone");
    },
  },
  {
    name: "refusals: a missing tenant is an error, and nothing is stored",
    async run({ start }, execution) {
      const subject = await start({ execution });
      const key = newKey();
      for (const tenant of [null, "", "throw"]) {
        assert.equal((await subject.send({ key, tenant })).status, 500);
      }
      assert.equal(subject.starts(), 0);
      const first = await subject.send({ key, body: '{"amount":2}' });
      assert.equal(first.status, 201);
      assert.equal(first.header("idempotent-replayed"), null);
    },
  },
  {
    name: "refusals: a store that is down refuses before anything runs, and serves again once it is back",
    async run({ start }, execution) {
      const subject = await start({ execution });
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
    name: "refusals: an expired key is refused until it is forgotten, then runs as new",
    async run({ start, advance }, execution) {
      const subject = await start({ execution, options: { retentionMs: 60_000, forgetAfterMs: 120_000 } });
      const key = newKey();
      await subject.send({ key });
      await advance(61_000);
      assertProblem(await subject.send({ key }), "expired", {
        status: 410,
        retryable: false,
        safeNewKey: false,
      });
      assert.equal(subject.starts(), 1);
      await advance(60_000);
      assert.equal((await subject.send({ key })).header("idempotent-replayed"), null);
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "refusals: an unknown outcome is not retryable, and says that a new key is not safe",
    execution: "lease",
    async run({ start }) {
      const handle = async () => {
        throw new Error("connection lost in the middle of it");
      };
      const subject = await start({ execution: "lease", handle });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      const answer = await subject.send({ key });
      assertProblem(answer, "outcome-unknown", { status: 409, retryable: false, safeNewKey: false });
      assert.equal(typeof answer.json().operation_ref, "string");
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "refusals: the service's own error format keeps status and headers",
    execution: "lease",
    async run({ start }) {
      const subject = await start({
        execution: "lease",
        settings: {
          problemBase: "https://api.example/problems/",
          renderProblem: ({ code, type }) => ({ body: `${code} ${type}`, contentType: "text/plain" }),
        },
      });
      const answer = await subject.send({ key: null });
      assert.equal(answer.status, 400);
      assert.equal(answer.header("content-type"), "text/plain");
      assert.equal(answer.body.toString(), "missing-key https://api.example/problems/missing-key");
      assert.equal(answer.header("cache-control"), "no-store");
      assert.equal(answer.header("link"), '<https://api.example/problems/missing-key>; rel="describedby"');
    },
  },
];
