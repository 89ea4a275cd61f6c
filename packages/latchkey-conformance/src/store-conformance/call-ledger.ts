/** `journal.callsByDownstreamKey` and `journal.finishedCalls`: the data to which a ledger is compared. */
import assert from "node:assert/strict";
import type { FinishedCallsQuery, JournalCall } from "latchkey/internal";
import { completion, hour, minute, newKey, newLife, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll, hex } from "./check.ts";
import {
  beginWork,
  callEnds,
  callOf,
  endCall,
  intentOf,
  keyOf,
  newDownstreamKey,
  sameSteps,
  startCall,
} from "./journal-arrange.ts";
import { neverHappened, putInDoubt, settleUnknown } from "./settlement-arrange.ts";

let effectsMade = 0;

/** An effect that no other case uses. */
function newEffect(): string {
  effectsMade += 1;
  return `payments.effect-${effectsMade}`;
}

/** A call of `effect` that has just finished, in its own life. */
async function finishOne(context: CaseContext, effect: string, key = newKey()) {
  const record = await beginWork(context, {}, newLife(key));
  const intent = intentOf({ effect });
  await startCall(context, record, intent);
  await endCall(context, record, callEnds.finish, intent);
  const step = await callOf(context, record);
  assert.ok(step.finishedAt !== null);
  return { record, step, finishedAt: step.finishedAt, downstreamKey: step.downstreamKey };
}

const all = { from: 0, to: 1e15, limit: 100, after: null };

function finished(context: CaseContext, query: Partial<FinishedCallsQuery> & { effect: string }) {
  return context.store.journal.finishedCalls({ ...all, ...query });
}

const keysOf = (calls: readonly JournalCall[]) => calls.map(({ step }) => step.downstreamKey);

