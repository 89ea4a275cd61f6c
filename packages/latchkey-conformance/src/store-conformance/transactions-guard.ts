/** The guard of a transaction's last write, and two transactions of one key. */
import assert from "node:assert/strict";
import { type RecordKey, type RecordState, systemPorts } from "latchkey";
import { guardOf, pause, type TransactionWork } from "latchkey/internal";
import {
  defaultTerms,
  endRunning,
  ends,
  hour,
  newKey,
  newLife,
  newToken,
  putForgettable,
  putInState,
  readRecord,
  staleGuards,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { race, sameRecord, unchanged } from "./check.ts";
import {
  type Commit,
  commitOf,
  isExclusive,
  newRow,
  requestFor,
  transactional,
  withImmediateAnswer,
  withTransactions,
  writing,
} from "./transactions-arrange.ts";

/** Asserts that a commit is lost: neither its row nor its record may be stored afterwards. */
async function losesCommit(context: CaseContext, key: RecordKey, commit: Commit, what: string) {
  const row = newRow();
  const all = transactional(context);
  const outcome = await unchanged(context, key, what, () => writing(all, key, row, () => commit));
  assert.deepEqual({ ...outcome }, { kind: "lost", value: commit.value }, `${what} must be lost`);
  assert.ok(!(await all.business.committedRows()).includes(row), `${what} must leave no row`);
}

/** States over which no transaction may commit, even if its guard matches the record. */
const absorbing: readonly RecordState[] = ["pending", "in_progress", "completed", "failed", "unknown"];

const overAbsorbing: readonly StoreCase[] = absorbing.map((state) => ({
  name: `transactions: no commit over a record that is ${state}, whatever the guard says`,
  needs: withTransactions,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    const row = newRow();
    const all = transactional(context);
    const commit = commitOf(key, { replaces: guardOf(record) });
    const outcome = await unchanged(context, key, "a commit", () =>
      writing(all, key, row, () => commit).catch(() => null),
    );
    assert.notEqual(outcome?.kind, "committed");
    assert.ok(!(await all.business.committedRows()).includes(row), "no row may be left");
  },
}));

const raceCallers = 4;

/** In real time, unlike the store's: the database measures how long a session is idle. */
const idleLimitMs = 50;
const pollEveryMs = 10;
/** Two seconds in total: forty times the limit. */
const pollsMax = 200;

/** A barrier: callers continue only when all of them have arrived. */
function meeting(size: number): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let arrived = 0;
  return () => {
    arrived += 1;
    if (arrived === size) resolve();
    return promise;
  };
}

