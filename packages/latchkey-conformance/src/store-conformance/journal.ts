/** `journal.read`: what it returns, and for which lives. */
import assert from "node:assert/strict";
import { newId, newKey, newLife } from "./arrange.ts";
import { oddBytes } from "./bytes.ts";
import type { StoreCase } from "./case.ts";
import { hex, isAfter, timed } from "./check.ts";
import {
  beginWork,
  bytes,
  callEnds,
  callOf,
  endCall,
  intentOf,
  journalOf,
  keyOf,
  newDownstreamKey,
  runPhase,
  sameJournal,
  startCall,
} from "./journal-arrange.ts";
import { withTransactions } from "./transactions-arrange.ts";

export const journalCases: readonly StoreCase[] = [
  {
    name: "journal: a new life has its input and no steps",
    async run(context) {
      const record = await beginWork(context);
      const { result, ...span } = await timed(context, keyOf(record), () => journalOf(context, record));
      isAfter(context, result.now, span, 0, "now");
      const expected = { input: bytes("input"), recoveryPoint: null, steps: [], now: 0 };
      sameJournal(result, expected, "as given");
    },
  },
  {
    name: "journal: a life that began without an input has none",
    async run(context) {
      const record = await beginWork(context, {}, newLife(newKey()));
      assert.equal((await journalOf(context, record)).input, null);
      assert.deepEqual((await journalOf(context, record)).steps, []);
    },
  },
  {
    name: "journal: null if there is no record, and for another life",
    async run(context) {
      const { journal } = context.store;
      const record = await beginWork(context);
      assert.equal(await journal.read(newKey(), record.id), null, "another key");
      assert.equal(
        await journal.read({ ...keyOf(record), tenant: "another" }, record.id),
        null,
        "another tenant",
      );
      assert.equal(await journal.read(keyOf(record), newId()), null, "another life");
    },
  },
  {
    name: "journal: steps are ordered by their position, whatever the order in which they were written",
    async run(context) {
      const record = await beginWork(context);
      for (const position of [2, 0, 11, 1]) {
        await startCall(context, record, intentOf({ name: `step-${position}`, position }));
      }
      const { steps } = await journalOf(context, record);
      assert.deepEqual(
        steps.map(({ position }) => position),
        [0, 1, 2, 11],
      );
    },
  },
  {
    name: "journal: steps of the same name in other lives and other tenants are separate",
    async run(context) {
      const key = newKey();
      const keys = [key, { ...key, tenant: "another" }, { ...key, scope: "another" }, newKey()];
      const records = [];
      for (const each of keys) records.push(await beginWork(context, {}, newLife(each)));
      const [first, ...others] = records;
      assert.ok(first);
      for (const record of records) await startCall(context, record);
      const before = await Promise.all(others.map((record) => journalOf(context, record)));
      await startCall(context, first);
      await endCall(context, first, callEnds.finish);
      assert.equal((await callOf(context, first)).state, "finished");
      for (const [index, record] of others.entries()) {
        sameJournal(await journalOf(context, record), before[index] ?? null, "a neighbour's journal");
      }
    },
  },
  {
    name: "journal: inputs and results of any bytes come back unchanged",
    async run(context) {
      for (const [what, odd] of oddBytes) {
        const record = await beginWork(context, {}, newLife(newKey(), { input: odd }));
        await startCall(context, record, intentOf({ input: odd }));
        await endCall(context, record, { event: "finish", result: odd });
        const { input, steps } = await journalOf(context, record);
        const [step] = steps;
        assert.ok(input !== null && step?.kind === "call" && step.result !== null);
        const same = [input, step.input, step.result].map((back) => hex(back) === hex(odd));
        assert.deepEqual(same, [true, true, true], what);
      }
    },
  },
  {
    name: "journal: a phase's result of any bytes comes back unchanged",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      for (const [position, [, result]] of oddBytes.entries()) {
        await runPhase(context, record, `step-${position}`, { position, result });
      }
      const { steps } = await journalOf(context, record);
      for (const [index, [what, odd]] of oddBytes.entries()) {
        const back = steps[index]?.result;
        assert.ok(back && hex(back) === hex(odd), what);
      }
    },
  },
  {
    name: "journal: names, versions and keys of any characters come back unchanged",
    async run(context) {
      for (const text of ["Ελλάδα 🔑", "'; drop table steps; --", "null", "__proto__", " a ", "$1 ? {0}"]) {
        const record = await beginWork(context);
        const downstreamKey = `${newDownstreamKey()} ${text}`;
        const call = intentOf({ name: text, version: text, effect: text, downstreamKey });
        const step = await startCall(context, record, call);
        const { name, version, effect } = await callOf(context, record, text);
        assert.deepEqual([name, version, effect], [text, text, text]);
        assert.equal(step.downstreamKey, downstreamKey);
        assert.equal((await context.other.journal.callsByDownstreamKey([downstreamKey])).length, 1);
        await endCall(context, record, callEnds.finish, call);
        assert.equal((await journalOf(context, record)).recoveryPoint, text);
      }
    },
  },
  {
    name: "journal: changing a value that was passed in or returned changes nothing",
    async run(context) {
      const [input, callInput, result] = [bytes("input"), bytes("call"), bytes("result")];
      const record = await beginWork(context, {}, newLife(newKey(), { input }));
      const started = await startCall(context, record, intentOf({ input: callInput }));
      await endCall(context, record, { event: "finish", result });
      const read = await journalOf(context, record);
      const [step] = read.steps;
      assert.ok(step?.kind === "call" && step.result && read.input);
      const held = [input, callInput, result, started.input, read.input, step.input, step.result];
      for (const array of held) array.fill(0);
      const again = await journalOf(context, record);
      const [there] = again.steps;
      assert.ok(there?.kind === "call" && there.result && again.input);
      const texts = [again.input, there.input, there.result].map((array) => new TextDecoder().decode(array));
      assert.deepEqual(texts, ["input", "call", "result"]);
    },
  },
];
