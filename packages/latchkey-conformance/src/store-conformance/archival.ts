/** `archival`: records that are due to be forgotten can be read first, and are forgotten by name. Stores without it pass. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import { type Archival, type ForgottenRecord, guardOf } from "latchkey/internal";
import {
  completion,
  day,
  defaultTerms,
  endRunning,
  ends,
  hour,
  minute,
  newKey,
  newLife,
  putForgettable,
  putInState,
  readRecord,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll, hex, nothingCleaned, sameRecord, unchanged } from "./check.ts";
import { beginWork, callEnds, endCall, intentOf, keyOf, startCall } from "./journal-arrange.ts";
import { effectNow, putEffectIn } from "./outbox-arrange.ts";

function archivalCase(
  name: string,
  run: (archival: Archival, context: CaseContext) => Promise<void>,
): StoreCase {
  return {
    name: `archival: ${name}`,
    async run(context) {
      const { archival } = context.other;
      if (archival !== undefined) await run(archival, context);
    },
  };
}

const short = { retentionMs: minute, forgetAfterMs: minute };

async function isThere(context: CaseContext, key: RecordKey): Promise<boolean> {
  return (await context.store.read(key)).record !== null;
}

const idsOf = (records: readonly ForgottenRecord[]) => records.map(({ id }) => id);

export const archivalCases: readonly StoreCase[] = [
  archivalCase(
    "due records are read complete, oldest first, at most `limit`, and stay",
    async (archival, context) => {
      const keys = [newKey(), newKey(), newKey()];
      for (const key of keys) {
        await endRunning(context, key, completion(`answer of ${key.key}`, short));
        await context.advance(minute);
      }
      await context.advance(minute);
      const due = await archival.due(100);
      assert.equal(due.length, 3);
      for (const [at, key] of keys.entries()) {
        const { summary, ...record } = due[at] ?? assert.fail();
        assert.equal(summary, null, "none was given");
        sameRecord(record, await readRecord(context, key), "as it is stored, including its answer");
      }
      assert.deepEqual(idsOf(await archival.due(2)), idsOf(due.slice(0, 2)));
    },
  ),
  archivalCase(
    "due records have their summaries byte for byte, if the store keeps summaries",
    async (archival, context) => {
      if (context.other.summaries === undefined) return;
      const summary = new Uint8Array([0, 255, 13, 10, 0, 128]);
      const life = newLife(newKey(), { summary });
      assert.ok(await context.store.create(life, null, defaultTerms));
      assert.ok(await context.store.end(life, life.id, life.fence, completion("done", short)));
      await context.advance(2 * minute);
      const [due] = await archival.due(100);
      assert.equal(due?.id, life.id);
      assert.equal(hex(due?.summary ?? new Uint8Array()), hex(summary));
    },
  ),
  archivalCase("only records that `clean` would forget are due", async (archival, context) => {
    for (const state of [...states].sort((a, b) => Number(b === "expired") - Number(a === "expired"))) {
      await putInState(context, state);
    }
    await endRunning(
      context,
      newKey(),
      completion("kept as a tombstone", { retentionMs: minute, forgetAfterMs: day }),
    );
    await context.advance(2 * minute);
    assert.deepEqual(await archival.due(100), []);
    const key = newKey();
    await endRunning(context, key, completion("short", short));
    await context.advance(2 * minute);
    const [only, ...more] = await archival.due(100);
    assert.deepEqual([only?.key, more], [key.key, []]);
  }),
  {
    ...archivalCase(
      "a record whose effects are not delivered is not due, and is not forgotten",
      async (archival, context) => {
        const key = newKey();
        const effect = await putEffectIn(context, "pending", { delayMs: 10 * day }, key);
        const record = await readRecord(context, key);
        assert.ok(record.state === "completed");
        await context.advance(3 * day);
        assert.deepEqual(idsOf(await archival.due(100)), []);
        assert.equal(await archival.forget([record]), 0);
        assert.ok(await isThere(context, key));
        assert.equal((await effectNow(context, effect)).state, "pending");
      },
    ),
    needs: ({ transactions }) => transactions,
  },
  archivalCase(
    "cleaning without forgetting forgets nothing, and leaves answers whose retention ends with the key's",
    async (archival, context) => {
      const [together, apart] = [newKey(), newKey()];
      await endRunning(context, together, completion("together", short));
      await endRunning(
        context,
        apart,
        completion("apart", { retentionMs: minute, forgetAfterMs: 10 * minute }),
      );
      const late = newKey();
      assert.ok(await context.store.accept(newLife(late), null, minute));
      await context.advance(hour);
      const report = await unchanged(context, together, "cleaning without forgetting", () =>
        archival.clean(100),
      );
      assert.deepEqual(report, { ...nothingCleaned, abandoned: 1, purged: 1 });
      assert.equal((await readRecord(context, apart)).state, "expired");
      assert.equal((await readRecord(context, late)).state, "failed");
      assert.deepEqual(idsOf(await archival.due(100)).length, 2);
    },
  ),
  archivalCase(
    "a named record goes with its steps, once, and nothing else goes",
    async (archival, context) => {
      const work = await beginWork(context);
      await startCall(context, work, intentOf());
      await endCall(context, work, callEnds.finish);
      assert.ok(await context.store.end(keyOf(work), work.id, work.fence, completion("done", short)));
      const other = newKey();
      await endRunning(context, other, completion("other", short));
      await context.advance(hour);
      const named = (await archival.due(100)).filter(({ id }) => id === work.id);
      assert.equal(await archival.forget(named), 1);
      assert.equal(await isThere(context, keyOf(work)), false);
      assert.equal(await context.store.journal.read(keyOf(work), work.id), null);
      assert.ok(await isThere(context, other), "it was not named");
      assert.equal(await archival.forget(named), 0, "a second time there must be nothing to forget");
      const again = await context.store.create(newLife(keyOf(work)), null, defaultTerms);
      assert.ok(again, "the key must be free");
    },
  ),
  archivalCase(
    "another life of the key stays, and so does a record that is no longer due",
    async (archival, context) => {
      const key = newKey();
      const old = await putForgettable(context, key);
      const due = await archival.due(100);
      assert.deepEqual(idsOf(due), [old.id]);
      const next = await context.store.create(newLife(key), guardOf(old), defaultTerms);
      assert.ok(next);
      assert.equal(
        await unchanged(context, key, "forgetting the previous life", () => archival.forget(due)),
        0,
      );
      assert.ok(await context.store.end(key, next.id, next.fence, ends.completed));
      const finished = await readRecord(context, key);
      assert.ok(finished.state === "completed");
      assert.equal(
        await unchanged(context, key, "forgetting too early", () => archival.forget([finished])),
        0,
      );
      await context.advance(3 * hour);
      await cleanAll(context);
      assert.equal(await isThere(context, key), false);
    },
  ),
];
