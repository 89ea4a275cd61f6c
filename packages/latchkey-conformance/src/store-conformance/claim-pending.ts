/** `claimPending`: deferred work goes to the workers that have capacity for it. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import type { InProgressRecord, LeaseTerms, NewLife, PendingRecord, PendingWant } from "latchkey/internal";
import {
  day,
  defaultTerms,
  hour,
  leaseMs,
  minute,
  newKey,
  newLife,
  newToken,
  putInState,
  readRecord,
  second,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll, hex, isAfter, race, sameRecord, timed } from "./check.ts";
import { bytes, journalOf, keyOf, ownerOf, startCall } from "./journal-arrange.ts";

const operation = "payments.create";
const terms: LeaseTerms = { ...defaultTerms, leaseEnd: "resume", abandonAfterMs: 3 * day };

async function accept(
  context: CaseContext,
  overrides: Partial<NewLife> = {},
  key: RecordKey = newKey(),
): Promise<PendingRecord> {
  const pending = await context.store.accept(newLife(key, overrides), null, day);
  assert.ok(pending, "accepting a new key must succeed");
  return pending;
}

function wantOf(count: number, overrides: Partial<PendingWant> = {}): PendingWant {
  return { operation, tokens: Array.from({ length: count }, newToken), terms, ...overrides };
}

const claim = (context: CaseContext, ...wants: readonly PendingWant[]) => context.store.claimPending(wants);
const idsOf = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id);

async function claimOne(context: CaseContext, pending: PendingRecord): Promise<InProgressRecord> {
  const [claimed, ...more] = await claim(context, wantOf(9));
  assert.ok(claimed && more.length === 0, "exactly one record must wait");
  assert.equal(claimed.id, pending.id);
  return claimed;
}

export const claimPendingCases: readonly StoreCase[] = [
  {
    name: "claim pending: starts attempt 1 under the worker's token and lease, and changes nothing else",
    async run(context) {
      const pending = await accept(context);
      await context.advance(minute);
      const want = wantOf(1);
      const { result, ...span } = await timed(context, pending, () => claim(context, want));
      const [claimed, ...more] = result;
      assert.ok(claimed && more.length === 0, "exactly one record must wait");
      isAfter(context, claimed.leaseEndsAt, span, leaseMs, "leaseEndsAt");
      const { leaseEndsAt } = claimed;
      const expiresAt = pending.createdAt + terms.abandonAfterMs;
      const fence = { attempt: 1, token: want.tokens[0] ?? "" };
      const expected = { ...pending, state: "in_progress", fence, leaseEndsAt, expiresAt } as const;
      sameRecord(claimed, expected, "it runs under the worker's fence");
      sameRecord(await readRecord(context, pending), expected, "stored as returned");
      assert.deepEqual(await context.other.claimPending([wantOf(9)]), [], "no other caller gets it");
    },
  },
  {
    name: "claim pending: the worker owns the record, its input and its steps, and the request's fence is no longer valid",
    async run(context) {
      const pending = await accept(context, { input: bytes("waiting") });
      const claimed = await claimOne(context, pending);
      const { input, steps } = await journalOf(context, claimed);
      assert.deepEqual([input && hex(input), steps], [hex(bytes("waiting")), []]);
      await startCall(context, claimed);
      const wrongOwner = { ...ownerOf(claimed), fence: pending.fence };
      assert.equal(await context.store.renew(wrongOwner.key, wrongOwner.id, wrongOwner.fence, hour), false);
      assert.equal(await context.store.renew(keyOf(claimed), claimed.id, claimed.fence, hour), true);
    },
  },
  {
    name: "claim pending: of each operation at most as many records as it has tokens, each under its own token",
    async run(context) {
      for (let count = 0; count < 3; count += 1) {
        await accept(context);
        await accept(context, { operation: "reports.build" });
      }
      const wants = [wantOf(2), wantOf(1, { operation: "reports.build" })];
      const claimed = await claim(context, ...wants);
      const tokensOf = (name: string) =>
        claimed.filter((record) => record.operation === name).map(({ fence }) => fence.token);
      assert.deepEqual(tokensOf(operation).sort(), [...(wants[0]?.tokens ?? [])].sort());
      assert.deepEqual(tokensOf("reports.build"), wants[1]?.tokens);
      assert.equal((await claim(context, wantOf(9), wantOf(9, { operation: "reports.build" }))).length, 3);
    },
  },
  {
    name: "claim pending: the records that have waited longest come first",
    async run(context) {
      const ids: string[] = [];
      for (let count = 0; count < 5; count += 1) {
        ids.push((await accept(context)).id);
        await context.advance(second);
      }
      const claimed = [];
      for (const count of [2, 2, 2]) claimed.push(idsOf(await claim(context, wantOf(count))).sort());
      assert.deepEqual(claimed, [ids.slice(0, 2).sort(), ids.slice(2, 4).sort(), ids.slice(4)]);
    },
  },
  {
    name: "claim pending: claims nothing if nothing is wanted",
    async run(context) {
      await accept(context);
      assert.deepEqual(await claim(context), []);
      assert.deepEqual(await claim(context, wantOf(0)), []);
      for (const other of ["Payments.create", "payments", "payments.%", "*"]) {
        assert.deepEqual(await claim(context, wantOf(9, { operation: other })), []);
      }
    },
  },
  {
    name: "claim pending: selects by operation, even if keys are unique per tenant",
    async run(context) {
      const pending = await accept(context, { operation: "refunds.create" }, newKey({ scope: "*" }));
      assert.deepEqual(await claim(context, wantOf(9), wantOf(9, { operation: "*" })), []);
      assert.deepEqual(idsOf(await claim(context, wantOf(9, { operation: "refunds.create" }))), [pending.id]);
    },
  },
  {
    name: "claim pending: never past the record's expiry, which is the record-cleaner's part",
    async run(context) {
      const pending = await accept(context);
      await context.advance(day + second);
      assert.deepEqual(await claim(context, wantOf(9)), []);
      assert.equal((await readRecord(context, pending)).state, "pending");
      assert.equal((await cleanAll(context)).abandoned, 1);
      assert.deepEqual(await claim(context, wantOf(9)), []);
    },
  },
  {
    name: "claim pending: possible until the record's expiry, not at it",
    frozenClock: true,
    async run(context) {
      const soon = await accept(context);
      await context.advance(1);
      const late = await accept(context);
      await context.advance(day - 1);
      assert.deepEqual(idsOf(await claim(context, wantOf(9))), [late.id]);
      assert.equal((await readRecord(context, soon)).state, "pending");
    },
  },
  {
    name: "claim pending: never a record in another state",
    async run(context) {
      for (const state of states.filter((candidate) => candidate !== "pending")) {
        await putInState(context, state);
      }
      assert.deepEqual(await claim(context, wantOf(99)), []);
    },
  },
  {
    name: "claim pending: many at once claim each record once",
    async run(context) {
      const ids = [];
      for (let count = 0; count < 8; count += 1) ids.push((await accept(context)).id);
      const claims = await race(context, 4, (store) => store.claimPending([wantOf(3)]));
      for (const claimed of claims) assert.ok(claimed.length <= 3, "no more than there are tokens");
      const claimed = idsOf(claims.flat());
      assert.equal(new Set(claimed).size, claimed.length, "none twice");
      const rest = await claim(context, wantOf(9));
      assert.deepEqual([...claimed, ...idsOf(rest)].sort(), ids.sort());
    },
  },
  {
    name: "claim pending: a claim whose reply is lost ends with its lease",
    async run(context) {
      const pending = await accept(context);
      const claimed = await claimOne(context, pending);
      assert.deepEqual(await claim(context, wantOf(9)), []);
      assert.deepEqual(await context.store.settlement.resumable([operation], 9), []);
      await context.advance(leaseMs + second);
      assert.deepEqual(await claim(context, wantOf(9)), []);
      const resumable = await context.store.settlement.resumable([operation], 9);
      assert.deepEqual(idsOf(resumable), [claimed.id], "the terms must be stored with the lease");
    },
  },
  {
    name: "claim pending: a record whose attempts are spent is left to the lease-rescuer",
    async run(context) {
      await accept(context);
      const want = wantOf(1, { terms: { ...terms, attemptsMax: 1 } });
      const [claimed] = await claim(context, want);
      await context.advance(leaseMs + second);
      const [ended, ...more] = await context.store.endedLeases(9);
      assert.ok(ended && more.length === 0);
      assert.deepEqual([ended.record.id, ended.leaseEnd, ended.attemptsMax], [claimed?.id, "resume", 1]);
    },
  },
  {
    name: "claim pending: a cleaner and a worker at once leave the state that was returned",
    async run(context) {
      const pending = await accept(context);
      await context.advance(day - minute);
      const [claimed] = await Promise.all([claim(context, wantOf(1)), context.other.clean(9)]);
      assert.deepEqual(idsOf(claimed), [pending.id]);
      assert.equal((await readRecord(context, pending)).state, "in_progress");
    },
  },
];
