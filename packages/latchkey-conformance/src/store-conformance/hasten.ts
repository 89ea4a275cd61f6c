/** `settlement.hasten`: moves the time for which a record waits to now, with its audit row or not at all. */
import assert from "node:assert/strict";
import type { RecordState } from "latchkey";
import { guardOf } from "latchkey/internal";
import {
  defaultTerms,
  minute,
  newKey,
  newLife,
  putInState,
  readRecord,
  staleGuards,
  states,
} from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { isAfter, race, timed, winners } from "./check.ts";
import { changesNothing } from "./journal-arrange.ts";
import { newNote } from "./settlement-arrange.ts";

const over: readonly RecordState[] = ["completed", "failed", "expired"];
const waiting: readonly RecordState[] = ["retryable", "unknown"];
const hastened = [...over, ...waiting];

const written: readonly StoreCase[] = hastened.map((state) => ({
  name: `hasten: a record that is ${state} keeps its state and gets an audit row`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    await context.advance(1);
    const note = newNote();
    const { result, ...span } = await timed(context, key, () =>
      context.store.settlement.hasten(key, guardOf(record), note),
    );
    assert.equal(result, true);
    const after = await readRecord(context, key);
    assert.deepEqual([after.id, after.state, after.fence], [record.id, state, record.fence]);
    const [entry, ...more] = await context.other.settlement.audit(key);
    assert.ok(entry !== undefined && more.length === 0, "one audit row");
    isAfter(context, entry.at, span, 0, "at");
    const event = waiting.includes(state) ? "retry" : "forget";
    const move = { effectId: null, event, from: state, to: state };
    assert.deepEqual(
      { ...entry, key: { ...entry.key } },
      { ...note, at: entry.at, key, recordId: record.id, ...move },
    );
  },
}));

/** An expired record may be replaced by a new life anyway; `cleaned` shows what hastening does for it. */
const forgotten: readonly StoreCase[] = (["completed", "failed"] as const).map((state) => ({
  name: `hasten: a key whose record was ${state} may run as new, under another id`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    assert.equal(await context.store.settlement.hasten(key, guardOf(record), newNote()), true);
    const after = await readRecord(context, key);
    const life = newLife(key);
    const begun = await context.other
      .create(life, guardOf(after), defaultTerms)
      .catch((error: unknown) => assert.fail(String(error)));
    assert.equal(begun?.id, life.id);
    assert.notEqual(life.id, record.id);
  },
}));

const cleaned: readonly StoreCase[] = over.map((state) => ({
  name: `hasten: the record-cleaner forgets a record that was ${state}`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    assert.equal(await context.store.settlement.hasten(key, guardOf(record), newNote()), true);
    await context.advance(1);
    for (let rounds = 0; rounds < 2; rounds += 1) await context.other.clean(1_000);
    assert.equal((await context.store.read(key)).record, null);
    assert.equal((await context.store.settlement.audit(key)).length, 1, "its audit row must outlive it");
  },
}));

const lookedUp: StoreCase = {
  name: "hasten: an unknown record that waits for a person is claimed for its look-up",
  async run(context) {
    const key = newKey();
    const record = await putInState(context, "unknown", key);
    assert.equal(await context.store.settlement.postpone(key, guardOf(record), null), true);
    assert.deepEqual(await context.store.settlement.claimUnknowns([record.operation], 10, minute), []);
    assert.equal(await context.store.settlement.hasten(key, guardOf(record), newNote()), true);
    await context.advance(1);
    const [claimed] = await context.other.settlement.claimUnknowns([record.operation], 10, minute);
    assert.equal(claimed?.record.id, record.id);
  },
};

const resumed: StoreCase = {
  name: "hasten: a worker may resume a retryable record",
  async run(context) {
    const key = newKey();
    const record = await putInState(context, "retryable", key);
    assert.deepEqual(await context.store.settlement.resumable([record.operation], 10), []);
    assert.equal(await context.store.settlement.hasten(key, guardOf(record), newNote()), true);
    await context.advance(1);
    const [found] = await context.other.settlement.resumable([record.operation], 10);
    assert.equal(found?.id, record.id);
  },
};

const refused: readonly StoreCase[] = states.map((state) => ({
  name: `hasten: another version of a record that is ${state} is refused`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    const guards = hastened.includes(state) ? staleGuards(record) : [["its own", guardOf(record)] as const];
    for (const [what, guard] of guards) {
      const result = await changesNothing(context, { ...key, id: record.id }, what, () =>
        context.store.settlement.hasten(key, guard, newNote()),
      );
      assert.equal(result, false, what);
    }
    assert.deepEqual(await context.store.settlement.audit(key), []);
  },
}));

const repeated: readonly StoreCase[] = hastened.map((state) => ({
  name: `hasten: repeating it on a record that is ${state}, as after a lost reply, is true and changes nothing`,
  async run(context) {
    const key = newKey();
    const guard = guardOf(await putInState(context, state, key));
    const note = newNote();
    assert.equal(await context.store.settlement.hasten(key, guard, note), true);
    await context.advance(minute);
    const before = await readRecord(context, key);
    assert.equal(await context.other.settlement.hasten(key, guard, note), true);
    assert.deepEqual(await readRecord(context, key), before);
    assert.equal((await context.store.settlement.audit(key)).length, 1);
  },
}));

const twice: readonly StoreCase[] = hastened.map((state) => ({
  name: `hasten: of four callers that hasten a record that is ${state} at once, one writes`,
  async run(context) {
    const key = newKey();
    const guard = guardOf(await putInState(context, state, key));
    const results = await race(context, 4, ({ settlement }) => settlement.hasten(key, guard, newNote()));
    assert.equal(winners(results), 1);
    assert.equal((await context.store.settlement.audit(key)).length, 1);
  },
}));

const raced: StoreCase = {
  name: "hasten: a settlement and a renewed look-up leave the record settled, whichever comes first",
  async run(context) {
    const key = newKey();
    const guard = guardOf(await putInState(context, "unknown", key));
    const results = await race(context, 2, ({ settlement }, index) =>
      index === 0
        ? settlement.hasten(key, guard, newNote())
        : settlement.settle(key, guard, settledFailed, newNote()),
    );
    assert.equal(results[1], true);
    assert.equal((await readRecord(context, key)).state, "failed");
    assert.equal((await context.store.settlement.audit(key)).length, winners(results));
  },
};

const settledFailed = {
  event: "settle_failed",
  answer: new TextEncoder().encode("no"),
  retention: { retentionMs: minute, forgetAfterMs: minute },
  errorCode: "settled-failed",
} as const;

export const hastenCases: readonly StoreCase[] = [
  ...written,
  ...forgotten,
  ...cleaned,
  lookedUp,
  resumed,
  ...refused,
  ...repeated,
  ...twice,
  raced,
];