export const callLedgerCases: readonly StoreCase[] = [
  {
    name: "calls by downstream key: found in any state, with their records; unknown keys are omitted",
    async run(context) {
      const record = await beginWork(context);
      const intents = (["finish", "refuse", "not_executed"] as const).map((name, position) =>
        intentOf({ name, position }),
      );
      const started = intentOf({ name: "started", position: 3 });
      for (const intent of [...intents, started]) await startCall(context, record, intent);
      for (const [index, end] of Object.values(callEnds).entries()) {
        await endCall(context, record, end, intents[index]);
      }
      const wanted = [...intents, started].map(({ downstreamKey }) => downstreamKey);
      const found = await context.store.journal.callsByDownstreamKey([...wanted, newDownstreamKey(), ""]);
      assert.deepEqual(keysOf(found).sort(), [...wanted].sort());
      for (const { key, recordId, fingerprint, step } of found) {
        assert.deepEqual([{ ...key }, recordId], [keyOf(record), record.id]);
        assert.equal(hex(fingerprint), hex(record.fingerprint.digest));
        sameSteps([step], [await callOf(context, record, step.name)], "the call as it is stored");
      }
    },
  },
  {
    name: "calls by downstream key: found for several tenants, each with its own key",
    async run(context) {
      const key = newKey();
      const calls = [];
      for (const tenant of ["tenant-1", "tenant-2"]) {
        calls.push(await finishOne(context, newEffect(), { ...key, tenant }));
      }
      for (const { record, downstreamKey } of calls) {
        const found = await context.store.journal.callsByDownstreamKey([downstreamKey]);
        assert.deepEqual(
          found.map((call) => [{ ...call.key }, call.recordId]),
          [[keyOf(record), record.id]],
        );
      }
    },
  },
  {
    name: "calls by downstream key: no keys find no calls",
    async run(context) {
      await finishOne(context, newEffect());
      assert.deepEqual(await context.store.journal.callsByDownstreamKey([]), []);
    },
  },
  {
    name: "calls by downstream key: a reopened call is found only by its new key",
    async run(context) {
      const { key, call } = await putInDoubt(context);
      const downstreamKey = newDownstreamKey();
      await settleUnknown(context, key, {
        ...neverHappened,
        reopen: { call: "charge", generation: 0, downstreamKey },
      });
      const found = await context.store.journal.callsByDownstreamKey([call.downstreamKey, downstreamKey]);
      assert.deepEqual(keysOf(found), [downstreamKey]);
    },
  },
  {
    name: "finished calls: only finished calls of the effect are found",
    async run(context) {
      const effect = newEffect();
      const mine = await finishOne(context, effect);
      await finishOne(context, newEffect());
      const record = await beginWork(context);
      for (const [position, name] of (["refuse", "not_executed", "finish"] as const).entries()) {
        const call = intentOf({ name, position, effect });
        await startCall(context, record, call);
        if (name !== "finish") await endCall(context, record, callEnds[name], call);
      }
      const found = await finished(context, { effect });
      assert.deepEqual(
        found.map(({ key, recordId }) => [{ ...key }, recordId]),
        [[keyOf(mine.record), mine.record.id]],
      );
      sameSteps(
        found.map(({ step }) => step),
        [mine.step],
        "the call as it is stored",
      );
    },
  },
  {
    name: "finished calls: from the first time, inclusive, to the second, exclusive",
    async run(context) {
      const effect = newEffect();
      const calls = [];
      for (let count = 0; count < 3; count += 1) {
        calls.push(await finishOne(context, effect));
        await context.advance(minute);
      }
      const [first, middle, third] = calls;
      assert.ok(first && middle && third);
      const between = (from: number, to: number) => finished(context, { effect, from, to }).then(keysOf);
      const expected = [first.downstreamKey, middle.downstreamKey];
      assert.deepEqual(await between(first.finishedAt, third.finishedAt), expected);
      assert.deepEqual(await between(first.finishedAt + 1, third.finishedAt + 1), [
        middle.downstreamKey,
        third.downstreamKey,
      ]);
      assert.deepEqual(await between(first.finishedAt, first.finishedAt), []);
    },
  },
  {
    name: "finished calls: oldest first, page by page, none twice and none missing",
    async run(context) {
      const effect = newEffect();
      const calls = [];
      for (let count = 0; count < 7; count += 1) {
        calls.push(await finishOne(context, effect));
        if (count % 2 === 0) await context.advance(second);
      }
      const ordered = calls
        .toSorted(
          (left, right) =>
            left.finishedAt - right.finishedAt || (left.downstreamKey < right.downstreamKey ? -1 : 1),
        )
        .map(({ downstreamKey }) => downstreamKey);
      const seen: string[] = [];
      let after: FinishedCallsQuery["after"] = null;
      for (let page = 0; page < 10; page += 1) {
        const found: readonly JournalCall[] = await finished(context, { effect, limit: 2, after });
        assert.ok(found.length <= 2, "no more than the limit");
        const last = found.at(-1)?.step;
        if (last?.finishedAt == null) break;
        seen.push(...keysOf(found));
        after = { finishedAt: last.finishedAt, downstreamKey: last.downstreamKey };
      }
      assert.deepEqual(seen, ordered);
    },
  },
  {
    name: "finished calls: calls that ended at the same time are ordered by their downstream keys",
    frozenClock: true,
    async run(context) {
      const effect = newEffect();
      const record = await beginWork(context);
      const keys = ["lk_b", "lk_C", "lk_a", "lk_10", "lk_9"].map((key) => `${key}-${effect}`);
      for (const [position, downstreamKey] of keys.entries()) {
        const call = intentOf({ name: downstreamKey, position, effect, downstreamKey });
        await startCall(context, record, call);
        await endCall(context, record, callEnds.finish, call);
      }
      const found = await finished(context, { effect });
      const ordered = keys.toSorted((left, right) => (left < right ? -1 : 1));
      assert.deepEqual(keysOf(found), ordered);
      const [, last] = found;
      assert.ok(last?.step.finishedAt != null);
      const after = { finishedAt: last.step.finishedAt, downstreamKey: last.step.downstreamKey };
      assert.deepEqual(keysOf(await finished(context, { effect, after })), ordered.slice(2));
    },
  },
  {
    name: "finished calls: found until their record is forgotten, even if its answer was purged",
    async run(context) {
      const effect = newEffect();
      const { record } = await finishOne(context, effect);
      const retention = { retentionMs: minute, forgetAfterMs: hour };
      assert.ok(await context.store.end(keyOf(record), record.id, record.fence, completion("a", retention)));
      await context.advance(2 * minute);
      assert.equal((await cleanAll(context)).purged, 1);
      assert.equal((await finished(context, { effect })).length, 1);
      await context.advance(hour);
      assert.equal((await cleanAll(context)).forgotten, 1);
      assert.deepEqual(await finished(context, { effect }), []);
    },
  },
];
