/** How long inputs and steps are kept. */
import assert from "node:assert/strict";
import type { LatchkeyRecord } from "latchkey";
import { guardOf, type InProgressRecord } from "latchkey/internal";
import {
  completion,
  day,
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
import { cleanAll, hex, nothingCleaned } from "./check.ts";
import {
  beginWork,
  bytes,
  callEnds,
  endCall,
  intentOf,
  journalOf,
  keyOf,
  sameJournal,
  startCall,
  takeOver,
} from "./journal-arrange.ts";
import { closedOutside, completedOutside, neverHappened, settleUnknown } from "./settlement-arrange.ts";
import { commitOf, newRow, transactional, withTransactions, writing } from "./transactions-arrange.ts";

type Led = (context: CaseContext, record: InProgressRecord) => Promise<unknown>;

async function end(
  context: CaseContext,
  record: InProgressRecord,
  how: Parameters<CaseContext["store"]["end"]>[3],
) {
  assert.ok(await context.store.end(keyOf(record), record.id, record.fence, how));
}

/** Events after which a life continues: its input, steps and recovery point stay. */
const goingOn: readonly (readonly [what: string, lead: Led])[] = [
  ["is renewed", (context, record) => context.store.renew(keyOf(record), record.id, record.fence, hour)],
  ["is taken over", (context, record) => takeOver(context, record)],
  ["is retryable", (context, record) => end(context, record, ends.retryable)],
  [
    "was retried",
    async (context, record) => {
      await end(context, record, ends.retryable);
      await takeOver(context, record);
    },
  ],
  ["is in doubt", (context, record) => end(context, record, ends.unknown)],
  [
    "was given up",
    async (context, record) => {
      await context.advance(leaseMs + second);
      assert.ok(await context.store.giveUp(keyOf(record), guardOf(record), "attempts-spent", null));
    },
  ],
  [
    "was claimed and postponed",
    async (context, record) => {
      await end(context, record, { ...ends.unknown, reconcileAfterMs: 0 });
      await context.advance(1);
      assert.equal((await context.store.settlement.claimUnknowns([record.operation], 10, minute)).length, 1);
      const guard = guardOf(await readRecord(context, keyOf(record)));
      assert.equal(await context.store.settlement.postpone(keyOf(record), guard, hour), true);
    },
  ],
  [
    "was settled as not executed",
    async (context, record) => {
      await end(context, record, ends.unknown);
      await settleUnknown(context, record, neverHappened);
    },
  ],
];

/** Events that end a life: its input goes, its steps and recovery point stay. */
const ending: readonly (readonly [what: string, lead: Led])[] = [
  ["completed", (context, record) => end(context, record, completion())],
  ["failed", (context, record) => end(context, record, ends.failed)],
  [
    "was settled as completed",
    async (context, record) => {
      await end(context, record, ends.unknown);
      await settleUnknown(context, record, completedOutside);
    },
  ],
  [
    "was settled as failed",
    async (context, record) => {
      await end(context, record, ends.unknown);
      await settleUnknown(context, record, closedOutside);
    },
  ],
  [
    "was purged",
    async (context, record) => {
      await end(context, record, completion("old", { retentionMs: minute, forgetAfterMs: day }));
      await context.advance(hour);
      assert.equal((await cleanAll(context)).purged, 1);
    },
  ],
];

async function writeEndedCalls(context: CaseContext, record: InProgressRecord): Promise<void> {
  for (const [position, event] of (["finish", "refuse", "not_executed"] as const).entries()) {
    const call = intentOf({ name: event, position });
    await startCall(context, record, call);
    await endCall(context, record, callEnds[event], call);
  }
}

/** One call of each state. */
async function writeCalls(context: CaseContext, record: InProgressRecord): Promise<void> {
  await writeEndedCalls(context, record);
  await startCall(context, record, intentOf({ name: "started", position: 3 }));
}

const staying: readonly StoreCase[] = goingOn.map(([what, lead]) => ({
  name: `journal: a life that ${what} keeps its input, its steps and its recovery point`,
  async run(context) {
    const record = await beginWork(context);
    await writeEndedCalls(context, record);
    const before = await journalOf(context, record);
    assert.deepEqual(
      [before.input && hex(before.input), before.recoveryPoint],
      [hex(bytes("input")), "refuse"],
    );
    await lead(context, record);
    sameJournal(await journalOf(context, record), before, "the journal must be unchanged");
  },
}));

const leaving: readonly StoreCase[] = ending.map(([what, lead]) => ({
  name: `journal: a life that ${what} loses its input, and keeps its steps and recovery point`,
  async run(context) {
    const record = await beginWork(context);
    await writeCalls(context, record);
    const before = await journalOf(context, record);
    await lead(context, record);
    sameJournal(await journalOf(context, record), { ...before, input: null }, "only the input may be gone");
  },
}));

/** Events that replace or end a forgotten record. */
const successors: readonly (readonly [
  what: string,
  lead: (context: CaseContext, old: LatchkeyRecord) => Promise<unknown>,
])[] = [
  ["is forgotten", (context) => cleanAll(context)],
  [
    "is replaced by a new life",
    (context, old) => context.store.create(newLife(keyOf(old)), guardOf(old), defaultTerms),
  ],
  [
    "is replaced by a pending request",
    (context, old) => context.store.accept(newLife(keyOf(old)), guardOf(old), hour),
  ],
  [
    "is replaced by a lost transaction",
    (context, old) => context.store.recordLostTransaction(newLife(keyOf(old)), guardOf(old), "x"),
  ],
];

async function finishedWork(context: CaseContext, forgetAfterMs: number) {
  const call = intentOf();
  const record = await beginWork(context);
  await startCall(context, record, call);
  await endCall(context, record, callEnds.finish);
  await end(context, record, completion("old", { retentionMs: minute, forgetAfterMs }));
  return { record, call };
}

async function isGone(context: CaseContext, record: LatchkeyRecord, downstreamKey: string): Promise<void> {
  const { journal } = context.other;
  assert.equal(await journal.read(keyOf(record), record.id), null, "the old life must have no journal");
  assert.deepEqual(await journal.callsByDownstreamKey([downstreamKey]), [], "its calls must be gone");
}

const going: readonly StoreCase[] = successors.map(([what, lead]) => ({
  name: `journal: steps go when their record ${what}, and not before`,
  async run(context) {
    const { record, call } = await finishedWork(context, hour);
    await context.advance(2 * hour);
    const old = await readRecord(context, keyOf(record));
    assert.equal((await journalOf(context, record)).steps.length, 1, "before that, they must be stored");
    assert.ok(await lead(context, old));
    await isGone(context, record, call.downstreamKey);
    const { record: next } = await context.store.read(keyOf(record));
    if (next !== null)
      assert.deepEqual((await journalOf(context, next)).steps, [], "a new life must have none");
  },
}));

const untouched: readonly StoreCase[] = (["in_progress", "retryable", "unknown"] as const).map((state) => ({
  name: `journal: cleaning leaves a record that is ${state} and its steps, however old they are`,
  async run(context) {
    const record = await beginWork(context);
    await writeCalls(context, record);
    if (state !== "in_progress") await end(context, record, ends[state]);
    const before = await journalOf(context, record);
    await context.advance(1_000 * day);
    assert.deepEqual(await cleanAll(context), nothingCleaned);
    assert.equal((await readRecord(context, keyOf(record))).state, state);
    sameJournal(await journalOf(context, record), before, "cleaning must leave the journal");
  },
}));

export const journalLifetimeCases: readonly StoreCase[] = [
  {
    name: "journal: a pending request and a lost transaction keep their input",
    async run(context) {
      const input = bytes("waiting");
      const pending = await context.store.accept(newLife(newKey(), { input }), null, day);
      const lost = await context.store.recordLostTransaction(newLife(newKey(), { input }), null, "x");
      assert.ok(pending && lost);
      for (const record of [pending, lost]) {
        sameJournal(
          await journalOf(context, record),
          { input, recoveryPoint: null, steps: [], now: 0 },
          "kept",
        );
      }
      await context.advance(2 * day);
      await context.store.clean(10);
      assert.equal(
        (await journalOf(context, pending)).input,
        null,
        "a request that timed out no longer needs it",
      );
    },
  },
  {
    name: "journal: a retryable life whose transaction was lost keeps its first input and its steps",
    async run(context) {
      const record = await beginWork(context);
      await writeCalls(context, record);
      await end(context, record, ends.retryable);
      const before = await journalOf(context, record);
      const retryable = await readRecord(context, keyOf(record));
      const fence = { attempt: record.fence.attempt + 1, token: newToken() };
      const life = newLife(keyOf(record), { id: record.id, fence, input: bytes("another") });
      assert.ok(await context.store.recordLostTransaction(life, guardOf(retryable), "x"));
      sameJournal(await journalOf(context, record), before, "the life continues");
    },
  },
  {
    name: "journal: a retryable life that a transaction completes keeps its steps, without its input",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await writeCalls(context, record);
      await end(context, record, ends.retryable);
      const before = await journalOf(context, record);
      const replaces = guardOf(await readRecord(context, keyOf(record)));
      const fence = { attempt: record.fence.attempt + 1, token: newToken() };
      const life = newLife(keyOf(record), { id: record.id, fence, input: bytes("another") });
      const commit = commitOf(keyOf(record), { life, replaces });
      const outcome = await writing(transactional(context), keyOf(record), newRow(), () => commit);
      assert.equal(outcome.kind, "committed");
      sameJournal(await journalOf(context, record), { ...before, input: null }, "the same life");
    },
  },
  {
    name: "journal: steps go when a transaction replaces their record",
    needs: withTransactions,
    async run(context) {
      const { record, call } = await finishedWork(context, hour);
      await context.advance(2 * hour);
      const replaces = guardOf(await readRecord(context, keyOf(record)));
      const commit = commitOf(keyOf(record), { replaces });
      const outcome = await writing(transactional(context), keyOf(record), newRow(), () => commit);
      assert.equal(outcome.kind, "committed");
      await isGone(context, record, call.downstreamKey);
    },
  },
  {
    name: "journal: steps go when their attempt is released",
    async run(context) {
      const record = await beginWork(context);
      const call = intentOf();
      await startCall(context, record, call);
      await end(context, record, { event: "release" });
      await isGone(context, record, call.downstreamKey);
      const again = await beginWork(context, {}, newLife(keyOf(record)));
      assert.deepEqual((await journalOf(context, again)).steps, []);
      assert.equal((await startCall(context, again)).sends, 1, "the name must be free in a new life");
    },
  },
  ...staying,
  ...leaving,
  ...going,
  ...untouched,
];
