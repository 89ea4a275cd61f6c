/** `transactions.phase`: business rows, their step and the recovery point commit or roll back together. */
import assert from "node:assert/strict";
import type { IsolationLevel } from "latchkey";
import type { Owner } from "latchkey/internal";
import { hour, leaseMs, minute, readRecord, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, sameRecord, timed, unchanged } from "./check.ts";
import {
  beginWork,
  bytes,
  callEnds,
  changesNothing,
  endCall,
  isCommitted,
  journalOf,
  keyOf,
  otherStates,
  ownerIn,
  ownerOf,
  type PhaseCommit,
  phaseCommit,
  phaseRequest,
  phasing,
  runPhase,
  sameSteps,
  startCall,
  takeOver,
  wrongOwnersOf,
} from "./journal-arrange.ts";
import { newRow, transactional, withTransactions } from "./transactions-arrange.ts";

const completes = { answer: bytes("answer"), retention: { retentionMs: hour, forgetAfterMs: 2 * hour } };

/** Asserts that a phase does not commit: neither its row nor its step may be stored, and the record stays as it was. */
async function losesPhase(
  context: CaseContext,
  record: { readonly id: string } & Parameters<typeof keyOf>[0],
  owner: Owner,
  what: string,
  commit: PhaseCommit = phaseCommit(),
): Promise<void> {
  const row = newRow();
  const outcome = await changesNothing(context, record, what, () =>
    phasing(context, owner, row, () => commit),
  );
  assert.deepEqual({ ...outcome }, { kind: "lost", value: "value" }, `${what} must be lost`);
  assert.ok(!(await isCommitted(context, row)), `${what} must leave no row`);
}

const quietEnds: readonly StoreCase[] = (["rollback", "abandon"] as const).map((end) => ({
  name: `phase: ${end} leaves neither rows nor a step`,
  needs: withTransactions,
  async run(context) {
    const record = await beginWork(context);
    const row = newRow();
    const outcome = await changesNothing(context, record, end, () =>
      phasing(context, ownerOf(record), row, () => ({ end, value: "kept" })),
    );
    assert.deepEqual({ ...outcome }, { kind: "rolled_back", value: "kept" });
    assert.ok(!(await isCommitted(context, row)), "the row must be gone");
    await runPhase(context, record);
  },
}));

const inOtherStates: readonly StoreCase[] = otherStates.map((state) => ({
  name: `phase: lost on a record that is ${state}, even if it would complete it`,
  needs: withTransactions,
  async run(context) {
    const { record, owner } = await ownerIn(context, state);
    await losesPhase(context, record, owner, "a phase");
    await losesPhase(context, record, owner, "a last phase", phaseCommit("last", { completes }));
  },
}));

const isolationLevels: readonly (IsolationLevel | null)[] = [
  null,
  "read committed",
  "repeatable read",
  "serializable",
];

const isolations: readonly StoreCase[] = isolationLevels.map((isolation) => ({
  name: `phase: commits at isolation level ${isolation ?? "as the database has it"}, even after a renewal`,
  needs: withTransactions,
  async run(context) {
    const record = await beginWork(context);
    const row = newRow();
    assert.equal(await context.other.renew(keyOf(record), record.id, record.fence, hour), true);
    const outcome = await phasing(context, ownerOf(record), row, () => phaseCommit(), { isolation });
    assert.equal(outcome.kind, "committed");
    assert.ok(await isCommitted(context, row));
  },
}));

const takenNames: readonly StoreCase[] = (["phase", "call"] as const).map((kind) => ({
  name: `phase: a name that an earlier ${kind} has is refused, and leaves no row`,
  needs: withTransactions,
  async run(context) {
    const record = await beginWork(context);
    if (kind === "phase") await runPhase(context, record, "charge");
    else await startCall(context, record);
    const row = newRow();
    const again = phaseCommit("charge", { position: 1, result: bytes("another") });
    const outcome = await changesNothing(context, record, "the second step", () =>
      phasing(context, ownerOf(record), row, () => again),
    );
    assert.equal(outcome.kind, "refused");
    assert.ok(!(await isCommitted(context, row)), "no row may be left");
  },
}));

