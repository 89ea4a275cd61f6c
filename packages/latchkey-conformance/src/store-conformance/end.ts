/** `end`: how an owner ends its attempt. */
import assert from "node:assert/strict";
import { type AttemptEnd, guardOf } from "latchkey/internal";
import {
  completion,
  createRunning,
  defaultTerms,
  ends,
  foreignFences,
  hour,
  leaseMs,
  minute,
  newId,
  newKey,
  newLife,
  newToken,
  putInState,
  readRecord,
  second,
  states,
} from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { isAfter, race, refused, sameRecord, timed, winners } from "./check.ts";

const everyEnd: readonly AttemptEnd[] = [...Object.values(ends), { event: "release" }];

const finishing: readonly StoreCase[] = (["complete", "fail"] as const).flatMap((event) =>
  [null, "some-code"].map((errorCode) => ({
    name: `end: ${event} ${errorCode === null ? "without" : "with"} an error code stores answer and retention`,
    async run(context) {
      const key = newKey();
      const running = await createRunning(context, key);
      await context.advance(minute);
      const answer = new Uint8Array([0, 255, 10, 13]);
      const retention = { retentionMs: hour, forgetAfterMs: 5 * hour };
      const end = () =>
        context.store.end(key, running.id, running.fence, { event, answer, retention, errorCode });
      const { result, ...span } = await timed(context, key, end);
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed" || record.state === "failed");
      const { finishedAt, expiresAt, forgetAt } = record;
      isAfter(context, finishedAt, span, 0, "finishedAt");
      isAfter(context, expiresAt, span, hour, "expiresAt");
      isAfter(context, forgetAt, span, 5 * hour, "forgetAt");
      assert.deepEqual(result && { ...result }, { expiresAt }, "the end of the retention must be returned");
      const { leaseEndsAt: _lease, expiresAt: _abandon, ...life } = running;
      const state = event === "complete" ? "completed" : "failed";
      const times = { finishedAt, expiresAt, forgetAt };
      sameRecord(record, { ...life, state, answer, lastErrorCode: errorCode, ...times }, "as given");
    },
  })),
);

const inOtherStates: readonly StoreCase[] = states
  .filter((state) => state !== "in_progress")
  .map((state) => ({
    name: `end: no event ends a record that is ${state}`,
    async run(context) {
      const key = newKey();
      const record = await putInState(context, state, key);
      for (const end of [...everyEnd, completion("another answer")]) {
        await refused(context, key, end.event, () => context.store.end(key, record.id, record.fence, end));
      }
    },
  }));

const guarding: readonly StoreCase[] = everyEnd.map((end) => ({
  name: `end: ${end.event} is refused to anyone but the owner`,
  async run(context) {
    const key = newKey();
    const { id, fence } = await createRunning(context, key);
    for (const [what, foreign] of foreignFences(fence)) {
      await refused(context, key, `${end.event} with ${what}`, () =>
        context.store.end(key, id, foreign, end),
      );
    }
    await refused(context, key, `${end.event} with another id`, () =>
      context.store.end(key, newId(), fence, end),
    );
  },
}));

const repeating: readonly StoreCase[] = everyEnd.map((end) => ({
  name: `end: repeating ${end.event} after a lost reply is harmless`,
  async run(context) {
    const key = newKey();
    const { id, fence } = await createRunning(context, key);
    assert.ok(await context.store.end(key, id, fence, end));
    await context.advance(second);
    await refused(context, key, "the repetition", () => context.other.end(key, id, fence, end));
  },
}));

export const endCases: readonly StoreCase[] = [
  ...finishing,
  {
    name: "end: release leaves nothing, and the key may run as new",
    async run(context) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      const result = await context.store.end(key, id, fence, { event: "release" });
      assert.deepEqual(result && { ...result }, { expiresAt: null });
      assert.equal((await context.store.read(key)).record, null);
      assert.ok(await context.store.create(newLife(key), null, defaultTerms));
    },
  },
  {
    name: "end: retry_later keeps the life for the next attempt",
    async run(context) {
      const key = newKey();
      const running = await createRunning(context, key);
      const end = { event: "retry_later", errorCode: "not-executed", resumeAfterMs: null } as const;
      const result = await context.store.end(key, running.id, running.fence, end);
      assert.deepEqual(result && { ...result }, { expiresAt: null });
      const { leaseEndsAt: _lease, expiresAt: _abandon, ...life } = running;
      const expected = { ...life, state: "retryable", lastErrorCode: "not-executed" } as const;
      sameRecord(await readRecord(context, key), expected, "as the attempt left it");
    },
  },
  {
    name: "end: doubt sets when reconciliation is due",
    async run(context) {
      const key = newKey();
      const running = await createRunning(context, key);
      const end = { event: "doubt", errorCode: "socket-lost", reconcileAfterMs: minute } as const;
      const act = () => context.store.end(key, running.id, running.fence, end);
      const { result, ...span } = await timed(context, key, act);
      assert.deepEqual(result && { ...result }, { expiresAt: null });
      const record = await readRecord(context, key);
      assert.ok(record.state === "unknown");
      isAfter(context, record.reconcileAfter, span, minute, "reconcileAfter");
      const { leaseEndsAt: _lease, expiresAt: _abandon, ...life } = running;
      const { reconcileAfter } = record;
      const expected = { ...life, state: "unknown", lastErrorCode: "socket-lost", reconcileAfter } as const;
      sameRecord(record, expected, "as the attempt left it");
    },
  },
  {
    name: "end: doubt without a time waits for a person",
    async run(context) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      await context.store.end(key, id, fence, { event: "doubt", errorCode: "x", reconcileAfterMs: null });
      const record = await readRecord(context, key);
      assert.ok(record.state === "unknown");
      assert.equal(record.reconcileAfter, null);
    },
  },
  {
    name: "end: a retention of zero is over at once, and stored as such",
    async run(context) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      const end = completion("brief", { retentionMs: 0, forgetAfterMs: 0 });
      assert.ok(await context.store.end(key, id, fence, end));
      await context.advance(1);
      const { record, now } = await context.store.read(key);
      assert.ok(record?.state === "completed");
      assert.equal(record.expiresAt, record.finishedAt);
      assert.equal(record.forgetAt, record.finishedAt);
      assert.ok(now >= record.expiresAt);
    },
  },
  {
    name: "end: accepted after the lease has ended, until another attempt takes over",
    async run(context) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      await context.advance(leaseMs + second);
      assert.ok(await context.store.end(key, id, fence, completion()), "the fence must still hold");
      assert.equal((await readRecord(context, key)).state, "completed");
    },
  },
  {
    name: "end: the second owner of a life ends it under its own fence",
    async run(context) {
      const key = newKey();
      const first = await createRunning(context, key);
      await context.advance(leaseMs + second);
      const guard = guardOf(first);
      const taken = await context.store.takeOver(key, guard, first.fingerprint, newToken(), defaultTerms);
      assert.ok(taken);
      assert.ok(await context.store.end(key, taken.id, taken.fence, completion("second")));
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed");
      assert.equal(record.fence.attempt, 2);
    },
  },
  ...guarding,
  ...inOtherStates,
  ...repeating,
  {
    name: "end: exactly one of many ends at once is written",
    async run(context) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      const results = await race(context, 8, (store, index) =>
        store.end(key, id, fence, completion(`answer ${index}`)),
      );
      assert.equal(winners(results), 1);
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed" && record.answer !== null);
      const winner = results.findIndex((result) => result !== null);
      assert.equal(new TextDecoder().decode(record.answer), `answer ${winner}`);
    },
  },
];
