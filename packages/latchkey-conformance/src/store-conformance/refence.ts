/** `journal.refence`: gives the same attempt a new token, after which writes under the old one have no effect. */
import assert from "node:assert/strict";
import { guardOf, type InProgressRecord } from "latchkey/internal";
import {
  completion,
  defaultRetention,
  defaultTerms,
  hour,
  leaseMs,
  minute,
  newToken,
  readRecord,
  second,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, sameRecord, timed, winners } from "./check.ts";
import {
  beginWork,
  bytes,
  callEnds,
  intentOf,
  journalOf,
  keyOf,
  otherStates,
  ownerIn,
  ownerOf,
  phaseCommit,
  phasing,
  refusedWrite,
  runPhase,
  sameJournal,
  startCall,
  takeOver,
  wrongOwnersOf,
} from "./journal-arrange.ts";
import { newRow, transactional, withImmediateAnswer, withTransactions } from "./transactions-arrange.ts";

const waitMs = 10 * second;

function refence(context: CaseContext, record: InProgressRecord, token = newToken(), lease = leaseMs) {
  return context.store.journal.refence(ownerOf(record), token, lease, waitMs);
}

const inOtherStates: readonly StoreCase[] = otherStates.map((state) => ({
  name: `refence: refused on a record that is ${state}`,
  async run(context) {
    const { record, owner } = await ownerIn(context, state);
    await refusedWrite(context, record, "re-fencing", () =>
      context.store.journal.refence(owner, newToken(), leaseMs, waitMs),
    );
  },
}));

/** The writes of an owner, each with the fence that it has. */
const writes: readonly (readonly [
  what: string,
  act: (c: CaseContext, r: InProgressRecord) => Promise<unknown>,
])[] = [
  ["renewal", (context, record) => context.store.renew(keyOf(record), record.id, record.fence, hour)],
  ["end", (context, record) => context.store.end(keyOf(record), record.id, record.fence, completion())],
  ["call", (context, record) => context.store.journal.startCall(ownerOf(record), intentOf({ name: "next" }))],
  ["repetition of a call", (context, record) => context.store.journal.startCall(ownerOf(record), intentOf())],
  [
    "end of a call",
    (context, record) =>
      context.store.journal.endCall(ownerOf(record), { name: "charge", generation: 0 }, callEnds.finish),
  ],
  ["re-fencing", (context, record) => refence(context, record)],
];

const dead: readonly StoreCase[] = writes.map(([what, act]) => ({
  name: `refence: afterwards, no ${what} under the old token takes effect`,
  async run(context) {
    const record = await beginWork(context);
    await startCall(context, record);
    const refenced = await refence(context, record);
    assert.ok(refenced);
    await refusedWrite(context, record, what, () => act(context, record));
    assert.ok(await act(context, { ...record, fence: refenced.fence }), "under the new token it must");
  },
}));