export const phaseCases: readonly StoreCase[] = [
  {
    name: "phase: commits its rows, its step and the recovery point, and changes nothing else of the record",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const row = newRow();
      const commit = phaseCommit("reserve", { position: 2, version: "7" });
      const phase = () => phasing(context, ownerOf(record), row, () => commit);
      const { result, ...span } = await timed(context, keyOf(record), () =>
        unchanged(context, keyOf(record), "a phase", phase),
      );
      assert.deepEqual({ ...result }, { kind: "committed", value: "value", expiresAt: null });
      assert.ok(await isCommitted(context, row));
      const { steps, recoveryPoint, input } = await journalOf(context, record);
      const finishedAt = steps[0]?.kind === "phase" ? steps[0].finishedAt : null;
      isAfter(context, finishedAt, span, 0, "finishedAt");
      sameSteps(steps, [{ kind: "phase", ...commit.step, finishedAt: finishedAt ?? 0 }], "as given");
      assert.equal(recoveryPoint, "reserve");
      assert.ok(input !== null, "the input must stay");
    },
  },
  {
    name: "phase: the last phase completes the attempt in the same commit",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await context.advance(minute);
      const row = newRow();
      const commit = phaseCommit("last", { completes });
      const phase = () => phasing(context, ownerOf(record), row, () => commit);
      const { result, ...span } = await timed(context, keyOf(record), phase);
      assert.ok(await isCommitted(context, row));
      const done = await readRecord(context, keyOf(record));
      assert.ok(done.state === "completed");
      const { finishedAt, expiresAt, forgetAt } = done;
      isAfter(context, finishedAt, span, 0, "finishedAt");
      isAfter(context, expiresAt, span, hour, "expiresAt");
      isAfter(context, forgetAt, span, 2 * hour, "forgetAt");
      assert.deepEqual({ ...result }, { kind: "committed", value: "value", expiresAt });
      const { leaseEndsAt: _, ...life } = record;
      const times = { finishedAt, expiresAt, forgetAt };
      const { answer } = completes;
      const expected = { ...life, state: "completed", answer, lastErrorCode: null, ...times } as const;
      sameRecord(done, expected, "completed with the answer");
      const { steps, recoveryPoint, input } = await journalOf(context, record);
      sameSteps(steps, [{ kind: "phase", ...commit.step, finishedAt }], "its step");
      assert.deepEqual([recoveryPoint, input], ["last", null]);
    },
  },
  ...quietEnds,
  {
    name: "phase: rethrows the work's error, after everything was rolled back",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const row = newRow();
      const failure = new Error("the work failed");
      await changesNothing(context, record, "a failure", () =>
        assert.rejects(
          phasing(context, ownerOf(record), row, () => {
            throw failure;
          }),
          (error) => error === failure,
        ),
      );
      assert.ok(!(await isCommitted(context, row)));
      await runPhase(context, record);
    },
  },
  {
    name: "phase: lost to anyone but the owner, and leaves no row",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      for (const [what, stranger] of wrongOwnersOf(record)) {
        await losesPhase(context, record, stranger, what);
        await losesPhase(context, record, stranger, `last: ${what}`, phaseCommit("last", { completes }));
      }
    },
  },
  ...inOtherStates,
  {
    name: "phase: accepted after the lease has ended, until another attempt takes over",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await context.advance(leaseMs + second);
      await runPhase(context, record, "one");
      const next = await takeOver(context, record);
      await losesPhase(context, record, ownerOf(record), "the previous owner's phase", phaseCommit("two"));
      await runPhase(context, next, "two", { position: 1 });
    },
  },
  {
    name: "phase: no phase follows the one that completed the attempt",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await runPhase(context, record, "last", { completes });
      await losesPhase(context, record, ownerOf(record), "a later phase", phaseCommit("later"));
      await losesPhase(
        context,
        record,
        ownerOf(record),
        "the same again",
        phaseCommit("last", { completes }),
      );
    },
  },
  ...takenNames,
  {
    name: "phase: the recovery point is the last finished step, of either kind",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await runPhase(context, record, "one");
      await startCall(context, record);
      assert.equal((await journalOf(context, record)).recoveryPoint, "one");
      await endCall(context, record, callEnds.finish);
      assert.equal((await journalOf(context, record)).recoveryPoint, "charge");
      await runPhase(context, record, "two", { position: 2 });
      assert.equal((await journalOf(context, record)).recoveryPoint, "two");
    },
  },
  {
    name: "phase: a phase that never used `tx` commits its step",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const { support } = transactional(context);
      const outcome = await support.phase(phaseRequest(ownerOf(record)), async () => phaseCommit());
      assert.equal(outcome.kind, "committed");
      assert.equal((await journalOf(context, record)).steps.length, 1);
    },
  },
  ...isolations,
];