export const transactionGuardCases: readonly StoreCase[] = [
  {
    name: "transactions: the second transaction of a key learns at once that it is not alone",
    needs: withImmediateAnswer,
    async run(context) {
      const key = newKey();
      const all = transactional(context);
      const outcome = await writing(all, key, newRow(), async (open) => {
        assert.equal(open.exclusive, true);
        assert.equal(await isExclusive(all.otherSupport, key), false);
        return commitOf(key);
      });
      assert.equal(outcome.kind, "committed");
      assert.equal(await isExclusive(all.otherSupport, key), true);
    },
  },
  {
    name: "transactions: a transaction that was not alone does not free the key of the one that is",
    needs: withImmediateAnswer,
    async run(context) {
      const key = newKey();
      const { support, otherSupport } = transactional(context);
      await support.run(requestFor(key), async (): Promise<TransactionWork<string>> => {
        for (let round = 0; round < 3; round += 1) {
          assert.equal(await isExclusive(otherSupport, key), false);
        }
        return { end: "rollback", value: "" };
      });
    },
  },
  {
    name: "transactions: other keys and other tenants are not blocked",
    needs: withImmediateAnswer,
    async run(context) {
      const key = newKey();
      const all = transactional(context);
      const neighbours = [{ ...key, tenant: "another" }, { ...key, scope: "another" }, newKey()];
      await writing(all, key, newRow(), async () => {
        for (const neighbour of neighbours) {
          const outcome = await all.otherSupport.run(requestFor(neighbour), async (open) => {
            assert.equal(open.exclusive, true);
            return commitOf(neighbour);
          });
          assert.equal(outcome.kind, "committed");
        }
        return commitOf(key);
      });
    },
  },
  {
    name: "transactions: a record that appeared since admission makes the commit lose",
    needs: withImmediateAnswer,
    async run(context) {
      const key = newKey();
      const row = newRow();
      const all = transactional(context);
      let intruder = null;
      const outcome = await writing(all, key, row, async () => {
        intruder = await context.other.create(newLife(key), null, defaultTerms);
        return commitOf(key);
      });
      const rowStayed = (await all.business.committedRows()).includes(row);
      const record = await readRecord(context, key);
      if (intruder === null) {
        assert.deepEqual([outcome.kind, rowStayed, record.state], ["committed", true, "completed"]);
      } else {
        assert.deepEqual([outcome.kind, rowStayed], ["lost", false]);
        sameRecord(record, intruder, "the other writer's record must stay");
      }
    },
  },
  {
    name: "transactions: of many with one key, all past their look-up, exactly one commits",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const all = transactional(context);
      const rows = Array.from({ length: raceCallers }, newRow);
      const meet = withImmediateAnswer(context.capabilities) ? meeting(raceCallers) : async () => {};
      const outcomes = await race(context, raceCallers, (store, index) => {
        const support = store.transactions ?? all.support;
        return writing({ support, business: all.business }, key, rows[index] ?? "", async () => {
          await meet();
          return commitOf(key, { answer: new TextEncoder().encode(rows[index]) });
        });
      });
      const kinds = outcomes.map(({ kind }) => kind);
      assert.equal(kinds.filter((kind) => kind === "committed").length, 1, kinds.join());
      assert.ok(kinds.every((kind) => kind === "committed" || kind === "lost" || kind === "refused"));
      const winner = rows[kinds.indexOf("committed")];
      const committed = (await all.business.committedRows()).filter((row) => rows.includes(row));
      assert.deepEqual(committed, [winner], "exactly the winner's row must be stored");
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed" && record.answer !== null);
      assert.equal(new TextDecoder().decode(record.answer), winner);
    },
  },
  {
    name: "transactions: repeating a commit after a lost reply is lost",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const commit = commitOf(key);
      const first = await writing(transactional(context), key, newRow(), () => commit);
      assert.equal(first.kind, "committed");
      await losesCommit(context, key, commit, "the repetition");
    },
  },
  {
    name: "transactions: a commit replaces a forgotten record, once",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const old = await putForgettable(context, key);
      const commit = commitOf(key, { replaces: guardOf(old) });
      const outcome = await writing(transactional(context), key, newRow(), () => commit);
      assert.equal(outcome.kind, "committed");
      assert.equal((await readRecord(context, key)).id, commit.life.id);
      await losesCommit(context, key, commitOf(key, { replaces: guardOf(old) }), "the second replacement");
    },
  },
  {
    name: "transactions: a commit replaces a tombstone",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      const old = await putInState(context, "expired", key);
      const commit = commitOf(key, { replaces: guardOf(old) });
      const outcome = await writing(transactional(context), key, newRow(), () => commit);
      assert.equal(outcome.kind, "committed");
      const record = await readRecord(context, key);
      assert.deepEqual([record.state, record.id], ["completed", commit.life.id]);
    },
  },
  {
    name: "transactions: a retryable life is completed under its own id",
    needs: withTransactions,
    async run(context) {
      const key = newKey();
      await endRunning(context, key, ends.retryable);
      const old = await readRecord(context, key);
      await context.advance(hour);
      const fence = { attempt: old.fence.attempt + 1, token: newToken() };
      const life = newLife(key, { id: old.id, fence });
      const commit = commitOf(key, { life, replaces: guardOf(old) });
      const outcome = await writing(transactional(context), key, newRow(), () => commit);
      assert.equal(outcome.kind, "committed");
      const record = await readRecord(context, key);
      assert.ok(record.state === "completed");
      const { createdAt, finishedAt } = record;
      assert.deepEqual([record.id, { ...record.fence }, createdAt], [old.id, fence, old.createdAt]);
      assert.ok(finishedAt >= createdAt + hour, "it must have finished now");
    },
  },
  {
    name: "transactions: the guard covers every part of the version of the record it replaces",
    needs: withTransactions,
    async run(context) {
      for (const state of ["retryable", "expired"] as const) {
        const key = newKey();
        const record = await putInState(context, state, key);
        await losesCommit(context, key, commitOf(key), `no guard over ${state}`);
        for (const [what, guard] of staleGuards(record)) {
          const id = state === "retryable" ? record.id : newLife(key).id;
          const commit = commitOf(key, { life: newLife(key, { id }), replaces: guard });
          await losesCommit(context, key, commit, `${what} over ${state}`);
        }
      }
    },
  },
  ...overAbsorbing,
  {
    name: "transactions: the store ends a transaction that is idle for too long, which frees its key",
    needs: withImmediateAnswer,
    async run(context) {
      const key = newKey();
      const row = newRow();
      const { support, otherSupport, business } = transactional(context);
      const froze = Promise.withResolvers<void>();
      const thawed = Promise.withResolvers<void>();
      const frozen = support.run(requestFor(key, { idleLimitMs }), async (open) => {
        await business.write(open.tx, row);
        froze.resolve();
        await thawed.promise;
        return commitOf(key);
      });
      await Promise.race([froze.promise, frozen]);
      let freed = false;
      for (let poll = 0; poll < pollsMax && !freed; poll += 1) {
        await pause(systemPorts.clock, pollEveryMs);
        freed = await isExclusive(otherSupport, key);
      }
      thawed.resolve();
      const outcome = await frozen.catch(() => null);
      assert.ok(freed, "the key must be free soon after the limit");
      assert.notEqual(outcome?.kind, "committed");
      assert.ok(!(await business.committedRows()).includes(row), "no row may be left");
      assert.equal((await context.store.read(key)).record, null, "no record may be left");
    },
  },
];
