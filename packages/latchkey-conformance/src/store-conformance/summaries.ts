/** `summaries`: a short form of the request is kept with its life. Stores that keep none pass. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import { guardOf, type NewLife, type Summaries } from "latchkey/internal";
import {
  completion,
  day,
  defaultTerms,
  ends,
  hour,
  minute,
  newId,
  newKey,
  newLife,
  newToken,
  readRecord,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { hex } from "./check.ts";
import { keyOf } from "./journal-arrange.ts";
import { commitOf, newRow, transactional, withTransactions, writing } from "./transactions-arrange.ts";

/** Bytes that a codec may produce. */
const summary = new Uint8Array([0, 255, 13, 10, 0, 128]);

function summaryCase(
  name: string,
  run: (summaries: Summaries, context: CaseContext) => Promise<void>,
): StoreCase {
  return {
    name: `summaries: ${name}`,
    async run(context) {
      const { summaries } = context.other;
      if (summaries !== undefined) await run(summaries, context);
    },
  };
}

async function isKept(summaries: Summaries, life: NewLife, what: string): Promise<void> {
  const found = await summaries.of(life, life.id);
  assert.ok(found, `${what}: there must be a summary`);
  assert.equal(hex(found), hex(summary), what);
}

const lifeOf = (key: RecordKey) => newLife(key, { summary });

async function create(context: CaseContext, life: NewLife) {
  const record = await context.store.create(life, null, defaultTerms);
  assert.ok(record);
  return record;
}

export const summaryCases: readonly StoreCase[] = [
  summaryCase(
    "stored byte for byte from the first write on, and returned for that life only",
    async (summaries, context) => {
      const [created, accepted, bare] = [lifeOf(newKey()), lifeOf(newKey()), newLife(newKey())];
      await create(context, created);
      assert.ok(await context.store.accept(accepted, null, day));
      await create(context, bare);
      await isKept(summaries, created, "created");
      await isKept(summaries, accepted, "accepted");
      assert.equal(await summaries.of(bare, bare.id), null, "none was given");
      assert.equal(await summaries.of(created, newId()), null, "another life");
      assert.equal(await summaries.of(newKey(), created.id), null, "another key");
    },
  ),
  summaryCase(
    "a life that continues keeps it until its end, and until its answer's expiry",
    async (summaries, context) => {
      const life = lifeOf(newKey());
      const { id, fence } = await create(context, life);
      assert.ok(await context.store.end(life, id, fence, ends.retryable));
      await isKept(summaries, life, "retryable");
      const guard = guardOf(await readRecord(context, life));
      const again = await context.store.takeOver(life, guard, life.fingerprint, newToken(), defaultTerms);
      assert.ok(again);
      await isKept(summaries, life, "taken over");
      const retention = { retentionMs: minute, forgetAfterMs: day };
      assert.ok(await context.store.end(life, id, again.fence, completion("done", retention)));
      await isKept(summaries, life, "completed");
      await context.advance(hour);
      await context.store.clean(100);
      assert.equal((await readRecord(context, life)).state, "expired");
      await isKept(summaries, life, "expired");
    },
  ),
  summaryCase("a new life of the key has its own summary, or none", async (summaries, context) => {
    for (const given of [{ summary: new Uint8Array([7]) }, {}]) {
      const life = lifeOf(newKey());
      const { id, fence } = await create(context, life);
      const retention = { retentionMs: minute, forgetAfterMs: minute };
      assert.ok(await context.store.end(life, id, fence, completion("done", retention)));
      await context.advance(hour);
      const next = newLife(keyOf(life), given);
      assert.ok(await context.store.create(next, guardOf(await readRecord(context, life)), defaultTerms));
      assert.deepEqual(await summaries.of(life, next.id), given.summary ?? null);
      assert.equal(await summaries.of(life, life.id), null, "that life is over");
    }
  }),
  {
    ...summaryCase(
      "a transaction writes it with its record, and a retried life keeps the first",
      async (summaries, context) => {
        const key = newKey();
        const commit = commitOf(key, { life: lifeOf(key) });
        const outcome = await writing(transactional(context), key, newRow(), () => commit);
        assert.equal(outcome.kind, "committed");
        await isKept(summaries, commit.life, "committed");

        const waiting = lifeOf(newKey());
        const { id, fence } = await create(context, waiting);
        assert.ok(await context.store.end(waiting, id, fence, ends.retryable));
        const replaces = guardOf(await readRecord(context, waiting));
        const life = newLife(keyOf(waiting), { id, fence: { attempt: 2, token: newToken() } });
        const over = commitOf(waiting, { life, replaces });
        const gone = await writing(transactional(context), waiting, newRow(), () => over);
        assert.equal(gone.kind, "committed");
        await isKept(summaries, life, "the first attempt's");

        const lost = lifeOf(newKey());
        assert.ok(await context.store.recordLostTransaction(lost, null, "transaction-changed"));
        await isKept(summaries, lost, "lost");
      },
    ),
    needs: withTransactions,
  },
];
