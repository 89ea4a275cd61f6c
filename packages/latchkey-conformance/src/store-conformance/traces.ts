/** `trace`: the span in which a life began, or an effect was enqueued, is stored with it. Stores that keep none pass. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import { guardOf, type NewLife } from "latchkey/internal";
import {
  completion,
  day,
  defaultTerms,
  ends,
  hour,
  minute,
  newKey,
  newLife,
  newToken,
  readRecord,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { beginWork, keyOf, runPhase } from "./journal-arrange.ts";
import { claim, effectsOf, enqueueAll, newEffect } from "./outbox-arrange.ts";
import { commitOf, newRow, transactional, withTransactions, writing } from "./transactions-arrange.ts";

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

function traceCase(name: string, run: (context: CaseContext) => Promise<void>): StoreCase {
  return {
    name: `traces: ${name}`,
    async run(context) {
      if (context.store.keepsTraces === true) await run(context);
    },
  };
}

const tracedLife = (key: RecordKey) => newLife(key, { trace });

async function isTraced(context: CaseContext, key: RecordKey, expected: string | undefined, what: string) {
  const { record } = await context.other.read(keyOf(key));
  assert.ok(record, `${what}: the record must be there`);
  assert.equal(record.trace, expected, what);
}

async function create(context: CaseContext, life: NewLife) {
  const record = await context.store.create(life, null, defaultTerms);
  assert.ok(record);
  return record;
}

async function putRetryable(context: CaseContext, life: NewLife): Promise<NewLife> {
  const { id, fence } = await create(context, life);
  assert.ok(await context.store.end(life, id, fence, ends.retryable));
  return newLife(keyOf(life), { id, fence: { attempt: 2, token: newToken() }, trace: other });
}

export const traceCases: readonly StoreCase[] = [
  traceCase("a life has the trace with which it began, or none", async (context) => {
    const [created, accepted, bare] = [tracedLife(newKey()), tracedLife(newKey()), newLife(newKey())];
    assert.equal((await create(context, created)).trace, trace, "created");
    assert.equal((await context.store.accept(accepted, null, day))?.trace, trace, "accepted");
    assert.equal("trace" in (await create(context, bare)), false, "none");
    await isTraced(context, created, trace, "created");
    await isTraced(context, accepted, trace, "accepted");
    await isTraced(context, bare, undefined, "none");
  }),
  traceCase(
    "a life that continues keeps it until its end, and until its answer's expiry",
    async (context) => {
      const life = tracedLife(newKey());
      const { id, fence } = await create(context, life);
      assert.ok(await context.store.end(life, id, fence, ends.retryable));
      await isTraced(context, life, trace, "retryable");
      const guard = guardOf(await readRecord(context, life));
      const again = await context.store.takeOver(life, guard, life.fingerprint, newToken(), defaultTerms);
      assert.ok(again);
      assert.equal(again.trace, trace, "taken over");
      const retention = { retentionMs: minute, forgetAfterMs: day };
      assert.ok(await context.store.end(life, id, again.fence, completion("done", retention)));
      await isTraced(context, life, trace, "completed");
      await context.advance(hour);
      await context.store.clean(100);
      assert.equal((await readRecord(context, life)).state, "expired");
      await isTraced(context, life, trace, "expired");
    },
  ),
  traceCase("a new life of the key has its own trace, or none", async (context) => {
    for (const given of [{ trace: other }, {}]) {
      const life = tracedLife(newKey());
      const { id, fence } = await create(context, life);
      const retention = { retentionMs: minute, forgetAfterMs: minute };
      assert.ok(await context.store.end(life, id, fence, completion("done", retention)));
      await context.advance(hour);
      const next = newLife(keyOf(life), given);
      assert.ok(await context.store.create(next, guardOf(await readRecord(context, life)), defaultTerms));
      await isTraced(context, life, given.trace, "the next life");
    }
  }),
  traceCase("a life whose transaction was lost keeps the trace with which it began", async (context) => {
    const fresh = tracedLife(newKey());
    const lost = await context.store.recordLostTransaction(fresh, null, "transaction-changed");
    assert.equal(lost?.trace, trace);
    await isTraced(context, fresh, trace, "its own");
    const waiting = tracedLife(newKey());
    const next = await putRetryable(context, waiting);
    const guard = guardOf(await readRecord(context, waiting));
    assert.ok(await context.store.recordLostTransaction(next, guard, "transaction-changed"));
    await isTraced(context, waiting, trace, "the first attempt's");
  }),
  {
    ...traceCase("a transaction writes it, and a retried life keeps the first", async (context) => {
      const [key, bare] = [newKey(), newKey()];
      for (const life of [tracedLife(key), newLife(bare)]) {
        const commit = commitOf(life, { life });
        const done = await writing(transactional(context), life, newRow(), () => commit);
        assert.equal(done.kind, "committed");
      }
      await isTraced(context, key, trace, "committed");
      await isTraced(context, bare, undefined, "none");
      for (const first of [tracedLife(newKey()), newLife(newKey())]) {
        const next = await putRetryable(context, first);
        const replaces = guardOf(await readRecord(context, first));
        const over = commitOf(first, { life: next, replaces });
        const gone = await writing(transactional(context), first, newRow(), () => over);
        assert.equal(gone.kind, "committed");
        await isTraced(context, first, first.trace, "the first attempt's");
      }
    }),
    needs: withTransactions,
  },
  {
    ...traceCase(
      "an effect has the trace with which it was enqueued, or none, in every reading",
      async (context) => {
        const given = [newEffect({ trace }), newEffect({ index: 1 }), newEffect({ index: 2, trace: other })];
        const [effect] = await enqueueAll(context, given);
        assert.ok(effect);
        const expected = [trace, undefined, other];
        const inOrder = (effects: Awaited<ReturnType<typeof effectsOf>>) =>
          effects.toSorted((left, right) => left.index - right.index).map((one) => one.trace);
        assert.deepEqual(inOrder(await effectsOf(context, effect.recordId)), expected, "in its transaction");
        assert.deepEqual(inOrder(await claim(context)), expected, "claimed");
        const record = await beginWork(context);
        await runPhase(context, record, "reserve", {
          effects: given.map((one) => newEffect({ ...one, id: newEffect().id })),
        });
        assert.deepEqual(inOrder(await effectsOf(context, record.id)), expected, "in a phase");
      },
    ),
    needs: withTransactions,
  },
];
