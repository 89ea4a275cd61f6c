/** `transactions.deliver` with an answer: the record of the effect is completed in the same commit. */
import assert from "node:assert/strict";
import { guardOf } from "latchkey/internal";
import {
  defaultRetention,
  ends,
  hour,
  leaseMs,
  minute,
  newId,
  putInState,
  readRecord,
  staleGuards,
  states,
} from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { isAfter, sameRecord, timed, unchanged } from "./check.ts";
import {
  answer,
  answersOf,
  awaitingAnswer,
  delivering,
  deliveryCommit,
  keptNew,
  losesDelivery,
} from "./deliver-arrange.ts";
import { isCommitted, journalOf, keyOf } from "./journal-arrange.ts";
import { effectNow } from "./outbox-arrange.ts";
import { newRow, withTransactions } from "./transactions-arrange.ts";

const inOtherStates: readonly StoreCase[] = states
  .filter((state) => state !== "retryable")
  .map((state) => ({
    name: `deliver: an answer for a record that is ${state} is lost, with its rows and the delivery`,
    needs: withTransactions,
    async run(context) {
      const record = await putInState(context, state);
      const kept = await keptNew(context);
      for (const named of [guardOf(record), { ...guardOf(record), state: "retryable" as const }]) {
        await unchanged(context, keyOf(record), "an answer", () =>
          losesDelivery(context, kept, kept, "the delivery", answersOf(record, named)),
        );
      }
    },
  }));

export const deliverAnswerCases: readonly StoreCase[] = [
  {
    name: "deliver: without an answer, leaves its record unchanged",
    needs: withTransactions,
    async run(context) {
      const { record, effect } = await awaitingAnswer(context);
      const outcome = await unchanged(context, keyOf(record), "a delivery", () =>
        delivering(context, effect, newRow(), () => deliveryCommit()),
      );
      assert.equal(outcome.kind, "committed");
    },
  },
  {
    name: "deliver: the answer of a retryable record completes it in the same commit",
    needs: withTransactions,
    async run(context) {
      const { record, effect } = await awaitingAnswer(context);
      await context.advance(minute);
      const row = newRow();
      const { result, ...span } = await timed(context, keyOf(record), () =>
        delivering(context, effect, row, () => answersOf(record)),
      );
      assert.deepEqual({ ...result }, { kind: "committed", value: "value" });
      assert.ok(await isCommitted(context, row));
      assert.equal((await effectNow(context, effect)).state, "delivered");
      const done = await readRecord(context, keyOf(record));
      assert.ok(done.state === "completed");
      const { finishedAt, expiresAt, forgetAt } = done;
      isAfter(context, finishedAt, span, 0, "finishedAt");
      isAfter(context, expiresAt, span, defaultRetention.retentionMs, "expiresAt");
      isAfter(context, forgetAt, span, defaultRetention.forgetAfterMs, "forgetAt");
      const times = { finishedAt, expiresAt, forgetAt };
      const expected = { ...record, state: "completed", answer, lastErrorCode: null, ...times } as const;
      sameRecord(done, expected, "completed with the answer");
      const { input, steps } = await journalOf(context, record);
      assert.deepEqual([input, steps.length], [null, 1], "its input goes, its steps stay");
      assert.deepEqual(await context.store.settlement.resumable([record.operation], 10), []);
    },
  },
  {
    name: "deliver: an answer for another version of the record is lost, with its rows and the delivery",
    needs: withTransactions,
    async run(context) {
      const { record, effect } = await awaitingAnswer(context);
      for (const [what, stale] of staleGuards(record)) {
        await unchanged(context, keyOf(record), what, () =>
          losesDelivery(context, effect, effect, what, answersOf(record, stale)),
        );
      }
      const elsewhere = { ...record, tenant: "another" };
      await losesDelivery(context, effect, effect, "another tenant's key", answersOf(elsewhere));
    },
  },
  ...inOtherStates,
  {
    name: "deliver: an answer for a record that is gone is lost, with its rows and the delivery",
    needs: withTransactions,
    async run(context) {
      const { record, effect } = await awaitingAnswer(context);
      const gone = { ...record, key: newId() };
      await losesDelivery(context, effect, effect, "an answer for no record", answersOf(gone));
    },
  },
  {
    name: "deliver: an answer that arrives after another attempt has begun is lost",
    needs: withTransactions,
    async run(context) {
      const { record, effect } = await awaitingAnswer(context);
      const terms = { leaseMs, leaseEnd: "resume", attemptsMax: 5, abandonAfterMs: 100 * hour } as const;
      const taken = await context.store.takeOver(
        keyOf(record),
        guardOf(record),
        record.fingerprint,
        effect.fence.token,
        terms,
      );
      assert.ok(taken);
      await losesDelivery(context, effect, effect, "an answer too late", answersOf(record));
      assert.ok(await context.store.end(keyOf(taken), taken.id, taken.fence, ends.retryable));
      await losesDelivery(context, effect, effect, "an answer for the previous version", answersOf(record));
      const now = await readRecord(context, keyOf(record));
      assert.equal((await delivering(context, effect, newRow(), () => answersOf(now))).kind, "committed");
    },
  },
];
