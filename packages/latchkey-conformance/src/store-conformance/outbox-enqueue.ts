/** The outbox has the effects of a transaction or a phase exactly if it has committed. */
import assert from "node:assert/strict";
import { guardOf, type NewEffect, type PhaseWork, type TransactionWork } from "latchkey/internal";
import {
  completion,
  createRunning,
  defaultTerms,
  hour,
  newId,
  newKey,
  newLife,
  readRecord,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, timed } from "./check.ts";
import {
  beginWork,
  bytes,
  keyOf,
  ownerOf,
  phaseCommit,
  phasing,
  runPhase,
  wrongOwnersOf,
} from "./journal-arrange.ts";
import {
  claim,
  claimOnly,
  deliveryEnds,
  effectName,
  effectsOf,
  endOnly,
  enqueue,
  enqueueAll,
  enqueuedAs,
  idsOf,
  newEffect,
  outboxOf,
  sameEffect,
} from "./outbox-arrange.ts";
import {
  commitOf,
  newRow,
  requestFor,
  transactional,
  withImmediateAnswer,
  withTransactions,
  writing,
} from "./transactions-arrange.ts";

/** Asserts that the outbox has no effect of this record. */
async function isNowhere(context: CaseContext, recordId: string): Promise<void> {
  assert.deepEqual(await effectsOf(context, recordId), [], "no effect may be stored");
  assert.deepEqual(await claim(context), [], "no effect may be claimed");
}

const endings: readonly (readonly [what: string, end: "rollback" | "abandon" | "throw"])[] = [
  ["is rolled back", "rollback"],
  ["is abandoned", "abandon"],
  ["throws", "throw"],
];

const failure = new Error("the work failed");

function endingAs(end: "rollback" | "abandon" | "throw"): { end: "rollback" | "abandon"; value: string } {
  if (end === "throw") throw failure;
  return { end, value: "value" };
}

const quiet: readonly StoreCase[] = endings.flatMap(([what, end]) => [
  {
    name: `enqueue: a transaction that ${what} leaves nothing to deliver`,
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const work = (): TransactionWork<string> => endingAs(end);
      await writing(transactional(context), key, newRow(), work).catch((error) =>
        assert.equal(error, failure),
      );
      assert.deepEqual(await claim(context), []);
      await enqueue(context, {}, key);
    },
  },
  {
    name: `enqueue: a phase that ${what} leaves nothing to deliver`,
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const work = (): PhaseWork<string> => endingAs(end);
      await phasing(context, ownerOf(record), newRow(), work).catch((error) => assert.equal(error, failure));
      await isNowhere(context, record.id);
    },
  },
]);

const completes = { answer: bytes("answer"), retention: { retentionMs: hour, forgetAfterMs: 2 * hour } };

