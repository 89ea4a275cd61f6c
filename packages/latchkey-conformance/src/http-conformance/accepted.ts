/** Deferred operations: a request is accepted, answered with 202 and the address of its status, and run by a worker. */
import assert from "node:assert/strict";
import { assertProblem, assertReplay, assertRetryAfter, createGate, type HttpCase } from "./case.ts";
import { newKey } from "./client.ts";
import { assertAccepted, assertSameReplay } from "./later-answers.ts";

const misuse = { status: 422, retryable: false, safeNewKey: false } as const;
const statusPath = "/operations";

const deferred = [
  {
    name: "accepted: a deferred request is answered with 202 and the address of its status, before anything runs",
    async run({ serve }) {
      const subject = await serve({ execution: "deferred" });
      const accepted = await subject.send({ key: newKey() });
      const id = assertAccepted(accepted, "pending");
      assert.equal(accepted.header("location"), `${statusPath}/${id}`);
      assert.equal(subject.starts(), 0);
      assert.notEqual(assertAccepted(await subject.send({ key: newKey() }), "pending"), id);
    },
  },
  {
    name: "accepted: a repeated request is the same operation, which runs once and then answers",
    async run({ serve }) {
      const subject = await serve({ execution: "deferred" });
      const key = newKey();
      const accepted = await subject.send({ key });
      const again = await subject.send({ key });
      assert.equal(assertAccepted(again, "pending"), assertAccepted(accepted, "pending"));
      assert.equal(again.header("location"), accepted.header("location"));
      assert.deepEqual(again.body, accepted.body);
      await subject.work();
      await subject.work();
      const answer = await subject.send({ key });
      assert.deepEqual([answer.status, answer.json()], [201, { sent: '{"amount":1}' }]);
      assertSameReplay(answer, await subject.send({ key }));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "accepted: while it runs, the same request is still accepted",
    async run({ serve }) {
      const gate = createGate();
      const subject = await serve({
        execution: "deferred",
        async run() {
          await gate.pass();
          return { status: 201, body: "done" };
        },
      });
      const key = newKey();
      const accepted = await subject.send({ key });
      const working = subject.work();
      await Promise.race([gate.arrived, working]);
      const again = await subject.send({ key });
      gate.open();
      await working;
      assert.equal(assertAccepted(again, "pending"), assertAccepted(accepted, "pending"));
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "accepted: a key with another body, or of another principal, is refused; in another tenant it is independent",
    async run({ serve }) {
      const subject = await serve({ execution: "deferred" });
      const key = newKey();
      const id = assertAccepted(await subject.send({ key, principal: "ada" }), "pending");
      for (const call of [{ body: '{"amount":2}', principal: "ada" }, { principal: "bob" }, {}]) {
        const refused = await subject.send({ key, ...call });
        assertProblem(refused, "key-misuse", misuse);
        assert.equal(refused.header("location"), null);
      }
      assert.notEqual(assertAccepted(await subject.send({ key, tenant: "tenant-2" }), "pending"), id);
      await subject.work();
      assert.equal(subject.starts(), 2);
    },
  },
  {
    name: "accepted: a request that is refused, or from which no input can be made, is not stored",
    async run({ serve }) {
      let made = 0;
      const subject = await serve({
        execution: "deferred",
        toInput(sent) {
          made += 1;
          if (made === 1) throw Object.assign(new Error("no amount"), { status: 422, statusCode: 422 });
          return { sent };
        },
      });
      const key = newKey();
      assert.equal((await subject.send({ key: null })).status, 400);
      assert.equal((await subject.send({ key })).status, 422);
      subject.setStoreDown(true);
      const down = await subject.send({ key });
      assertProblem(down, "store-unavailable", { status: 503, retryable: true, safeNewKey: false });
      assertRetryAfter(down);
      subject.setStoreDown(false);
      assertAccepted(await subject.send({ key, body: '{"amount":2}' }), "pending");
      await subject.work();
      assert.equal(subject.starts(), 1);
    },
  },
] satisfies readonly Omit<HttpCase, "execution">[];

/** Under a lease, 202 is optional. */
const chosen = [
  {
    name: "accepted: a duplicate of a running request is sent to its status, if the route is configured so",
    execution: "lease",
    async run({ start }) {
      const gate = createGate();
      const subject = await start({
        execution: "lease",
        settings: { inProgress: 202, statusPath },
        async handle() {
          await gate.pass();
          return { status: 201, headers: [["ETag", '"v1"']], body: "done" };
        },
      });
      const key = newKey();
      const running = subject.send({ key });
      await gate.arrived;
      const duplicate = await subject.send({ key });
      const id = assertAccepted(duplicate, "running");
      assert.equal(duplicate.header("location"), `${statusPath}/${id}`);
      assert.equal(assertAccepted(await subject.look(id), "running"), id);
      gate.open();
      const first = await running;
      assertReplay(first, await subject.look(id), ["etag"]);
      assertReplay(first, await subject.send({ key }), ["etag"]);
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "accepted: a duplicate of a running owned operation is sent to its status, if the route is configured so",
    execution: "lease",
    served: true,
    async run({ serve }) {
      const gate = createGate();
      const subject = await serve({
        execution: "lease",
        settings: { inProgress: 202, statusPath },
        async run() {
          await gate.pass();
          return { status: 201, body: "done" };
        },
      });
      const key = newKey();
      const running = subject.send({ key });
      await gate.arrived;
      const id = assertAccepted(await subject.send({ key }), "running");
      assert.equal(assertAccepted(await subject.look(id), "running"), id);
      gate.open();
      assertReplay(await running, await subject.look(id));
    },
  },
  {
    name: "accepted: only a request resumes an attempt that ended early, and the status says so",
    execution: "lease",
    served: true,
    async run({ serve }) {
      let runs = 0;
      const subject = await serve({
        execution: "lease",
        options: { leaseEnd: "resume" },
        settings: { inProgress: 202, statusPath },
        async run(_input, { write, attempt }) {
          runs += 1;
          id = attempt.id;
          await write("recorded");
          if (runs === 1) throw new Error("failed on purpose");
          return { status: 201, body: "done" };
        },
      });
      let id = "";
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      const stopped = await subject.look(id);
      assertProblem(stopped, "in-progress", { status: 409, retryable: true, safeNewKey: false });
      assertRetryAfter(stopped);
      assertReplay(await subject.send({ key }), await subject.look(id));
    },
  },
] satisfies readonly HttpCase[];

export const acceptedCases: readonly HttpCase[] = [
  ...deferred.map((each): HttpCase => ({ ...each, execution: "deferred", served: true, status: true })),
  ...chosen.map((each): HttpCase => ({ ...each, status: true })),
  {
    name: "accepted: a duplicate of a running request gets 429 with Retry-After, if the route is configured so",
    async run({ start }, execution) {
      const gate = createGate();
      const subject = await start({
        execution,
        settings: { inProgress: 429 },
        async handle() {
          await gate.pass();
          return { status: 201, body: "done" };
        },
      });
      const key = newKey();
      const running = subject.send({ key });
      await gate.arrived;
      const duplicate = await subject.send({ key });
      assertProblem(duplicate, "in-progress", { status: 429, retryable: true, safeNewKey: false });
      assertRetryAfter(duplicate);
      gate.open();
      assertReplay(await running, await subject.send({ key }));
    },
  },
  {
    name: "accepted: a route that would answer 202 without a status path, or without a record to ask for, is rejected",
    async run({ start }, execution) {
      await assert.rejects(start({ execution, settings: { inProgress: 202 } }), TypeError);
      if (execution === "lease") return;
      await assert.rejects(start({ execution, settings: { inProgress: 202, statusPath } }), TypeError);
    },
  },
];
