/** `renew`: the owner's heartbeat. */
import assert from "node:assert/strict";
import { guardOf } from "latchkey/internal";
import {
  createRunning,
  defaultTerms,
  endRunning,
  foreignFences,
  hour,
  leaseMs,
  newId,
  newKey,
  newToken,
  putInState,
  readRecord,
  second,
  states,
} from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { isAfter, refused, sameRecord, timed } from "./check.ts";

const inOtherStates: readonly StoreCase[] = states
  .filter((state) => state !== "in_progress")
  .map((state) => ({
    name: `renew: a record that is ${state} has no lease`,
    async run(context) {
      const key = newKey();
      const record = await putInState(context, state, key);
      await refused(context, key, "renew", () => context.store.renew(key, record.id, record.fence, leaseMs));
    },
  }));

export const renewCases: readonly StoreCase[] = [
  {
    name: "renew: moves the end of the lease to `leaseMs` from now, and changes nothing else",
    async run(context) {
      const key = newKey();
      const before = await createRunning(context, key);
      await context.advance(leaseMs / 2);
      const renew = () => context.store.renew(key, before.id, before.fence, 3 * hour);
      const { result, ...span } = await timed(context, key, renew);
      assert.equal(result, true);
      const after = await readRecord(context, key);
      assert.ok(after.state === "in_progress");
      isAfter(context, after.leaseEndsAt, span, 3 * hour, "leaseEndsAt");
      const { leaseEndsAt } = after;
      sameRecord(after, { ...before, leaseEndsAt }, "only the end of the lease may change");
    },
  },
  {
    name: "renew: repeating it after a lost reply is harmless",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      assert.equal(await context.store.renew(key, record.id, record.fence, leaseMs), true);
      assert.equal(await context.other.renew(key, record.id, record.fence, leaseMs), true);
    },
  },
  {
    name: "renew: a lease that has ended is not revived",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      await context.advance(leaseMs + second);
      await refused(context, key, "renew", () => context.store.renew(key, record.id, record.fence, leaseMs));
      const taken = await context.store.takeOver(
        key,
        guardOf(record),
        record.fingerprint,
        newToken(),
        defaultTerms,
      );
      assert.ok(taken, "the record must still be free to take over");
    },
  },
  {
    name: "renew: accepted until `leaseEndsAt`, and refused at it",
    frozenClock: true,
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      const renew = () => context.store.renew(key, record.id, record.fence, leaseMs);
      await context.advance(leaseMs - 1);
      assert.equal(await renew(), true, "a millisecond early it must succeed");
      await context.advance(leaseMs);
      await refused(context, key, "renew at the end", renew);
    },
  },
  {
    name: "renew: a lease that belongs to another owner is left alone",
    async run(context) {
      const key = newKey();
      const { id, fence } = await createRunning(context, key);
      for (const [what, foreign] of foreignFences(fence)) {
        await refused(context, key, `renew with ${what}`, () => context.store.renew(key, id, foreign, hour));
      }
      await refused(context, key, "renew with another id", () =>
        context.store.renew(key, newId(), fence, hour),
      );
    },
  },
  {
    name: "renew: a released record has no lease",
    async run(context) {
      const key = newKey();
      const { id, fence } = await endRunning(context, key, { event: "release" });
      await refused(context, key, "renew", () => context.store.renew(key, id, fence, leaseMs));
    },
  },
  ...inOtherStates,
];
