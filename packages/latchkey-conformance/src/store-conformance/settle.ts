/** `settlement.settle`: from `unknown`, with its audit row or not at all. */
import assert from "node:assert/strict";
import { guardOf, type Settlement } from "latchkey/internal";
import {
  defaultTerms,
  hour,
  minute,
  newKey,
  newToken,
  putInState,
  readRecord,
  staleGuards,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, sameRecord, timed, winners } from "./check.ts";
import {
  beginWork,
  bytes,
  callEnds,
  callOf,
  changesNothing,
  endCall,
  intentOf,
  journalOf,
  keyOf,
  newDownstreamKey,
  sameSteps,
  startCall,
  takeOver,
} from "./journal-arrange.ts";
import {
  closedOutside,
  completedOutside,
  foundOutside,
  neverHappened,
  newNote,
  putInDoubt,
  settlements,
  settleUnknown,
} from "./settlement-arrange.ts";

/** Asserts that a settlement does not happen: record, journal and audit stay as they were. */
async function refusedSettlement(
  context: CaseContext,
  { key, id }: { readonly key: ReturnType<typeof newKey>; readonly id: string },
  what: string,
  settle: () => Promise<boolean>,
): Promise<void> {
  const before = await context.other.settlement.audit(key);
  const settled = await changesNothing(context, { ...key, id }, what, settle);
  assert.equal(settled, false, `${what} must be refused`);
  assert.deepEqual(await context.other.settlement.audit(key), before, `${what} must leave no audit row`);
}

const finishing: readonly StoreCase[] = [completedOutside, closedOutside].map((settlement) => ({
  name: `settle: ${settlement.event} writes the finished record and its audit row`,
  async run(context) {
    const { key, record, unknown, guard } = await putInDoubt(context);
    await context.advance(minute);
    const note = newNote();
    const settle = () => context.store.settlement.settle(key, guard, settlement, note);
    const { result, ...span } = await timed(context, key, settle);
    assert.equal(result, true);
    const after = await readRecord(context, key);
    assert.ok(after.state === "completed" || after.state === "failed");
    const { finishedAt, expiresAt, forgetAt } = after;
    isAfter(context, finishedAt, span, 0, "finishedAt");
    isAfter(context, expiresAt, span, hour, "expiresAt");
    isAfter(context, forgetAt, span, 2 * hour, "forgetAt");
    const failed = settlement.event === "settle_failed";
    const state = failed ? ("failed" as const) : ("completed" as const);
    const lastErrorCode = failed ? "closed-downstream" : null;
    const answer = bytes(failed ? "no" : "answer");
    const { reconcileAfter: _, ...life } = unknown;
    const times = { finishedAt, expiresAt, forgetAt };
    sameRecord(after, { ...life, state, lastErrorCode, answer, ...times }, "as given");
    const [entry, ...more] = await context.store.settlement.audit(key);
    assert.ok(entry && more.length === 0);
    isAfter(context, entry.at, span, 0, "at");
    const move = { effectId: null, event: settlement.event, from: "unknown", to: state };
    const expected = { ...note, at: entry.at, key, recordId: record.id, ...move };
    assert.deepEqual({ ...entry, key: { ...entry.key } }, expected);
  },
}));

const goingOn: readonly StoreCase[] = [neverHappened, foundOutside].map((settlement) => ({
  name: `settle: ${settlement.event} makes the life retryable, and the next attempt continues it`,
  async run(context) {
    const { key, record, unknown, guard } = await putInDoubt(context);
    const note = newNote();
    assert.equal(await context.store.settlement.settle(key, guard, settlement, note), true);
    const after = await readRecord(context, key);
    const { reconcileAfter: _, ...life } = unknown;
    sameRecord(after, { ...life, state: "retryable" }, "the same life, with the error code of the doubt");
    const [entry] = await context.store.settlement.audit(key);
    assert.deepEqual([entry?.event, entry?.from, entry?.to], [settlement.event, "unknown", "retryable"]);
    const before = await journalOf(context, record);
    const next = await takeOver(context, record);
    assert.equal(next.fence.attempt, 2);
    sameSteps((await journalOf(context, next)).steps, before.steps, "its steps");
  },
}));

const guarded: readonly StoreCase[] = settlements.map((settlement) => ({
  name: `settle: for ${settlement.event}, the guard covers every part of the record's version`,
  async run(context) {
    const { key, unknown, guard } = await putInDoubt(context);
    const { settle } = context.store.settlement;
    for (const [what, stale] of staleGuards(unknown)) {
      await refusedSettlement(context, { key, id: unknown.id }, what, () =>
        settle(key, stale, settlement, newNote()),
      );
    }
    const elsewhere = { ...key, tenant: "another" };
    assert.equal(await settle(elsewhere, guard, settlement, newNote()), false);
    assert.equal(await settle(newKey(), guard, settlement, newNote()), false);
    assert.equal(await settle(key, guard, settlement, newNote()), true, "the record as it is stored");
  },
}));

