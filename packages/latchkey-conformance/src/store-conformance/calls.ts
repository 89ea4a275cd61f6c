/** `journal.startCall` and `journal.endCall`: the intent before a send, the result after it. */
import assert from "node:assert/strict";
import { type CallEnd, guardOf } from "latchkey/internal";
import { defaultTerms, ends, leaseMs, minute, newToken, second } from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { isAfter, race, timed, unchanged, winners } from "./check.ts";
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
  otherStates,
  ownerIn,
  ownerOf,
  refusedWrite,
  runPhase,
  sameSteps,
  startCall,
  takeOver,
  wrongOwnersOf,
} from "./journal-arrange.ts";
import { neverHappened, putInDoubt, settleUnknown } from "./settlement-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

const charge = { name: "charge", generation: 0 };
const events = ["finish", "refuse", "not_executed"] as const;
const callers = 8;

const startInOtherStates: readonly StoreCase[] = otherStates.map((state) => ({
  name: `start call: refused on a record that is ${state}`,
  async run(context) {
    const { record, owner } = await ownerIn(context, state);
    await refusedWrite(context, record, "starting", () => context.store.journal.startCall(owner, intentOf()));
  },
}));

const endInOtherStates: readonly StoreCase[] = (["retryable", "unknown", "completed", "failed"] as const).map(
  (state) => ({
    name: `end call: refused on a record that is ${state}`,
    async run(context) {
      const record = await beginWork(context);
      await startCall(context, record);
      assert.ok(await context.store.end(keyOf(record), record.id, record.fence, ends[state]));
      for (const end of Object.values(callEnds)) {
        await refusedWrite(context, record, end.event, () =>
          context.store.journal.endCall(ownerOf(record), charge, end),
        );
      }
    },
  }),
);

const leftAsTheyAre: readonly StoreCase[] = (["finish", "refuse"] as const).map((event) => ({
  name: `start call: a call that has ended with ${event} is returned unchanged`,
  async run(context) {
    const record = await beginWork(context);
    await startCall(context, record);
    await endCall(context, record, callEnds[event]);
    const there = await callOf(context, record);
    await context.advance(minute);
    const again = await changesNothing(context, record, "starting", () => startCall(context, record));
    sameSteps([again], [there], "the step as it was");
  },
}));

const finals: readonly StoreCase[] = (["finish", "refuse"] as const).map((event) => ({
  name: `end call: ${event} stores the result and advances the recovery point`,
  async run(context) {
    const record = await beginWork(context);
    const started = await startCall(context, record);
    await context.advance(minute);
    const { after, before } = await timed(context, keyOf(record), () =>
      endCall(context, record, callEnds[event]),
    );
    const { steps, recoveryPoint } = await journalOf(context, record);
    const call = await callOf(context, record);
    isAfter(context, call.finishedAt, { before, after }, 0, "finishedAt");
    const state = event === "finish" ? "finished" : "refused";
    const { result } = callEnds[event];
    sameSteps(steps, [{ ...started, state, result, finishedAt: call.finishedAt }], "the started call, ended");
    assert.equal(recoveryPoint, "charge");
  },
}));

const repeated: readonly StoreCase[] = events.map((event) => ({
  name: `end call: repeating ${event} after a lost reply is true and changes nothing`,
  async run(context) {
    const record = await beginWork(context);
    await startCall(context, record);
    await endCall(context, record, callEnds[event]);
    await context.advance(minute);
    await changesNothing(context, record, event, () => endCall(context, record, callEnds[event]));
  },
}));

const otherEnds: readonly StoreCase[] = events.map((event) => ({
  name: `end call: after ${event}, no other end is accepted`,
  async run(context) {
    const record = await beginWork(context);
    await startCall(context, record);
    await endCall(context, record, callEnds[event]);
    const others: CallEnd[] = events.filter((other) => other !== event).map((other) => callEnds[other]);
    if (event !== "not_executed") others.push({ event, result: bytes("another") });
    for (const end of others) {
      await refusedWrite(context, record, end.event, () =>
        context.store.journal.endCall(ownerOf(record), charge, end),
      );
    }
  },
}));

