/** `settlement.resumable`: the records that a worker may resume. */
import assert from "node:assert/strict";
import type { LatchkeyRecord } from "latchkey";
import { guardOf } from "latchkey/internal";
import {
  defaultTerms,
  ends,
  hour,
  leaseMs,
  minute,
  newKey,
  newLife,
  newToken,
  readRecord,
  second,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race, sameRecord } from "./check.ts";
import { beginWork, keyOf, ownerOf, takeOver } from "./journal-arrange.ts";
import { foundOutside, neverHappened, putInDoubt, settleUnknown } from "./settlement-arrange.ts";

const operation = "payments.create";

const idsOf = (records: readonly LatchkeyRecord[]) => records.map(({ id }) => id);

async function resumable(context: CaseContext, limit = 100, operations: readonly string[] = [operation]) {
  return idsOf(await context.store.settlement.resumable(operations, limit));
}

/** A retryable life, with the time from which a worker may resume it. */
async function putRetryable(context: CaseContext, resumeAfterMs: number | null) {
  const record = await beginWork(context);
  const end = { event: "retry_later", errorCode: "not-executed", resumeAfterMs } as const;
  assert.ok(await context.store.end(keyOf(record), record.id, record.fence, end));
  return record;
}

const resumedAfter: readonly StoreCase[] = [neverHappened, foundOutside].map((settlement) => ({
  name: `resumable: after ${settlement.event}, once its time has come`,
  async run(context) {
    const [now, later, never] = [
      await putInDoubt(context),
      await putInDoubt(context),
      await putInDoubt(context),
    ];
    await settleUnknown(context, now.key, { ...settlement, resumeAfterMs: 0 });
    await settleUnknown(context, later.key, { ...settlement, resumeAfterMs: minute });
    await settleUnknown(context, never.key, { ...settlement, resumeAfterMs: null });
    await context.advance(1);
    assert.deepEqual(await resumable(context), [now.record.id]);
    await context.advance(minute + second);
    assert.deepEqual(await resumable(context), [now.record.id, later.record.id]);
  },
}));

export const resumableCases: readonly StoreCase[] = [
  {
    name: "resumable: only leases that have ended under `resume`, with attempts left and before expiry",
    async run(context) {
      const life = (scope = operation) => newLife(newKey({ scope }));
      await beginWork(context, { leaseEnd: "rerun" });
      await beginWork(context, { leaseEnd: "reconcile" });
      await beginWork(context, { attemptsMax: 1 });
      await beginWork(context, { abandonAfterMs: minute });
      await beginWork(context, {}, life("another"));
      await beginWork(context, { leaseMs: 10 * leaseMs });
      const mine = await beginWork(context, { attemptsMax: 2 });
      assert.deepEqual(await resumable(context), [], "while leases run");
      await context.advance(leaseMs + second);
      assert.deepEqual(await resumable(context), [mine.id]);
      const next = await takeOver(context, mine, { attemptsMax: 2 });
      await context.store.renew(keyOf(next), next.id, next.fence, leaseMs);
      assert.deepEqual(await resumable(context), [], "it runs again");
      await context.advance(leaseMs + 2 * second);
      assert.deepEqual(await resumable(context), [], "its attempts are spent");
    },
  },
  {
    name: "resumable: attempts that may be resumed are not given up, and the others are",
    async run(context) {
      const mine = await beginWork(context);
      const spent = await beginWork(context, { attemptsMax: 1 });
      await context.advance(leaseMs + second);
      const ended = async () => idsOf((await context.store.endedLeases(10)).map(({ record }) => record));
      assert.deepEqual([await resumable(context), await ended()], [[mine.id], [spent.id]]);
      await context.advance(defaultTerms.abandonAfterMs);
      assert.deepEqual(await resumable(context), []);
      assert.deepEqual((await ended()).sort(), [mine.id, spent.id].sort());
    },
  },
  {
    name: "resumable: when a lease ends or a time comes, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const lease = await beginWork(context, { leaseMs: hour });
      const retryable = await putRetryable(context, hour);
      await context.advance(hour - 1);
      assert.deepEqual(await resumable(context), []);
      await context.advance(1);
      assert.deepEqual((await resumable(context)).sort(), [lease.id, retryable.id].sort());
    },
  },
  {
    name: "resumable: not after expiry, which ends nothing a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const record = await beginWork(context, { leaseMs: minute, abandonAfterMs: hour });
      await context.advance(hour - 1);
      assert.deepEqual(await resumable(context), [record.id]);
      await context.advance(1);
      assert.deepEqual(await resumable(context), []);
    },
  },
  {
    name: "resumable: retryable records whose time has come, and never those that the next request resumes",
    async run(context) {
      const now = await putRetryable(context, 0);
      const later = await putRetryable(context, minute);
      await putRetryable(context, null);
      assert.deepEqual(await resumable(context), [now.id]);
      await context.advance(minute + second);
      assert.deepEqual(await resumable(context), [now.id, later.id]);
      assert.deepEqual(await resumable(context, 100, []), []);
      assert.deepEqual(await resumable(context, 100, ["another"]), []);
    },
  },
  ...resumedAfter,
  {
    name: "resumable: records are returned as they are stored, and stay so",
    async run(context) {
      const lease = await beginWork(context);
      const retryable = await putRetryable(context, 0);
      await context.advance(leaseMs + second);
      const found = await context.store.settlement.resumable([operation], 10);
      assert.equal(found.length, 2);
      for (const record of found)
        sameRecord(await readRecord(context, keyOf(record)), record, "as it is stored");
      assert.deepEqual(
        idsOf(found),
        [retryable.id, lease.id],
        "the one that has waited longest must be first",
      );
      assert.deepEqual(await resumable(context), idsOf(found), "reading must claim nothing");
    },
  },
  {
    name: "resumable: the records that have waited longest first, at most `limit`",
    async run(context) {
      const ids: string[] = [];
      for (const minutes of [3, 1, 5]) {
        ids[minutes - 1] = (await beginWork(context, { leaseMs: minutes * minute })).id;
      }
      for (const minutes of [4, 2]) ids[minutes - 1] = (await putRetryable(context, minutes * minute)).id;
      await context.advance(hour);
      assert.deepEqual(await resumable(context), ids);
      assert.deepEqual(await resumable(context, 3), ids.slice(0, 3));
    },
  },
  {
    name: "resumable: not a record that was taken over, ended or settled",
    async run(context) {
      const taken = await putRetryable(context, 0);
      await takeOver(context, taken);
      const ended = await putRetryable(context, 0);
      const again = await takeOver(context, ended);
      assert.ok(await context.store.end(keyOf(again), again.id, again.fence, ends.retryable));
      await putInDoubt(context, 0);
      assert.deepEqual(await resumable(context), []);
    },
  },
  {
    name: "resumable: exactly one of many workers takes over a record that all of them found",
    async run(context) {
      const { key } = ownerOf(await beginWork(context));
      await context.advance(leaseMs + second);
      const results = await race(context, 6, async (store) => {
        const [found] = await store.settlement.resumable([operation], 10);
        if (found === undefined) return null;
        const terms = { ...defaultTerms, leaseEnd: "resume" } as const;
        return store.takeOver(key, guardOf(found), found.fingerprint, newToken(), terms);
      });
      assert.equal(results.filter((result) => result !== null).length, 1);
      assert.equal((await readRecord(context, key)).fence.attempt, 2);
    },
  },
];