const elsewhere: readonly StoreCase[] = states
  .filter((state) => state !== "unknown")
  .map((state) => ({
    name: `settle: refused on a record in state ${state}, whatever the guard says`,
    async run(context) {
      const key = newKey();
      const record = await putInState(context, state, key);
      for (const settlement of settlements) {
        for (const named of [guardOf(record), { ...guardOf(record), state: "unknown" as const }]) {
          await refusedSettlement(context, { key, id: record.id }, settlement.event, () =>
            context.store.settlement.settle(key, named, settlement, newNote()).catch(() => false),
          );
        }
      }
    },
  }));

const repeated: readonly StoreCase[] = settlements.map((settlement) => ({
  name: `settle: repeating ${settlement.event} after a lost reply is true and changes nothing`,
  async run(context) {
    const { key, record, guard } = await putInDoubt(context);
    const note = newNote();
    const settle = () => context.store.settlement.settle(key, guard, settlement, note);
    assert.equal(await settle(), true);
    await context.advance(minute);
    assert.equal(await changesNothing(context, record, "a repetition", settle), true);
    if ((await readRecord(context, key)).state === "retryable") await takeOver(context, record);
    assert.equal(await changesNothing(context, record, "a late repetition", settle), true);
    assert.equal((await context.store.settlement.audit(key)).length, 1);
  },
}));

/** An unknown record with calls in every state: two are `started`. */
async function putInManyDoubts(context: CaseContext) {
  const record = await beginWork(context);
  for (const [position, event] of (["finish", "refuse", "not_executed"] as const).entries()) {
    const call = intentOf({ name: event, position });
    await startCall(context, record, call);
    await endCall(context, record, callEnds[event], call);
  }
  for (const [at, name] of ["charge", "mail"].entries()) {
    await startCall(context, record, intentOf({ name, position: 5 + at }));
  }
  const doubt = { event: "doubt", errorCode: "call-in-doubt", reconcileAfterMs: null } as const;
  assert.ok(await context.store.end(keyOf(record), record.id, record.fence, doubt));
  return { record, key: keyOf(record), before: (await journalOf(context, record)).steps };
}

const misplaced: readonly (readonly [what: string, call: { call: string; generation: number }])[] = [
  ["another generation", { call: "charge", generation: 1 }],
  ["no such call", { call: "another", generation: 0 }],
  ["a finished call", { call: "finish", generation: 0 }],
  ["a refused call", { call: "refuse", generation: 0 }],
  ["a call that is not executed", { call: "not_executed", generation: 0 }],
];

const misplacedCalls: readonly StoreCase[] = misplaced.flatMap(([what, call]) => {
  const downstreamKey = newDownstreamKey();
  const wrong: readonly (readonly [how: string, settlement: Settlement])[] = [
    ["settle_call", { ...foundOutside, ...call }],
    ["reopening", { ...neverHappened, reopen: { ...call, downstreamKey } }],
  ];
  return wrong.map(([how, settlement]) => ({
    name: `settle: ${how} of ${what} is refused`,
    async run(context: CaseContext) {
      const { record, key } = await putInManyDoubts(context);
      const guard = guardOf(await readRecord(context, key));
      await refusedSettlement(context, { key, id: record.id }, how, () =>
        context.store.settlement.settle(key, guard, settlement, newNote()),
      );
    },
  }));
});