export const callCases: readonly StoreCase[] = [
  {
    name: "start call: the intent is stored as given, with the current time",
    async run(context) {
      const record = await beginWork(context);
      const intent = intentOf({ position: 3, version: "7", generation: 2 });
      const start = () => context.store.journal.startCall(ownerOf(record), intent);
      const { result, ...span } = await timed(context, keyOf(record), start);
      assert.ok(result);
      isAfter(context, result.now, span, 0, "now");
      isAfter(context, result.step.startedAt, span, 0, "startedAt");
      const { startedAt } = result.step;
      const call = { kind: "call", state: "started", result: null, sends: 1, startedAt } as const;
      const expected = { ...intent, ...call, finishedAt: null };
      sameSteps([result.step], [expected], "as given");
      const { steps, recoveryPoint } = await journalOf(context, record);
      sameSteps(steps, [expected], "stored as returned");
      assert.equal(recoveryPoint, null, "a started call is not a recovery point");
    },
  },
  {
    name: "start call: leaves the record itself unchanged",
    async run(context) {
      const record = await beginWork(context);
      await unchanged(context, keyOf(record), "a call", async () => {
        await startCall(context, record);
        await endCall(context, record, callEnds.finish);
      });
    },
  },
  {
    name: "start call: a started call keeps all its fields, and counts one more send",
    async run(context) {
      const record = await beginWork(context);
      const first = await startCall(context, record);
      await context.advance(minute);
      const other = { position: 9, version: "9", effect: "another", input: bytes("another") };
      const again = await startCall(context, record, intentOf(other));
      sameSteps([again], [{ ...first, sends: 2 }], "the first intent, with two sends");
      sameSteps((await journalOf(context, record)).steps, [again], "stored as returned");
    },
  },
  {
    name: "start call: a call that is not executed is started again with its own input and key, at the current time",
    async run(context) {
      const record = await beginWork(context);
      const first = await startCall(context, record);
      await endCall(context, record, callEnds.not_executed);
      await context.advance(minute);
      const start = () => startCall(context, record, intentOf({ input: bytes("another") }));
      const { result, ...span } = await timed(context, keyOf(record), start);
      isAfter(context, result.startedAt, span, 0, "startedAt");
      sameSteps([result], [{ ...first, sends: 2, startedAt: result.startedAt }], "the same call again");
      sameSteps((await journalOf(context, record)).steps, [result], "stored as returned");
    },
  },
  {
    name: "start call: a call of another generation is returned unchanged",
    async run(context) {
      const record = await beginWork(context);
      const there = await startCall(context, record, intentOf({ generation: 1 }));
      for (const generation of [0, 2]) {
        const again = await changesNothing(context, record, "starting", () =>
          startCall(context, record, intentOf({ generation })),
        );
        sameSteps([again], [there], "the step as it was");
      }
    },
  },
  {
    name: "start call: the name of a phase is refused",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await runPhase(context, record, "charge");
      await refusedWrite(context, record, "starting", () =>
        context.store.journal.startCall(ownerOf(record), intentOf()).catch(() => null),
      );
    },
  },
  {
    name: "start call: refused to anyone but the owner",
    async run(context) {
      const record = await beginWork(context);
      for (const [what, stranger] of wrongOwnersOf(record)) {
        await refusedWrite(context, record, what, () =>
          context.store.journal.startCall(stranger, intentOf()),
        );
      }
      await startCall(context, record);
      for (const [what, stranger] of wrongOwnersOf(record)) {
        await refusedWrite(context, record, `again with ${what}`, () =>
          context.store.journal.startCall(stranger, intentOf()),
        );
      }
    },
  },
  {
    name: "start call: accepted after the lease has ended, until another attempt takes over",
    async run(context) {
      const record = await beginWork(context);
      await context.advance(leaseMs + second);
      await startCall(context, record);
      const next = await takeOver(context, record);
      await refusedWrite(context, record, "the previous owner's call", () =>
        context.store.journal.startCall(ownerOf(record), intentOf()),
      );
      assert.equal((await startCall(context, next)).sends, 2);
    },
  },
  {
    name: "start call: many at once make one step that counts all of them",
    async run(context) {
      const record = await beginWork(context);
      const results = await race(context, callers, (store) =>
        store.journal.startCall(ownerOf(record), intentOf()),
      );
      const sends = results.map((result) => result?.step.sends ?? 0).sort((left, right) => left - right);
      assert.deepEqual(
        sends,
        Array.from({ length: callers }, (_, index) => index + 1),
      );
      const keys = new Set(results.map((result) => result?.step.downstreamKey));
      assert.equal(keys.size, 1, "every caller must get the same key");
      assert.equal((await journalOf(context, record)).steps.length, 1);
    },
  },
  {
    name: "start call: racing with a take-over, the result that was returned is the one that is stored",
    async run(context) {
      const record = await beginWork(context);
      await context.advance(leaseMs + second);
      const owner = ownerOf(record);
      const [started] = await Promise.all([
        context.store.journal.startCall(owner, intentOf()),
        context.other.takeOver(owner.key, guardOf(record), record.fingerprint, newToken(), defaultTerms),
      ]);
      const { steps } = await journalOf(context, record);
      sameSteps(steps, started === null ? [] : [started.step], "what was returned must be stored");
    },
  },
  ...startInOtherStates,
  ...leftAsTheyAre,
  ...finals,
  {
    name: "end call: not_executed gives the call back, and leaves the recovery point",
    async run(context) {
      const record = await beginWork(context);
      const before = intentOf({ name: "before" });
      await startCall(context, record, before);
      await endCall(context, record, callEnds.finish, before);
      const started = await startCall(context, record, intentOf({ position: 1 }));
      await endCall(context, record, callEnds.not_executed);
      sameSteps(
        [await callOf(context, record)],
        [{ ...started, state: "not_executed" }],
        "only the state may change",
      );
      assert.equal((await journalOf(context, record)).recoveryPoint, "before");
    },
  },
  {
    name: "end call: the recovery point is the last finished step",
    async run(context) {
      const record = await beginWork(context);
      for (const [position, name] of ["one", "two", "three"].entries()) {
        const call = intentOf({ name, position });
        await startCall(context, record, call);
        await endCall(context, record, callEnds.finish, call);
        assert.equal((await journalOf(context, record)).recoveryPoint, name);
      }
    },
  },
  ...repeated,
  ...otherEnds,
  {
    name: "end call: false if no such call was started, or one of another generation",
    async run(context) {
      const record = await beginWork(context);
      await startCall(context, record);
      const elsewhere = [
        { name: "another", generation: 0 },
        { name: "charge", generation: 1 },
        { name: "Charge", generation: 0 },
      ];
      for (const call of elsewhere) {
        for (const end of Object.values(callEnds)) {
          await refusedWrite(context, record, `${end.event} of ${call.name} ${call.generation}`, () =>
            context.store.journal.endCall(ownerOf(record), call, end),
          );
        }
      }
    },
  },
  {
    name: "end call: an end for the generation before a reopened one is false",
    async run(context) {
      const { record, key } = await putInDoubt(context);
      const reopen = { call: "charge", generation: 0, downstreamKey: intentOf().downstreamKey };
      await settleUnknown(context, key, { ...neverHappened, reopen });
      const next = await takeOver(context, record);
      await startCall(context, next, intentOf({ generation: 1 }));
      await refusedWrite(context, next, "an end of generation 0", () =>
        context.store.journal.endCall(ownerOf(next), charge, callEnds.finish),
      );
      await endCall(context, next, callEnds.finish, { ...charge, generation: 1 });
    },
  },
  {
    name: "end call: the name of a phase is refused",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await runPhase(context, record, "charge");
      await refusedWrite(context, record, "an end", () =>
        context.store.journal.endCall(ownerOf(record), charge, callEnds.finish),
      );
    },
  },
  {
    name: "end call: refused to anyone but the owner",
    async run(context) {
      const record = await beginWork(context);
      await startCall(context, record);
      for (const [what, stranger] of wrongOwnersOf(record)) {
        for (const end of Object.values(callEnds)) {
          await refusedWrite(context, record, `${end.event} with ${what}`, () =>
            context.store.journal.endCall(stranger, charge, end),
          );
        }
      }
    },
  },
  {
    name: "end call: accepted after the lease has ended, until another attempt takes over",
    async run(context) {
      const record = await beginWork(context);
      const later = intentOf({ name: "second", position: 1 });
      await startCall(context, record);
      await startCall(context, record, later);
      await context.advance(leaseMs + second);
      await endCall(context, record, callEnds.finish);
      await takeOver(context, record);
      await refusedWrite(context, record, "the previous owner's end", () =>
        context.store.journal.endCall(ownerOf(record), later, callEnds.finish),
      );
    },
  },
  {
    name: "end call: exactly one of many different ends at once is accepted",
    async run(context) {
      const record = await beginWork(context);
      await startCall(context, record);
      const results = await race(context, callers, (store, index) =>
        store.journal.endCall(ownerOf(record), charge, { event: "finish", result: bytes(`${index}`) }),
      );
      assert.equal(winners(results), 1);
      const { result } = await callOf(context, record);
      assert.equal(new TextDecoder().decode(result ?? bytes("")), `${results.indexOf(true)}`);
    },
  },
  {
    name: "end call: racing with a take-over, the result that was returned is the one that is stored",
    async run(context) {
      const record = await beginWork(context);
      await startCall(context, record);
      await context.advance(leaseMs + second);
      const owner = ownerOf(record);
      const [ended] = await Promise.all([
        context.store.journal.endCall(owner, charge, callEnds.finish),
        context.other.takeOver(owner.key, guardOf(record), record.fingerprint, newToken(), defaultTerms),
      ]);
      assert.equal((await callOf(context, record)).state, ended ? "finished" : "started");
    },
  },
  ...endInOtherStates,
];