export const outboxEnqueueCases: readonly StoreCase[] = [
  {
    name: "enqueue: an effect of a transaction is stored, complete and new, once the transaction has committed",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const given = newEffect({ index: 3, aggregate: "order-1", ordered: true });
      const commit = commitOf(key, { effects: [given] });
      const { result, ...span } = await timed(context, key, () =>
        writing(transactional(context), key, newRow(), () => commit),
      );
      assert.equal(result.kind, "committed");
      const [effect, ...more] = await effectsOf(context, commit.life.id);
      assert.ok(effect && more.length === 0, "exactly one effect");
      isAfter(context, effect.createdAt, span, 0, "createdAt");
      const { digest } = commit.life.fingerprint;
      sameEffect(effect, enqueuedAs(given, commit.life, digest, effect.createdAt), "as given");
    },
  },
  {
    name: "enqueue: the operation is the record's, even if keys are unique per tenant",
    needs: withTransactions,
    async run(context) {
      const key = newKey({ scope: "*" });
      const life = newLife(key, { operation: "refunds.create" });
      const commit = commitOf(key, { life, effects: [newEffect()] });
      const outcome = await writing(transactional(context), key, newRow(), () => commit);
      assert.equal(outcome.kind, "committed");
      const [effect] = await effectsOf(context, life.id);
      assert.deepEqual([effect?.scope, effect?.operation], ["*", "refunds.create"]);
    },
  },
  {
    name: "enqueue: an effect of a phase is stored with its record's identity, once the phase has committed",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const given = newEffect({ step: "reserve" });
      const phase = () => runPhase(context, record, "reserve", { effects: [given] });
      const span = await timed(context, keyOf(record), phase);
      const [effect, ...more] = await effectsOf(context, record.id);
      assert.ok(effect && more.length === 0, "exactly one effect");
      isAfter(context, effect.createdAt, span, 0, "createdAt");
      const { digest } = record.fingerprint;
      sameEffect(effect, enqueuedAs(given, record, digest, effect.createdAt), "as given");
      assert.equal((await readRecord(context, keyOf(record))).state, "in_progress");
    },
  },
  {
    name: "enqueue: the last phase writes its effects and completes the attempt",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const given = newEffect({ step: "last" });
      await runPhase(context, record, "last", { completes, effects: [given] });
      assert.equal((await readRecord(context, keyOf(record))).state, "completed");
      assert.deepEqual(idsOf(await effectsOf(context, record.id)), [given.id]);
    },
  },
  {
    name: "enqueue: effects of one life are in the order in which they were written, whatever their ids",
    needs: withTransactions,
    async run(context) {
      const ids = [newId(), newId(), newId(), newId()].sort().reverse();
      const effects = ids.map((id, index) => newEffect({ id, index: index % 2, step: "s" }));
      const record = await beginWork(context);
      await runPhase(context, record, "one", { effects: effects.slice(0, 2) });
      await context.advance(hour / 2);
      await runPhase(context, record, "two", { position: 1, effects: effects.slice(2) });
      assert.deepEqual(idsOf(await effectsOf(context, record.id)), ids);
    },
  },
  {
    name: "enqueue: many effects of one transaction are all stored",
    needs: withTransactions,
    async run(context) {
      const effects = Array.from({ length: 40 }, (_, index) =>
        newEffect({ index, effect: `e-${index % 3}` }),
      );
      assert.deepEqual(idsOf(await enqueueAll(context, effects)), idsOf(effects));
    },
  },
  {
    name: "enqueue: a transaction without effects leaves nothing to deliver",
    needs: withTransactions,
    async run(context) {
      assert.deepEqual(await enqueueAll(context, []), []);
      assert.deepEqual(await claim(context), []);
    },
  },
  ...quiet,
  {
    name: "enqueue: a transaction that has lost leaves nothing to deliver",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      const commit = commitOf(key, { effects: [newEffect()] });
      const outcome = await writing(transactional(context), key, newRow(), () => commit);
      assert.equal(outcome.kind, "lost");
      await isNowhere(context, commit.life.id);
      await isNowhere(context, record.id);
    },
  },
  {
    name: "enqueue: a repeated transaction with effects is lost, and its effects are stored once",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const commit = commitOf(key, { effects: [newEffect()] });
      const outcomes = [];
      for (const row of [newRow(), newRow()]) {
        outcomes.push((await writing(transactional(context), key, row, () => commit)).kind);
      }
      assert.deepEqual(outcomes, ["committed", "lost"]);
      assert.deepEqual(idsOf(await effectsOf(context, commit.life.id)), idsOf(commit.effects));
    },
  },
  {
    name: "enqueue: a transaction that is repeated after its life has ended is lost while its effects exist",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const commit = commitOf(key, { effects: [newEffect()] });
      const commitIt = () => writing(transactional(context), key, newRow(), () => commit);
      assert.equal((await commitIt()).kind, "committed");
      await context.advance(3 * hour);
      const next = newLife(key);
      const old = guardOf(await readRecord(context, key));
      assert.ok(await context.store.create(next, old, defaultTerms));
      assert.ok(await context.store.end(key, next.id, next.fence, { event: "release" }));
      const [claimed] = await claim(context);
      assert.ok(claimed);
      assert.equal((await commitIt()).kind, "lost");
      assert.deepEqual(await effectsOf(context, commit.life.id), [claimed], "it must be delivered once");
    },
  },
  {
    name: "enqueue: a phase that has lost leaves nothing to deliver",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      for (const [, stranger] of wrongOwnersOf(record)) {
        for (const last of [null, completes]) {
          const commit = phaseCommit("reserve", { completes: last, effects: [newEffect()] });
          const outcome = await phasing(context, stranger, newRow(), () => commit);
          assert.equal(outcome.kind, "lost");
          await isNowhere(context, record.id);
        }
      }
    },
  },
  {
    name: "enqueue: a phase whose name is in use leaves nothing to deliver",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await runPhase(context, record, "reserve");
      const again = phaseCommit("reserve", { position: 1, effects: [newEffect()] });
      const outcome = await phasing(context, ownerOf(record), newRow(), () => again);
      assert.equal(outcome.kind, "refused");
      await isNowhere(context, record.id);
    },
  },
  {
    name: "enqueue: an effect whose transaction commits late is found like any other",
    needs: withImmediateAnswer,
    async run(context) {
      const { support } = transactional(context);
      const key = newKey();
      const [low, high] = [newId(), newId()].sort();
      const early = commitOf(key, { effects: [newEffect({ id: low ?? "" })] });
      const outcome = await support.run(requestFor(key), async () => {
        const other = await enqueue(context, { id: high ?? "" });
        await context.advance(hour / 2);
        const claimed = await claimOnly(context, other);
        await endOnly(context, deliveryEnds.deliver(claimed));
        assert.deepEqual(await claim(context), [], "an uncommitted effect must not be visible");
        return early;
      });
      assert.equal(outcome.kind, "committed");
      assert.deepEqual(idsOf(await claim(context)), idsOf(early.effects));
    },
  },
  {
    name: "enqueue: an attempt that continues or ends keeps the effects it has enqueued",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const given: NewEffect = newEffect({ step: "reserve" });
      await runPhase(context, record, "reserve", { effects: [given] });
      const [before] = await effectsOf(context, record.id);
      assert.ok(before);
      assert.ok(await context.store.end(keyOf(record), record.id, record.fence, completion()));
      const found = await outboxOf(context.other).list({
        state: "pending",
        effect: effectName,
        tenant: null,
        limit: 10,
        after: null,
      });
      assert.deepEqual(idsOf(found), [given.id]);
      sameEffect(found[0], before, "it must be unchanged");
    },
  },
];
