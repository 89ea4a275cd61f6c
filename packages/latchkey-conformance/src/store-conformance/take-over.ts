/** `takeOver`: the next attempt of a life. */
import assert from "node:assert/strict";
import type { RecordState } from "latchkey";
import { type Fingerprint, guardOf } from "latchkey/internal";
import {
  createRunning,
  defaultTerms,
  endRunning,
  ends,
  fingerprint,
  hour,
  leaseMs,
  newKey,
  newToken,
  putInState,
  readRecord,
  second,
  staleGuards,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { isAfter, race, refused, sameRecord, timed, winners } from "./check.ts";

const callers = 8;
const takeable = ["retryable", "in_progress"] as const;
const notTakeable: readonly RecordState[] = states.filter(
  (state) => state !== "retryable" && state !== "in_progress",
);

const foreignFingerprints: readonly (readonly [what: string, print: Fingerprint])[] = [
  ["another digest", fingerprint(8)],
  ["another version of the digest", fingerprint(7, 2)],
  ["a longer digest with the same beginning", { version: 1, digest: new Uint8Array(33).fill(7) }],
  ["a digest that differs in its last byte", { version: 1, digest: new Uint8Array(32).fill(7).fill(6, 31) }],
];

/** A record that may be taken over: retryable, or running with an ended lease. */
async function putTakeable(context: CaseContext, state: (typeof takeable)[number]) {
  const key = newKey();
  const record = await putInState(context, state, key);
  if (state === "in_progress") await context.advance(leaseMs + second);
  return { key, record, guard: guardOf(record) };
}

/** A takeover that must succeed: only fence and lease change. */
async function takesOver(context: CaseContext, state: (typeof takeable)[number]): Promise<void> {
  const { key, record, guard } = await putTakeable(context, state);
  const token = newToken();
  const take = () =>
    context.store.takeOver(key, guard, record.fingerprint, token, {
      ...defaultTerms,
      abandonAfterMs: 3 * hour,
    });
  const { result, ...span } = await timed(context, key, take);
  assert.ok(result, "the guard held, so it must succeed");
  const { tenant, scope, operation, id, principal, createdAt } = record;
  const same = { tenant, scope, key: key.key, operation, id, principal, createdAt };
  const { leaseEndsAt } = result;
  const expiresAt = createdAt + 3 * hour;
  const fence = { attempt: 2, token };
  const expected = { ...same, fingerprint: record.fingerprint, fence, leaseEndsAt, expiresAt };
  sameRecord(result, { ...expected, state: "in_progress" }, "only fence and lease may change");
  isAfter(context, leaseEndsAt, span, leaseMs, "leaseEndsAt");
  sameRecord(await readRecord(context, key), result, "stored as returned");
}

const fromBoth: readonly StoreCase[] = takeable.flatMap((state) => [
  {
    name: `take over: from ${state}, the life continues under the next fence`,
    run: (context) => takesOver(context, state),
  },
  {
    name: `take over: from ${state}, the guard covers every part of the record's version`,
    async run(context) {
      const { key, record } = await putTakeable(context, state);
      for (const [what, guard] of staleGuards(record)) {
        await refused(context, key, `take over with ${what}`, () =>
          context.store.takeOver(key, guard, record.fingerprint, newToken(), defaultTerms),
        );
      }
    },
  },
  {
    name: `take over: from ${state}, another request's fingerprint is refused`,
    async run(context) {
      const { key, guard } = await putTakeable(context, state);
      for (const [what, print] of foreignFingerprints) {
        await refused(context, key, `take over with ${what}`, () =>
          context.store.takeOver(key, guard, print, newToken(), defaultTerms),
        );
      }
    },
  },
  {
    name: `take over: from ${state}, exactly one of many at once wins`,
    async run(context) {
      const { key, record, guard } = await putTakeable(context, state);
      const results = await race(context, callers, (store) =>
        store.takeOver(key, guard, record.fingerprint, newToken(), defaultTerms),
      );
      assert.equal(winners(results), 1);
      const winner = results.find((result) => result !== null) ?? null;
      sameRecord(await readRecord(context, key), winner, "the stored record must be the winner's");
      assert.equal(winner?.fence.attempt, 2);
    },
  },
  {
    name: `take over: from ${state}, repeating it after a lost reply is harmless`,
    async run(context) {
      const { key, record, guard } = await putTakeable(context, state);
      const token = newToken();
      const take = (store: CaseContext["store"]) =>
        store.takeOver(key, guard, record.fingerprint, token, defaultTerms);
      const first = await take(context.store);
      assert.ok(first);
      const again = await take(context.other);
      if (again !== null) sameRecord(again, first, "a repetition may only return the stored record");
      sameRecord(await readRecord(context, key), first, "the record must be the first call's");
    },
  },
]);

const fromOthers: readonly StoreCase[] = notTakeable.map((state) => ({
  name: `take over: never from ${state}`,
  async run(context) {
    const key = newKey();
    const record = await putInState(context, state, key);
    await context.advance(leaseMs + second);
    const take = () =>
      context.store.takeOver(key, guardOf(record), record.fingerprint, newToken(), defaultTerms);
    await refused(context, key, "take over", take, "illegal");
  },
}));

export const takeOverCases: readonly StoreCase[] = [
  ...fromBoth,
  ...fromOthers,
  {
    name: "take over: never while the lease runs",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      const take = () =>
        context.store.takeOver(key, guardOf(record), record.fingerprint, newToken(), defaultTerms);
      await refused(context, key, "take over at once", take);
      await context.advance(leaseMs / 2);
      await refused(context, key, "take over half-way", take);
    },
  },
  {
    name: "take over: the lease ends at `leaseEndsAt`, not a millisecond earlier",
    frozenClock: true,
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      const take = () =>
        context.store.takeOver(key, guardOf(record), record.fingerprint, newToken(), defaultTerms);
      await context.advance(leaseMs - 1);
      await refused(context, key, "take over a millisecond early", take);
      await context.advance(1);
      assert.ok(await take(), "at the end of the lease it must succeed");
    },
  },
  {
    name: "take over: not at the old end of a renewed lease",
    async run(context) {
      const key = newKey();
      const record = await createRunning(context, key);
      await context.advance(leaseMs / 2);
      assert.equal(await context.store.renew(key, record.id, record.fence, leaseMs), true);
      await context.advance(leaseMs / 2 + second);
      const take = () =>
        context.store.takeOver(key, guardOf(record), record.fingerprint, newToken(), defaultTerms);
      await refused(context, key, "take over", take);
      await context.advance(leaseMs / 2);
      assert.ok(await take(), "at the new end it must succeed");
    },
  },
  {
    name: "take over: a key without a record cannot be taken over",
    async run(context) {
      const key = newKey();
      const record = await endRunning(context, key, { event: "release" });
      await context.advance(leaseMs + second);
      await refused(context, key, "take over", () =>
        context.store.takeOver(key, guardOf(record), record.fingerprint, newToken(), defaultTerms),
      );
    },
  },
  {
    name: "take over: the previous owner is fenced out of everything",
    async run(context) {
      const key = newKey();
      const old = await createRunning(context, key);
      await context.advance(leaseMs + second);
      const taken = await context.store.takeOver(
        key,
        guardOf(old),
        old.fingerprint,
        newToken(),
        defaultTerms,
      );
      assert.ok(taken);
      const { id, fence } = old;
      await refused(context, key, "renew", () => context.other.renew(key, id, fence, leaseMs));
      for (const end of [...Object.values(ends), { event: "release" } as const]) {
        await refused(context, key, end.event, () => context.other.end(key, id, fence, end));
      }
      await context.advance(leaseMs + second);
      await refused(context, key, "give up", () => context.other.giveUp(key, guardOf(old), "x", null));
    },
  },
  {
    name: "take over: attempts are counted upwards, each under its own token",
    async run(context) {
      const key = newKey();
      let record = await createRunning(context, key);
      for (let attempt = 2; attempt <= 5; attempt += 1) {
        await context.advance(leaseMs + second);
        const token = newToken();
        const taken = await context.store.takeOver(
          key,
          guardOf(record),
          record.fingerprint,
          token,
          defaultTerms,
        );
        assert.deepEqual({ ...taken?.fence }, { attempt, token });
        assert.ok(taken);
        record = taken;
      }
    },
  },
];
