/** The status resource: the result of a request that was answered with 202, for its own caller only. */
import assert from "node:assert/strict";
import { assertProblem, assertRetryAfter, createGate, type HttpCase } from "./case.ts";
import { type HttpAnswer, newKey } from "./client.ts";
import { assertAccepted, assertSameReplay } from "./later-answers.ts";

const minuteMs = 60_000;
const absent = { status: 404, retryable: false, safeNewKey: false } as const;
const unavailable = { status: 503, retryable: true, safeNewKey: false } as const;
/** Has the form of an id, but belongs to no record. */
const unknownId = "01890000-0000-7000-8000-000000000000";

const assertUncached = (answer: HttpAnswer) =>
  assert.equal(answer.header("cache-control"), "no-store", "a status must not be cached");

const all = [
  {
    name: "status: pending, then running, then the answer, which equals the replay of the request",
    async run({ serve }) {
      const gate = createGate();
      const headers = {
        "Cache-Control": "public, max-age=60",
        ETag: '"v1"',
        Location: "/reports/1",
        "Set-Cookie": "a=1",
        "X-Report": "7",
      };
      const subject = await serve({
        execution: "deferred",
        settings: { storedHeaders: ["X-Report"], expiresHeader: "Idempotency-Expires" },
        async run(input) {
          await gate.pass();
          return { status: 201, headers, body: input };
        },
      });
      const key = newKey();
      const id = assertAccepted(await subject.send({ key }), "pending");
      assert.equal(assertAccepted(await subject.look(id), "pending"), id);
      const working = subject.work();
      await Promise.race([gate.arrived, working]);
      assert.equal(assertAccepted(await subject.look(id), "running"), id);
      gate.open();
      await working;
      const answer = await subject.look(id);
      assert.deepEqual([answer.status, answer.json()], [201, { sent: '{"amount":1}' }]);
      assertSameReplay(await subject.send({ key }), answer, [
        "etag",
        "location",
        "x-report",
        "idempotency-expires",
      ]);
      assert.equal(answer.header("x-report"), "7");
      assert.equal(answer.header("set-cookie"), null, "a cookie must not reach anyone else");
      assertUncached(answer);
    },
  },
  {
    name: "status: for every other tenant and principal the operation does not exist, before and after it has run",
    async run({ serve }) {
      const subject = await serve({ execution: "deferred" });
      const key = newKey();
      const id = assertAccepted(await subject.send({ key, principal: "ada" }), "pending");
      const never = await subject.look(unknownId, { principal: "ada" });
      for (const state of ["pending", "done"]) {
        for (const other of [{ tenant: "tenant-2", principal: "ada" }, { principal: "bob" }, {}]) {
          const answer = await subject.look(id, other);
          assertProblem(answer, "not-found", absent);
          assert.deepEqual(answer.body, never.body, `${state}: it must look like one that never existed`);
          assertUncached(answer);
        }
        const own = await subject.look(id, { principal: "ada" });
        assert.equal(own.status, state === "pending" ? 202 : 201);
        await subject.work();
      }
    },
  },
  {
    name: "status: a malformed id is not found, without asking the store",
    async run({ serve }) {
      const subject = await serve({ execution: "deferred" });
      subject.setStoreDown(true);
      for (const text of ["1", "order-1", unknownId.replaceAll("-", ""), `${unknownId}0`, "%00", "'"]) {
        assertProblem(await subject.look(text), "not-found", absent);
      }
      const down = await subject.look(unknownId);
      assertProblem(down, "store-unavailable", unavailable);
      assertRetryAfter(down);
      subject.setStoreDown(false);
      assertProblem(await subject.look(unknownId), "not-found", absent);
    },
  },
  {
    name: "status: HEAD gets the headers and no body",
    async run({ serve }) {
      const run = async () => ({ status: 201, headers: { ETag: '"v1"' }, body: "done" });
      const subject = await serve({ execution: "deferred", run });
      const id = assertAccepted(await subject.send({}), "pending");
      const head = (target: string) => subject.look(target, { method: "HEAD" });
      const [missing, pending] = [await head(unknownId), await head(id)];
      await subject.work();
      const done = await head(id);
      assert.deepEqual([missing.status, pending.status, done.status], [404, 202, 201]);
      assertRetryAfter(pending);
      assert.equal(done.header("etag"), '"v1"');
      assert.equal(done.header("idempotent-replayed"), "true");
      for (const answer of [missing, pending, done]) {
        assert.equal(answer.body.byteLength, 0);
        assertUncached(answer);
      }
    },
  },
  {
    name: "status: an answer too large to store says so",
    async run({ serve }) {
      const run = async () => ({ status: 201, headers: { Location: "/reports/1" }, body: "x".repeat(101) });
      const subject = await serve({ execution: "deferred", options: { answerLimitBytes: 100 }, run });
      const key = newKey();
      const id = assertAccepted(await subject.send({ key }), "pending");
      await subject.work();
      const answer = await subject.look(id);
      assert.equal(answer.header("idempotency-status"), "answer-not-stored");
      assertSameReplay(await subject.send({ key }), answer, ["location"]);
    },
  },
  {
    name: "status: work that no worker started in time is a timeout, before and after cleaning",
    async run({ serve, advance }) {
      const subject = await serve({ execution: "deferred", options: { pendingLimitMs: minuteMs } });
      const id = assertAccepted(await subject.send({}), "pending");
      await advance(minuteMs + 1_000);
      const timeout = { status: 408, retryable: false, safeNewKey: true };
      const late = await subject.look(id);
      assertProblem(late, "timeout", timeout);
      assert.equal(late.json().operation_ref, id);
      await subject.work();
      await subject.clean();
      assertProblem(await subject.look(id), "timeout", timeout);
      assert.equal(subject.starts(), 0);
    },
  },
  {
    name: "status: work that failed early is pending again, and ends with its answer",
    async run({ serve, advance }) {
      let runs = 0;
      const subject = await serve({
        execution: "deferred",
        async run(_input, { attempt }) {
          runs += 1;
          if (runs === 1) throw new Error("failed on purpose");
          return { status: 201, body: { attempt: attempt.fence.attempt } };
        },
      });
      const id = assertAccepted(await subject.send({}), "pending");
      await subject.work();
      assert.equal(assertAccepted(await subject.look(id), "pending"), id);
      await advance(10 * minuteMs);
      await subject.work();
      const answer = await subject.look(id);
      assert.deepEqual([answer.status, answer.json()], [201, { attempt: 2 }]);
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "status: work that has failed for good has its failure as the answer",
    async run({ serve }) {
      const run = () => Promise.reject(new Error("failed on purpose"));
      const subject = await serve({ execution: "deferred", options: { attemptsMax: 1 }, run });
      const key = newKey();
      const id = assertAccepted(await subject.send({ key }), "pending");
      await subject.work();
      const answer = await subject.look(id);
      assert.equal(answer.status, 500);
      assertSameReplay(await subject.send({ key }), answer);
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "status: an unknown outcome is not retryable, and says that a new key is not safe",
    async run({ serve, advance }) {
      // Steps of another version than the operation's wait for a person.
      let version = "1";
      const subject = await serve({
        execution: "deferred",
        async run(_input, { write }) {
          await write(`step of version ${version}`);
          version = "2";
          throw new Error("failed on purpose");
        },
      });
      const id = assertAccepted(await subject.send({}), "pending");
      await subject.work();
      await advance(10 * minuteMs);
      await subject.work();
      const unknown = await subject.look(id);
      assertProblem(unknown, "outcome-unknown", { status: 409, retryable: false, safeNewKey: false });
      assert.equal(unknown.json().operation_ref, id);
    },
  },
  {
    name: "status: an answer is gone once it has expired, and the operation once it is forgotten",
    async run({ serve, advance }) {
      const options = { retentionMs: minuteMs, forgetAfterMs: 2 * minuteMs };
      const subject = await serve({ execution: "deferred", options });
      const id = assertAccepted(await subject.send({}), "pending");
      await subject.work();
      assert.equal((await subject.look(id)).status, 201);
      await advance(minuteMs + 1_000);
      for (const purge of [async () => {}, subject.clean]) {
        await purge();
        const expired = await subject.look(id);
        assertProblem(expired, "expired", { status: 410, retryable: false, safeNewKey: false });
      }
      await advance(minuteMs);
      assertProblem(await subject.look(id), "not-found", absent);
    },
  },
  {
    name: "status: a tenant over its limit of look-ups gets 429 with Retry-After",
    async run({ serve }) {
      let left = 2;
      const limiter = {
        consume: () => (left-- > 0 ? Promise.resolve() : Promise.reject({ msBeforeNext: 1_500 })),
      };
      const subject = await serve({ execution: "deferred", limits: { lookups: limiter } });
      const id = assertAccepted(await subject.send({}), "pending");
      assertProblem(await subject.look("1"), "not-found", absent);
      assert.equal((await subject.look(id)).status, 202, "a malformed id must not count");
      const refused = await subject.look(id);
      assertProblem(refused, "too-many-keys", { status: 429, retryable: true, safeNewKey: false });
      assertRetryAfter(refused);
    },
  },
  {
    name: "status: without a tenant the framework answers, as for every error",
    async run({ serve }) {
      const subject = await serve({ execution: "deferred" });
      const id = assertAccepted(await subject.send({}), "pending");
      for (const tenant of [null, "throw"]) {
        const answer = await subject.look(id, { tenant });
        assert.equal(answer.status, 500);
        assert.equal(answer.body.includes(id), false);
      }
    },
  },
] satisfies readonly Omit<HttpCase, "execution">[];

export const statusCases: readonly HttpCase[] = all.map((each) => ({
  ...each,
  execution: "deferred",
  served: true,
  status: true,
}));
