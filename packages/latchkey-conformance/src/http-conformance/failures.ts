/** Failures: what happens to a key whose handler did not succeed. */
import assert from "node:assert/strict";
import { NotExecuted, stripe } from "latchkey";
import {
  assertProblem,
  assertReplay,
  type HandlerAnswer,
  type HandlerContextUnderTest,
  type HttpCase,
  type HttpCaseContext,
  type Subject,
} from "./case.ts";
import { newKey } from "./client.ts";

/** Writes a row each time; fails in the given way the first time, then succeeds. */
function failingOnce(fail: (context: HandlerContextUnderTest) => Promise<HandlerAnswer>) {
  let failed = false;
  return async (context: HandlerContextUnderTest): Promise<HandlerAnswer> => {
    await context.write(failed ? "second" : "first");
    if (failed) return { status: 201, body: "done" };
    failed = true;
    return fail(context);
  };
}

async function assertRunsAgain(subject: Subject, key: string): Promise<void> {
  const second = await subject.send({ key });
  assert.equal(second.status, 201);
  assert.equal(second.body.toString(), "done");
  assertReplay(second, await subject.send({ key }));
  assert.equal(subject.starts(), 2);
}

async function assertRows({ committedRows }: HttpCaseContext, rows: readonly string[]): Promise<void> {
  if (committedRows !== null) assert.deepEqual([...(await committedRows())].sort(), rows);
}

const unknown = { status: 409, retryable: false, safeNewKey: false } as const;

const unsendable: readonly (readonly [what: string, header: readonly [string, string]])[] = [
  ["a line break", ["Location", "/a\r\nX-Injected: 1"]],
  ["the end of the head", ["Location", "/a\r\n\r\n<p>X-Injected</p>"]],
  ["a line break in its name", ["Link\r\nX-Injected", "1"]],
  ["a NUL", ["ETag", '"\0"']],
];