export const refenceCases: readonly StoreCase[] = [
  {
    name: "refence: the same attempt continues under the new token, with a lease from now",
    async run(context) {
      const record = await beginWork(context);
      const call = await startCall(context, record);
      await context.advance(minute);
      const token = newToken();
      const { result, ...span } = await timed(context, keyOf(record), () =>
        refence(context, record, token, hour),
      );
      assert.ok(result);
      const fence = { attempt: record.fence.attempt, token };
      assert.deepEqual({ ...result.fence }, fence);
      const { now } = result.journal;
      isAfter(context, now, span, 0, "now");
      const expected = { input: bytes("input"), recoveryPoint: null, steps: [call], now };
      sameJournal(result.journal, expected, "the journal as it is stored");
      sameJournal(await journalOf(context, record), expected, "and as it stays");
      const after = await readRecord(context, keyOf(record));
      assert.ok(after.state === "in_progress");
      isAfter(context, after.leaseEndsAt, span, hour, "leaseEndsAt");
      sameRecord(
        after,
        { ...record, fence, leaseEndsAt: after.leaseEndsAt },
        "only fence and lease may change",
      );
    },
  },
  {
    name: "refence: repeating it with the same token after a lost reply returns the same",
    async run(context) {
      const record = await beginWork(context);
      const token = newToken();
      const first = await refence(context, record, token);
      const again = await refence(context, record, token);
      assert.ok(first && again);
      assert.deepEqual({ ...again.fence }, { ...first.fence });
      sameJournal(again.journal, first.journal, "the same journal");
    },
  },
  {
    name: "refence: the terms of the lease stay",
    async run(context) {
      const record = await beginWork(context, { attemptsMax: 1 });
      assert.ok(await refence(context, record));
      await context.advance(leaseMs + second);
      const [ended] = await context.store.endedLeases(10);
      assert.ok(ended);
      assert.deepEqual([ended.record.id, ended.leaseEnd, ended.attemptsMax], [record.id, "resume", 1]);
    },
  },
  {
    name: "refence: accepted after the lease has ended, until another attempt takes over",
    async run(context) {
      const record = await beginWork(context);
      await context.advance(leaseMs + second);
      const refenced = await refence(context, record);
      assert.ok(refenced);
      const early = { ...guardOf(record), fence: refenced.fence };
      const take = () =>
        context.store.takeOver(keyOf(record), early, record.fingerprint, newToken(), defaultTerms);
      assert.equal(await take(), null, "its lease must run again");
      await takeOver(context, record);
      const late = { ...record, fence: refenced.fence };
      await refusedWrite(context, record, "re-fencing by the previous owner", () => refence(context, late));
    },
  },
  {
    name: "refence: refused to anyone but the owner",
    async run(context) {
      const record = await beginWork(context);
      for (const [what, stranger] of wrongOwnersOf(record)) {
        await refusedWrite(context, record, what, () =>
          context.store.journal.refence(stranger, newToken(), leaseMs, waitMs),
        );
      }
    },
  },
  {
    name: "refence: exactly one of an owner and a take-over at once succeeds",
    async run(context) {
      for (let round = 0; round < 4; round += 1) {
        const record = await beginWork(context);
        await context.advance(leaseMs + second);
        const owner = ownerOf(record);
        const results = await race<unknown>(context, 2, (store, index) =>
          index === round % 2
            ? store.journal.refence(owner, newToken(), leaseMs, waitMs)
            : store.takeOver(owner.key, guardOf(record), record.fingerprint, newToken(), defaultTerms),
        );
        assert.equal(winners(results), 1);
      }
    },
  },
  {
    name: "refence: exactly one of many tokens at once becomes the new one",
    async run(context) {
      const record = await beginWork(context);
      const results = await race(context, 6, (store) =>
        store.journal.refence(ownerOf(record), newToken(), leaseMs, waitMs),
      );
      assert.equal(winners(results), 1);
      const { fence } = await readRecord(context, keyOf(record));
      assert.deepEqual({ ...results.find((result) => result !== null)?.fence }, { ...fence });
    },
  },
  ...dead,
  {
    name: "refence: a committed phase is found, and later phases under the old token are lost",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await runPhase(context, record, "reserve");
      const refenced = await refence(context, record);
      assert.deepEqual(
        refenced?.journal.steps.map(({ name }) => name),
        ["reserve"],
      );
      assert.equal(refenced?.journal.recoveryPoint, "reserve");
      const row = newRow();
      const outcome = await phasing(context, ownerOf(record), row, () => phaseCommit("next"));
      assert.equal(outcome.kind, "lost");
      assert.ok(!(await transactional(context).business.committedRows()).includes(row));
    },
  },
  {
    name: "refence: refused after a phase that completed the attempt, and the record says so",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const completes = { answer: bytes("answer"), retention: defaultRetention };
      await runPhase(context, record, "reserve", { completes });
      await refusedWrite(context, record, "re-fencing", () => refence(context, record));
      const { state, fence } = await readRecord(context, keyOf(record));
      assert.deepEqual([state, { ...fence }], ["completed", { ...record.fence }]);
    },
  },
  {
    name: "refence: a phase that is open under the old token is lost, and leaves no row",
    needs: withImmediateAnswer,
    async run(context) {
      const record = await beginWork(context);
      const row = newRow();
      const outcome = await phasing(context, ownerOf(record), row, async () => {
        const refenced = await context.other.journal.refence(ownerOf(record), newToken(), leaseMs, waitMs);
        assert.deepEqual(refenced?.journal.steps, [], "it must not be stored yet");
        return phaseCommit();
      });
      assert.equal(outcome.kind, "lost");
      assert.ok(!(await transactional(context).business.committedRows()).includes(row), "no row may be left");
      assert.deepEqual((await journalOf(context, record)).steps, []);
    },
  },
  {
    name: "refence: racing with a commit, the journal that it returns is final",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const row = newRow();
      const [outcome, refenced] = await Promise.all([
        phasing(context, ownerOf(record), row, () => phaseCommit()),
        context.other.journal.refence(ownerOf(record), newToken(), leaseMs, waitMs),
      ]);
      assert.ok(refenced, "the owner must be the last one");
      assert.ok(
        outcome.kind === "committed" || outcome.kind === "lost" || outcome.kind === "refused",
        outcome.kind,
      );
      const committed = outcome.kind === "committed";
      assert.equal((await transactional(context).business.committedRows()).includes(row), committed);
      sameJournal(await journalOf(context, record), refenced.journal, "nothing may come after it");
      assert.equal(refenced.journal.steps.length, committed ? 1 : 0);
    },
  },
  ...inOtherStates,
];