export const settleCases: readonly StoreCase[] = [
  ...finishing,
  ...goingOn,
  {
    name: "settle: never-happened gives back the calls that are started, and no others",
    async run(context) {
      const { key, record, before } = await putInManyDoubts(context);
      await settleUnknown(context, key, neverHappened);
      const expected = before.map((step) =>
        step.kind === "call" && step.state === "started" ? { ...step, state: "not_executed" as const } : step,
      );
      const { steps, recoveryPoint } = await journalOf(context, record);
      sameSteps(steps, expected, "only their state may change");
      assert.equal(recoveryPoint, "refuse");
    },
  },
  {
    name: "settle: may-repeat leaves every call unchanged",
    async run(context) {
      const { key, record, before } = await putInManyDoubts(context);
      await settleUnknown(context, key, { ...neverHappened, calls: "may-repeat" });
      sameSteps((await journalOf(context, record)).steps, before, "as they were");
      const next = await takeOver(context, record);
      const again = await startCall(context, next);
      const charge = before.find(({ name }) => name === "charge");
      assert.ok(charge?.kind === "call");
      sameSteps([again], [{ ...charge, sends: 2 }], "the same key and input, since the first send");
    },
  },
  {
    name: "settle: reopening raises the generation, changes the key and keeps the input",
    async run(context) {
      const { key, record, before } = await putInManyDoubts(context);
      const downstreamKey = newDownstreamKey();
      const reopen = { call: "charge", generation: 0, downstreamKey };
      await settleUnknown(context, key, { ...neverHappened, calls: "may-repeat", reopen });
      const closed = { state: "not_executed", generation: 1, downstreamKey, sends: 0 } as const;
      const expected = before.map((step) =>
        step.kind === "call" && step.name === "charge" ? { ...step, ...closed } : step,
      );
      sameSteps(
        (await journalOf(context, record)).steps,
        expected,
        "only the call that was closed may change",
      );
      const next = await takeOver(context, record);
      const stale = await changesNothing(context, next, "generation 0", () => startCall(context, next));
      assert.deepEqual([stale.state, stale.generation], ["not_executed", 1]);
      const again = await startCall(context, next, intentOf({ generation: 1, input: bytes("another") }));
      assert.deepEqual([again.state, again.sends, again.downstreamKey], ["started", 1, downstreamKey]);
      assert.equal(new TextDecoder().decode(again.input), "call input");
    },
  },
  {
    name: "settle: reopening with never-happened also gives back the other calls",
    async run(context) {
      const { key, record } = await putInManyDoubts(context);
      const reopen = { call: "charge", generation: 0, downstreamKey: newDownstreamKey() };
      await settleUnknown(context, key, { ...neverHappened, reopen });
      const [charge, mail] = [await callOf(context, record), await callOf(context, record, "mail")];
      assert.deepEqual([charge.state, charge.generation], ["not_executed", 1]);
      assert.deepEqual([mail.state, mail.generation], ["not_executed", 0]);
    },
  },
  {
    name: "settle: settle_call stores the result of that call, and advances the recovery point",
    async run(context) {
      const { key, record, before } = await putInManyDoubts(context);
      await context.advance(minute);
      const settle = () => settleUnknown(context, key, foundOutside);
      const { after, before: from } = await timed(context, key, settle);
      const { finishedAt } = await callOf(context, record);
      isAfter(context, finishedAt, { before: from, after }, 0, "finishedAt");
      const found = { state: "finished", result: foundOutside.result, finishedAt } as const;
      const expected = before.map((step) =>
        step.kind === "call" && step.name === "charge" ? { ...step, ...found } : step,
      );
      const { steps, recoveryPoint } = await journalOf(context, record);
      sameSteps(steps, expected, "only the call that was found may change");
      assert.equal(recoveryPoint, "charge");
    },
  },
  ...misplacedCalls,
  ...guarded,
  ...elsewhere,
  ...repeated,
  {
    name: "settle: exactly one of many at once is written, with one audit row",
    async run(context) {
      const { key, guard } = await putInDoubt(context);
      const notes = Array.from({ length: 8 }, () => newNote());
      const results = await race(context, notes.length, (store, index) =>
        store.settlement.settle(
          key,
          guard,
          settlements[index % settlements.length] ?? neverHappened,
          notes[index] ?? newNote(),
        ),
      );
      assert.equal(winners(results), 1);
      const entries = await context.store.settlement.audit(key);
      assert.deepEqual(
        entries.map(({ id }) => id),
        [notes[results.indexOf(true)]?.id],
      );
      assert.equal(entries[0]?.to, (await readRecord(context, key)).state);
    },
  },
  {
    name: "settle: a repetition concurrent with the first is true, with one audit row",
    async run(context) {
      const { key, guard } = await putInDoubt(context);
      const note = newNote();
      await race(context, 6, (store) => store.settlement.settle(key, guard, neverHappened, note));
      assert.equal(await context.store.settlement.settle(key, guard, neverHappened, note), true);
      assert.equal((await context.store.settlement.audit(key)).length, 1);
    },
  },
  {
    name: "settle: a claim between the decision and the settlement does not undo it",
    async run(context) {
      const { key, guard, record } = await putInDoubt(context, 0);
      const claimed = await context.other.settlement.claimUnknowns([record.operation], 10, minute);
      assert.equal(claimed.length, 1);
      assert.equal(await context.store.settlement.settle(key, guard, completedOutside, newNote()), true);
    },
  },
  {
    name: "settle: racing with a claim, it leaves nothing to claim",
    async run(context) {
      const { key, guard, record } = await putInDoubt(context, 0);
      const [settled] = await Promise.all([
        context.store.settlement.settle(key, guard, completedOutside, newNote()),
        context.other.settlement.claimUnknowns([record.operation], 10, minute),
      ]);
      assert.equal(settled, true);
      assert.equal((await readRecord(context, key)).state, "completed");
      await context.advance(hour / 2);
      assert.deepEqual(await context.store.settlement.claimUnknowns([record.operation], 10, minute), []);
    },
  },
  {
    name: "settle: a life that has become retryable is taken over by exactly one of many",
    async run(context) {
      const { key } = await putInDoubt(context);
      const after = await settleUnknown(context, key, neverHappened);
      const results = await race(context, 6, (store) =>
        store.takeOver(key, guardOf(after), after.fingerprint, newToken(), defaultTerms),
      );
      assert.equal(winners(results), 1);
    },
  },
];
