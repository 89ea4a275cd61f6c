/** A phase while it is open: its handle, and what others see and do meanwhile. */
import assert from "node:assert/strict";
import { isLatchkeyError } from "latchkey";
import type { InProgressRecord, PhaseWork } from "latchkey/internal";
import { hour, leaseMs, readRecord, second } from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race, sameRecord } from "./check.ts";
import {
  beginWork,
  bytes,
  isCommitted,
  journalOf,
  keyOf,
  ownerOf,
  phaseCommit,
  phaseRequest,
  phasing,
  runPhase,
  takeOver,
} from "./journal-arrange.ts";
import { newRow, transactional, withImmediateAnswer, withTransactions } from "./transactions-arrange.ts";

const revoked = (error: unknown) => isLatchkeyError(error) && error.code === "tx-revoked";

const completes = { answer: bytes("answer"), retention: { retentionMs: hour, forgetAfterMs: 2 * hour } };

const callers = 4;

async function renewMeanwhile(context: CaseContext, record: InProgressRecord): Promise<void> {
  assert.equal(await context.other.renew(keyOf(record), record.id, record.fence, 3 * hour), true);
}

export const openPhaseCases: readonly StoreCase[] = [
  {
    name: "phase: a phase whose record is taken over while it is open is lost, and leaves no row",
    needs: withImmediateAnswer,
    async run(context) {
      for (const last of [null, completes]) {
        const record = await beginWork(context);
        const row = newRow();
        const outcome = await phasing(context, ownerOf(record), row, async () => {
          await takeOver(context, record);
          return phaseCommit("reserve", { completes: last });
        });
        assert.equal(outcome.kind, "lost");
        assert.ok(!(await isCommitted(context, row)), "no row may be left");
        assert.equal((await readRecord(context, keyOf(record))).fence.attempt, 2);
        assert.deepEqual((await journalOf(context, record)).steps, []);
      }
    },
  },
  {
    name: "phase: the heartbeat continues while a phase is open, and neither undoes the other",
    needs: withImmediateAnswer,
    async run(context) {
      const record = await beginWork(context);
      const outcome = await phasing(context, ownerOf(record), newRow(), async () => {
        await renewMeanwhile(context, record);
        await context.advance(2 * leaseMs);
        await renewMeanwhile(context, record);
        return phaseCommit();
      });
      assert.equal(outcome.kind, "committed");
      const after = await readRecord(context, keyOf(record));
      assert.ok(after.state === "in_progress");
      const { now } = await context.store.read(keyOf(record));
      assert.ok(after.leaseEndsAt > now + 2 * hour, "the renewed lease must stay");
    },
  },
  {
    name: "phase: a heartbeat while a phase is open does not undo it at any isolation level",
    needs: withImmediateAnswer,
    async run(context) {
      for (const isolation of ["read committed", "repeatable read", "serializable"] as const) {
        const record = await beginWork(context);
        const row = newRow();
        const work = async () => {
          await renewMeanwhile(context, record);
          return phaseCommit();
        };
        const outcome = await phasing(context, ownerOf(record), row, work, { isolation });
        assert.equal(outcome.kind, "committed", isolation);
        assert.ok(await isCommitted(context, row));
      }
    },
  },
  {
    name: "phase: the last phase, with a heartbeat while it is open, commits or may be run again",
    needs: withImmediateAnswer,
    async run(context) {
      for (const isolation of ["read committed", "repeatable read", "serializable"] as const) {
        const record = await beginWork(context);
        const row = newRow();
        const work = async () => {
          await renewMeanwhile(context, record);
          return phaseCommit("last", { completes });
        };
        const outcome = await phasing(context, ownerOf(record), row, work, { isolation });
        const committed = outcome.kind === "committed";
        const again = outcome.kind === "refused" && outcome.because === "serialization";
        assert.ok(committed || (again && isolation !== "read committed"), `${isolation}: ${outcome.kind}`);
        assert.equal(await isCommitted(context, row), committed);
        const { state } = await readRecord(context, keyOf(record));
        assert.equal(state, committed ? "completed" : "in_progress");
      }
    },
  },
  {
    name: "phase: others see nothing of it before its commit, and reading does not wait",
    needs: withImmediateAnswer,
    async run(context) {
      const record = await beginWork(context);
      const row = newRow();
      await phasing(context, ownerOf(record), row, async () => {
        sameRecord(await readRecord(context, keyOf(record)), record, "it must be unchanged");
        assert.deepEqual((await journalOf(context, record)).steps, []);
        assert.ok(!(await isCommitted(context, row)));
        return phaseCommit();
      });
      assert.ok(await isCommitted(context, row));
    },
  },
  {
    name: "phase: a phase does not block those of other records",
    needs: withImmediateAnswer,
    async run(context) {
      const [mine, other] = [await beginWork(context), await beginWork(context)];
      const outcome = await phasing(context, ownerOf(mine), newRow(), async () => {
        await runPhase(context, other);
        return phaseCommit();
      });
      assert.equal(outcome.kind, "committed");
    },
  },
  {
    name: "phase: of many with the same name at once, exactly one commits",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const all = transactional(context);
      const rows = Array.from({ length: callers }, newRow);
      const outcomes = await race(context, callers, (store, index) => {
        const support = store.transactions ?? all.support;
        return support.phase(phaseRequest(ownerOf(record)), async (open) => {
          await all.business.write(open.tx, rows[index] ?? "");
          return phaseCommit("reserve", { result: bytes(rows[index] ?? "") });
        });
      });
      const kinds = outcomes.map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "committed").length, 1, kinds.join());
      const winner = rows[kinds.indexOf("committed")];
      const committed = (await all.business.committedRows()).filter((row) => rows.includes(row));
      assert.deepEqual(committed, [winner], "exactly the winner's row must be stored");
      const [step, ...more] = (await journalOf(context, record)).steps;
      assert.ok(step?.kind === "phase" && more.length === 0);
      assert.equal(new TextDecoder().decode(step.result), winner);
    },
  },
  {
    name: "phase: racing with a take-over, row, step and outcome agree",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      await context.advance(leaseMs + second);
      const row = newRow();
      const { id, fingerprint, fence, state } = record;
      const [outcome] = await Promise.all([
        phasing(context, ownerOf(record), row, () => phaseCommit()),
        context.other.takeOver(keyOf(record), { id, state, fence }, fingerprint, "f".repeat(32), {
          leaseMs,
          leaseEnd: "resume",
          attemptsMax: 5,
          abandonAfterMs: hour,
        }),
      ]);
      const committed = outcome.kind === "committed";
      assert.equal(await isCommitted(context, row), committed);
      assert.equal((await journalOf(context, record)).steps.length, committed ? 1 : 0);
    },
  },
  {
    name: "phase: reports whether the work has used `tx`",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const { support, business } = transactional(context);
      await support.phase(phaseRequest(ownerOf(record)), async (open): Promise<PhaseWork<string>> => {
        assert.equal(open.used(), false);
        await business.write(open.tx, newRow());
        assert.equal(open.used(), true);
        return { end: "rollback", value: "" };
      });
    },
  },
  {
    name: "phase: a revoked `tx` refuses statements, and what it wrote before is committed",
    needs: withTransactions,
    async run(context) {
      const record = await beginWork(context);
      const { business } = transactional(context);
      const [early, late] = [newRow(), newRow()];
      const outcome = await phasing(context, ownerOf(record), early, async (open) => {
        open.revoke();
        open.revoke();
        await assert.rejects(business.write(open.tx, late), revoked);
        return phaseCommit();
      });
      assert.equal(outcome.kind, "committed");
      assert.deepEqual([await isCommitted(context, early), await isCommitted(context, late)], [true, false]);
    },
  },
  {
    name: "phase: after its end, whatever the end, `tx` refuses statements",
    needs: withTransactions,
    async run(context) {
      const { support, business } = transactional(context);
      for (const end of ["commit", "rollback", "abandon", "throw"] as const) {
        const record = await beginWork(context);
        let kept: unknown;
        const run = support.phase(phaseRequest(ownerOf(record)), async (open): Promise<PhaseWork<string>> => {
          kept = open.tx;
          if (end === "throw") throw new Error("the work failed");
          return end === "commit" ? phaseCommit() : { end, value: "" };
        });
        await run.catch(() => null);
        await assert.rejects(business.write(kept, newRow()), revoked, `after ${end}`);
      }
    },
  },
];