export const failureCases: readonly HttpCase[] = [
  {
    name: "failures: a throw rolls back, the framework answers it, and the key runs again",
    execution: "transaction",
    async run(context) {
      const handle = failingOnce(() => Promise.reject(new Error("failed on purpose")));
      const subject = await context.start({ execution: "transaction", handle });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      await assertRunsAgain(subject, key);
      await assertRows(context, ["second"]);
    },
  },
  {
    name: "failures: headers and status that a failed run set are gone, for the next run and for the error's answer",
    execution: "transaction",
    async run({ start }) {
      const serialization = Object.assign(new Error("could not serialize access"), { code: "40001" });
      const errors = [serialization, serialization, new Error("failed on purpose")];
      let runs = 0;
      const subject = await start({
        execution: "transaction",
        async handle() {
          const error = errors[runs++];
          const headers = [
            ["X-Run", String(runs)],
            ["Set-Cookie", `run=${runs}`],
          ] as const;
          return error === undefined ? { status: 202, headers } : { status: 201, headers, error };
        },
      });
      const key = newKey();
      const failed = await subject.send({ key });
      assert.equal(failed.status, 500);
      assert.equal(failed.header("x-run"), null);
      assert.equal(failed.header("set-cookie"), null);
      errors[3] = serialization;
      const answered = await subject.send({ key });
      assert.equal(answered.status, 202);
      assert.equal(answered.header("x-run"), "5");
      assert.equal(answered.header("set-cookie"), "run=5");
      assert.equal(subject.starts(), 5);
    },
  },
  {
    name: "failures: a 5xx rolls back and is released",
    execution: "transaction",
    async run(context) {
      const handle = failingOnce(async () => ({ status: 503, body: "try later" }));
      const subject = await context.start({ execution: "transaction", handle });
      const key = newKey();
      const failed = await subject.send({ key });
      assert.equal(failed.status, 503);
      assert.equal(failed.body.toString(), "try later", "the answer must be the handler's");
      await assertRunsAgain(subject, key);
      await assertRows(context, ["second"]);
    },
  },
  {
    name: "failures: a 5xx under a lease leaves an unknown outcome",
    execution: "lease",
    async run({ start }) {
      const subject = await start({
        execution: "lease",
        handle: async () => ({ status: 500, body: "oops" }),
      });
      const key = newKey();
      assert.equal((await subject.send({ key })).body.toString(), "oops");
      assertProblem(await subject.send({ key }), "outcome-unknown", unknown);
      assert.equal(subject.starts(), 1);
    },
  },
  {
    name: "failures: Stripe's practice stores a 5xx, without the writes",
    async run(context, execution) {
      const handle = failingOnce(async () => ({ status: 500, body: "oops" }));
      const subject = await context.start({ execution, policy: stripe, handle });
      const key = newKey();
      assertReplay(await subject.send({ key }), await subject.send({ key }));
      assert.equal(subject.starts(), 1);
      await assertRows(context, []);
    },
  },
  {
    name: "failures: a lease is released if its handler proves that nothing happened",
    execution: "lease",
    async run({ start }) {
      const handle = failingOnce(() => Promise.reject(new NotExecuted()));
      const subject = await start({ execution: "lease", handle });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      await assertRunsAgain(subject, key);
    },
  },
  ...[408, 425, 429].map(
    (status): HttpCase => ({
      name: `failures: ${status} is temporary and is released`,
      async run(context, execution) {
        const subject = await context.start({ execution, handle: failingOnce(async () => ({ status })) });
        const key = newKey();
        assert.equal((await subject.send({ key })).status, status);
        await assertRunsAgain(subject, key);
        if (execution === "transaction") await assertRows(context, ["second"]);
      },
    }),
  ),
  {
    name: "failures: a refusal is stored with its writes, unless the handler declines to",
    async run(context, execution) {
      const kept = await context.start({ execution, handle: failingOnce(async () => ({ status: 400 })) });
      const key = newKey();
      assertReplay(await kept.send({ key }), await kept.send({ key }));
      assert.equal(kept.starts(), 1);
      const declining = failingOnce(async ({ attempt }) => {
        attempt.release();
        return { status: 400, body: "invalid" };
      });
      const released = await context.start({ execution, handle: declining });
      const another = newKey();
      assert.equal((await released.send({ key: another })).body.toString(), "invalid");
      await assertRunsAgain(released, another);
      if (execution === "transaction") await assertRows(context, ["first", "second"]);
    },
  },
  {
    name: "failures: an answer over the hard limit fails the attempt",
    async run(context, execution) {
      const handle = failingOnce(async () => ({ status: 201, body: "x".repeat(1001) }));
      const options = { answerHoldBytes: 1000, answerLimitBytes: 1000 };
      const subject = await context.start({ execution, handle, options });
      const key = newKey();
      assert.equal((await subject.send({ key })).status, 500);
      if (execution === "lease")
        return assertProblem(await subject.send({ key }), "outcome-unknown", unknown);
      await assertRunsAgain(subject, key);
      await assertRows(context, ["second"]);
    },
  },
  ...unsendable.map(
    ([what, header]): HttpCase => ({
      name: `failures: a header with ${what} is not sent, and fails the attempt at once`,
      async run(context, execution) {
        const handle = failingOnce(async () => ({ status: 201, headers: [header], body: "x" }));
        const subject = await context.start({ execution, handle });
        const key = newKey();
        const failed = await subject.send({ key });
        assert.equal(failed.status, 500);
        assert.equal(failed.header("x-injected"), null);
        assert.ok(!failed.body.includes("X-Injected"));
        if (execution === "lease")
          return assertProblem(await subject.send({ key }), "outcome-unknown", unknown);
        await assertRunsAgain(subject, key);
        await assertRows(context, ["second"]);
      },
    }),
  ),
  {
    name: "failures: a handler that never answers is stopped at its time limit",
    async run(context, execution) {
      const handle = failingOnce(() => new Promise(() => {}));
      // A transaction must be able to run again within its limit, also on a busy machine.
      const options = execution === "lease" ? { attemptLimitMs: 150 } : { transactionLimitMs: 2_000 };
      const subject = await context.start({ execution, handle, options });
      const key = newKey();
      const stopped = await subject.send({ key });
      if (execution === "lease") return assertProblem(stopped, "outcome-unknown", unknown);
      assert.equal(stopped.status, 500);
      await assertRunsAgain(subject, key);
      await assertRows(context, ["second"]);
    },
  },
];
