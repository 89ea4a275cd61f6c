/** `readById`: what a status resource finds. */
import assert from "node:assert/strict";
import type { LatchkeyRecord } from "latchkey";
import { guardOf, type NewLife } from "latchkey/internal";
import {
  completion,
  day,
  defaultTerms,
  ends,
  hour,
  minute,
  newId,
  newKey,
  newLife,
  newToken,
  readRecord,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll, sameRecord } from "./check.ts";
import { keyOf, takeOver } from "./journal-arrange.ts";

const addressable = { addressable: true } as const;

async function accept(context: CaseContext, overrides: Partial<NewLife> = addressable, key = newKey()) {
  const pending = await context.store.accept(newLife(key, overrides), null, day);
  assert.ok(pending);
  return pending;
}

async function create(context: CaseContext, overrides: Partial<NewLife> = addressable, key = newKey()) {
  const record = await context.store.create(newLife(key, overrides), null, defaultTerms);
  assert.ok(record);
  return record;
}

/** Asserts that `readById` returns what `read` returns, through both instances. */
async function isFound(context: CaseContext, { tenant, id, ...key }: LatchkeyRecord, what: string) {
  const expected = await readRecord(context, keyOf({ tenant, ...key }));
  for (const store of [context.store, context.other]) {
    const { record, now } = await store.readById(tenant, id);
    assert.ok(Number.isFinite(now), "with the store's time");
    sameRecord(record, expected, what);
  }
}

async function isNotFound(context: CaseContext, tenant: string, id: string, what: string) {
  const { record, now } = await context.store.readById(tenant, id);
  assert.equal(record, null, `${what} must not be found`);
  assert.ok(Number.isFinite(now), "with the store's time");
}

export const lookupByIdCases: readonly StoreCase[] = [
  {
    name: "lookup by id: an addressable life whose transaction was lost is found",
    async run(context) {
      const lost = await context.store.recordLostTransaction(newLife(newKey(), addressable), null, "x");
      assert.ok(lost);
      await isFound(context, lost, "unknown");
    },
  },
  {
    name: "lookup by id: an addressable life is found as it is stored, in every later state",
    async run(context) {
      const pending = await accept(context);
      await isFound(context, pending, "waiting");
      const tokens = [newToken()];
      const [claimed] = await context.store.claimPending([
        { operation: pending.operation, tokens, terms: { ...defaultTerms, leaseEnd: "resume" } },
      ]);
      assert.ok(claimed);
      await isFound(context, claimed, "running");
      assert.ok(await context.store.end(keyOf(claimed), claimed.id, claimed.fence, ends.retryable));
      await isFound(context, claimed, "while retryable");
      const again = await takeOver(context, claimed);
      await isFound(context, again, "running again");
      const done = completion("answer", { retentionMs: minute, forgetAfterMs: day });
      assert.ok(await context.store.end(keyOf(again), again.id, again.fence, done));
      await isFound(context, again, "completed");
      await context.advance(hour);
      assert.equal((await cleanAll(context)).purged, 1);
      await isFound(context, again, "expired");
      await context.advance(day);
      assert.equal((await cleanAll(context)).forgotten, 1);
      await isNotFound(context, again.tenant, again.id, "a forgotten life");
    },
  },
  {
    name: "lookup by id: a life that was created directly, is in doubt, or failed is also found",
    async run(context) {
      for (const end of [ends.unknown, ends.failed]) {
        const record = await create(context);
        await isFound(context, record, "running");
        assert.ok(await context.store.end(keyOf(record), record.id, record.fence, end));
        await isFound(context, record, end.event);
      }
    },
  },
  {
    name: "lookup by id: a life that timed out while it waited is also found",
    async run(context) {
      const pending = await accept(context);
      await context.advance(day + minute);
      assert.equal((await cleanAll(context)).abandoned, 1);
      await isFound(context, pending, "timed out");
    },
  },
  {
    name: "lookup by id: a life that is not addressable is not found",
    async run(context) {
      for (const overrides of [{}, { addressable: false }]) {
        const created = await create(context, overrides);
        const accepted = await accept(context, overrides);
        for (const { tenant, id } of [created, accepted]) {
          await isNotFound(context, tenant, id, "a life that is not addressable");
        }
      }
    },
  },
  {
    name: "lookup by id: without a tenant any life is found in every state, until it is forgotten or replaced",
    async run(context) {
      const record = await create(context, {});
      const found = async (what: string) => {
        const expected = await readRecord(context, keyOf(record));
        assert.equal(expected.id, record.id);
        for (const store of [context.store, context.other]) {
          sameRecord((await store.readById(null, record.id)).record, expected, what);
        }
      };
      await found("running");
      await isNotFound(context, record.tenant, record.id, "with its tenant, a life that is not addressable");
      const short = completion("old", { retentionMs: minute, forgetAfterMs: hour });
      assert.ok(await context.store.end(keyOf(record), record.id, record.fence, short));
      await found("completed");
      await context.advance(2 * minute);
      await found("past its answer's retention");
      assert.equal(
        (await context.store.readById(null, newId())).record,
        null,
        "another id must find nothing",
      );
      await context.advance(hour);
      const guard = guardOf(await readRecord(context, keyOf(record)));
      const next = await context.store.create(newLife(keyOf(record)), guard, defaultTerms);
      assert.ok(next);
      assert.equal((await context.store.readById(null, record.id)).record, null, "the previous life");
      assert.equal((await context.store.readById(null, next.id)).record?.id, next.id, "the new one");
      assert.ok(await context.store.end(keyOf(next), next.id, next.fence, { event: "release" }));
      assert.equal((await context.store.readById(null, next.id)).record, null, "a released life");
    },
  },
  {
    name: "lookup by id: found only with its own tenant, and only by its own id",
    async run(context) {
      const record = await accept(context, addressable, newKey({ tenant: "tenant-a" }));
      await accept(context, addressable, newKey({ tenant: "tenant-b" }));
      for (const tenant of ["tenant-b", "Tenant-a", "tenant-a ", "", "*", "%"]) {
        await isNotFound(context, tenant, record.id, `as tenant "${tenant}"`);
      }
      await isNotFound(context, record.tenant, newId(), "another id");
      await isFound(context, record, "with its own tenant");
    },
  },
  {
    name: "lookup by id: a life that another has replaced is not found",
    async run(context) {
      for (const overrides of [addressable, {}]) {
        const old = await create(context);
        const short = completion("old", { retentionMs: minute, forgetAfterMs: minute });
        assert.ok(await context.store.end(keyOf(old), old.id, old.fence, short));
        await context.advance(hour);
        const guard = guardOf(await readRecord(context, keyOf(old)));
        const next = await context.store.accept(newLife(keyOf(old), overrides), guard, day);
        assert.ok(next);
        await isNotFound(context, old.tenant, old.id, "the old life");
        if (overrides === addressable) await isFound(context, next, "the new life");
        else await isNotFound(context, next.tenant, next.id, "a new life that is not addressable");
      }
    },
  },
  {
    name: "lookup by id: a life that was released is not found",
    async run(context) {
      const record = await create(context);
      assert.ok(await context.store.end(keyOf(record), record.id, record.fence, { event: "release" }));
      await isNotFound(context, record.tenant, record.id, "a released life");
    },
  },
];
