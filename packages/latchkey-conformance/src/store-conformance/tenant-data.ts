/** `tenantData`: the data of one tenant can be counted and removed. Stores that cannot find it pass. */
import assert from "node:assert/strict";
import type { RecordKey, RecordState } from "latchkey";
import {
  guardOf,
  type TenantData,
  type TenantPage,
  type TenantPart,
  type TenantRemoval,
  tenantParts,
} from "latchkey/internal";
import {
  createRunning,
  day,
  ends,
  hour,
  newId,
  newKey,
  newToken,
  putInState,
  readRecord,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { unchanged } from "./check.ts";
import { keyOf } from "./journal-arrange.ts";
import { effectNow, effectStates, effectsOf, leavesEffect, putEffectIn } from "./outbox-arrange.ts";
import { completedOutside, newNote, putInDoubt, settleUnknown } from "./settlement-arrange.ts";

const leaving = "tenant-leaving";
const staying = "tenant-staying";
const by = { actor: "operator-1", reason: "contract ended" };
const onlyOver: TenantRemoval = { undecided: false, ...by };
const everything: TenantRemoval = { undecided: true, ...by };

/** How a deletion treats records, by their states. */
const standingOf: Readonly<Record<RecordState, "over" | "underWay" | "undecided">> = {
  pending: "underWay",
  in_progress: "underWay",
  completed: "over",
  failed: "over",
  expired: "over",
  retryable: "undecided",
  unknown: "undecided",
};

type Counts = Omit<TenantPage, "keys" | "next">;
const none: Counts = { over: 0, underWay: 0, undecided: 0, removed: 0 };

/** Processes all pages of one part. */
async function sweep(
  data: TenantData,
  part: TenantPart,
  remove: TenantRemoval | null = null,
  limit = 100,
  tenant = leaving,
): Promise<Counts & { readonly keys: readonly RecordKey[] }> {
  const counts = { ...none };
  const keys: RecordKey[] = [];
  for (let after: string | null = null, pages = 0; ; pages += 1) {
    assert.ok(pages < 1_000, "paging must come to an end");
    const page: TenantPage = await data.sweep({ tenant, part, after, limit, remove });
    for (const count of ["over", "underWay", "undecided", "removed"] as const) counts[count] += page[count];
    keys.push(...page.keys);
    after = page.next;
    if (after === null) return { ...counts, keys };
  }
}

function tenantCase(name: string, run: (data: TenantData, context: CaseContext) => Promise<void>): StoreCase {
  return {
    name: `tenant data: ${name}`,
    async run(context) {
      const data = context.other.tenantData;
      if (data !== undefined) await run(data, context);
    },
  };
}

const transactionalCase: typeof tenantCase = (name, run) => ({
  ...tenantCase(name, run),
  needs: ({ transactions }) => transactions,
});

async function putAllStates(
  context: CaseContext,
  tenant: string,
): Promise<ReadonlyMap<RecordState, RecordKey>> {
  const keys = new Map<RecordState, RecordKey>();
  // Moving the clock must not end records that are brought to another state before.
  for (const state of [...states].sort((a, b) => Number(b === "expired") - Number(a === "expired"))) {
    keys.set(state, keyOf(await putInState(context, state, newKey({ tenant }))));
  }
  return keys;
}

async function isThere(context: CaseContext, key: RecordKey): Promise<boolean> {
  return (await context.store.read(key)).record !== null;
}

function bury(context: CaseContext, tenant: string | null, id: string) {
  const facts = {
    digest: `${newToken()}${newToken()}`,
    source: "q",
    operation: "orders.import",
    tenant,
    key: "m",
  };
  const letter = { id, reason: "refused", contentType: null, payload: Uint8Array.of(1) };
  return context.store.messages?.bury(facts, letter, null);
}

const counting: readonly StoreCase[] = [
  tenantCase(
    "records are counted by their states, whatever the size of a page, and none is removed",
    async (data, context) => {
      const keys = await putAllStates(context, leaving);
      const others = await putAllStates(context, staying);
      for (const limit of [1, 2, 100]) {
        const { keys: found, ...counts } = await sweep(data, "records", null, limit);
        assert.deepEqual(counts, { over: 3, underWay: 2, undecided: 2, removed: 0 });
        assert.deepEqual(
          textsOf(found),
          textsOf([...keys.values()]),
          "each record once, and none of another tenant",
        );
      }
      for (const key of [...keys.values(), ...others.values()]) assert.ok(await isThere(context, key));
      for (const part of tenantParts.filter((one) => one !== "records")) {
        assert.deepEqual(await sweep(data, part), { ...none, keys: [] }, `${part}: there must be none`);
      }
    },
  ),
  transactionalCase("effects are counted by their states, and keep their record", async (data, context) => {
    for (const state of [...effectStates].reverse()) {
      await putEffectIn(context, state, {}, newKey({ tenant: leaving }));
    }
    await putEffectIn(context, "pending", { delayMs: hour }, newKey({ tenant: staying }));
    for (const part of ["effects", "records"] as const) {
      for (const limit of [2, 100]) {
        const { keys: _, ...counts } = await sweep(data, part, null, limit);
        assert.deepEqual(counts, { over: 1, underWay: 3, undecided: 1, removed: 0 }, part);
      }
    }
  }),
];

const removing: readonly StoreCase[] = [
  tenantCase("only finished data is removed, unless undecided data is included", async (data, context) => {
    const keys = await putAllStates(context, leaving);
    const others = await putAllStates(context, staying);
    const { keys: _, ...first } = await sweep(data, "records", onlyOver, 2);
    assert.deepEqual(first, { over: 0, underWay: 2, undecided: 2, removed: 3 });
    for (const [state, key] of keys) {
      assert.equal(await isThere(context, key), standingOf[state] !== "over", state);
    }
    const { keys: __, ...second } = await sweep(data, "records", everything, 2);
    assert.deepEqual(second, { over: 0, underWay: 2, undecided: 0, removed: 2 });
    for (const [state, key] of keys) {
      assert.equal(await isThere(context, key), standingOf[state] === "underWay", state);
    }
    for (const key of others.values())
      assert.ok(await isThere(context, key), "another tenant's data must stay");
  }),
  tenantCase(
    "undecided data leaves an audit row that names who decided, and its key starts again",
    async (data, context) => {
      const { key, record } = await putInDoubt(context);
      const finished = keyOf(await putInState(context, "completed", newKey({ tenant: key.tenant })));
      await sweep(data, "records", everything, 100, key.tenant);
      assert.deepEqual(await context.store.settlement.audit(finished), [], "this one waited for no decision");
      const [row, ...more] = await context.store.settlement.audit(key);
      assert.ok(row !== undefined && more.length === 0, "there must be one row");
      const { id: _, at: __, ...written } = row;
      assert.deepEqual(written, {
        key,
        recordId: record.id,
        effectId: null,
        event: "delete_tenant",
        from: "unknown",
        to: "none",
        proof: "operator",
        ...by,
      });
      const again = await createRunning(context, key);
      assert.deepEqual((await context.store.journal.read(key, again.id))?.steps, [], "no step may be left");
    },
  ),
  tenantCase("owners and workers of removed data are lost", async (data, context) => {
    const { key, guard, unknown } = await putInDoubt(context);
    await sweep(data, "records", everything, 100, key.tenant);
    const settled = await context.store.settlement.settle(key, guard, completedOutside, newNote());
    assert.equal(settled, false, "a removed record cannot be settled");
    const resumed = await context.store.takeOver(key, guardOf(unknown), unknown.fingerprint, newToken(), {
      leaseMs: hour,
      leaseEnd: "resume",
      attemptsMax: 5,
      abandonAfterMs: day,
    });
    assert.equal(resumed, null, "nor taken over");
  }),
  tenantCase("a running attempt keeps its record, and ends normally", async (data, context) => {
    const key = newKey({ tenant: leaving });
    const { id, fence } = await createRunning(context, key);
    await unchanged(context, key, "deleting its tenant", () => sweep(data, "records", everything));
    assert.ok(await context.store.end(key, id, fence, ends.completed));
    assert.equal((await readRecord(context, key)).state, "completed");
  }),
  transactionalCase(
    "delivered effects are removed, dead ones if included, others never",
    async (data, context) => {
      const dead = await putEffectIn(context, "dead", {}, newKey({ tenant: leaving }));
      const delivered = await putEffectIn(context, "delivered", {}, newKey({ tenant: leaving }));
      const foreign = await putEffectIn(context, "delivered", {}, newKey({ tenant: staying }));
      const pending = await putEffectIn(context, "pending", { delayMs: hour }, newKey({ tenant: leaving }));
      const { keys: _, ...first } = await sweep(data, "effects", onlyOver, 2);
      assert.deepEqual(first, { over: 0, underWay: 1, undecided: 1, removed: 1 });
      assert.deepEqual(await effectsOf(context, delivered.recordId), []);
      assert.equal((await effectNow(context, dead)).state, "dead");
      const { keys: __, ...second } = await leavesEffect(context, pending, "the deletion", () =>
        sweep(data, "effects", everything, 2),
      );
      assert.deepEqual(second, { over: 0, underWay: 1, undecided: 0, removed: 1 });
      assert.deepEqual(await effectsOf(context, dead.recordId), []);
      assert.equal((await effectsOf(context, foreign.recordId)).length, 1, "another tenant's data must stay");
      const rows = await context.store.settlement.audit(keyOf(dead));
      assert.deepEqual(
        rows.map(({ event, effectId, recordId, from, to, actor }) => ({
          event,
          effectId,
          recordId,
          from,
          to,
          actor,
        })),
        [
          {
            event: "delete_tenant",
            effectId: dead.id,
            recordId: dead.recordId,
            from: "dead",
            to: "none",
            actor: by.actor,
          },
        ],
      );
    },
  ),
  tenantCase(
    "dead messages are removed if included, tallies always, and those of others stay",
    async (data, context) => {
      const { messages } = context.store;
      if (messages === null) return;
      const [own, foreign, nobodys] = [newId(), newId(), newId()];
      await bury(context, leaving, own);
      await bury(context, staying, foreign);
      await bury(context, null, nobodys);
      const facts = {
        digest: `${newToken()}${newToken()}`,
        source: "q",
        operation: "o",
        tenant: leaving,
        key: "w",
      };
      await messages.count(
        facts,
        { starts: 1, returns: 0, failures: 0, errorCode: null, keepMs: day },
        newId(),
      );
      const { keys: _, ...first } = await sweep(data, "messages", onlyOver, 1);
      assert.deepEqual(first, { over: 0, underWay: 0, undecided: 1, removed: 1 });
      assert.equal(await messages.find(facts.digest), null);
      const { keys: __, ...second } = await sweep(data, "messages", everything, 1);
      assert.deepEqual(second, { over: 0, underWay: 0, undecided: 0, removed: 1 });
      const left = await messages.list({ operation: null, tenant: null, limit: 100, after: null });
      assert.deepEqual(left.map(({ id }) => id).sort(), [foreign, nobodys].sort());
    },
  ),
  tenantCase("early settlements are removed with their record", async (data, context) => {
    const { early } = context.store;
    if (early === undefined) return;
    const key = newKey({ tenant: leaving });
    const record = await createRunning(context, key);
    const note = newNote();
    const settlement = {
      event: "settle_call",
      call: "c",
      generation: 0,
      result: Uint8Array.of(1),
      resumeAfterMs: null,
    } as const;
    await early.keep(key, guardOf(record), {
      settlement,
      note,
      attempt: 1,
      call: { name: "c", generation: 0 },
    });
    assert.ok(await context.store.end(key, record.id, record.fence, ends.unknown));
    await sweep(data, "records", everything);
    await sweep(data, "early", everything);
    assert.deepEqual(await early.of(key, record.id), []);
    assert.equal(
      (await early.due(100)).some(({ id }) => id === record.id),
      false,
    );
  }),
];

const auditing: readonly StoreCase[] = [
  tenantCase(
    "its audit rows are removed separately, except for those of its deletion",
    async (data, context) => {
      const [one, two] = [await putInDoubt(context), await putInDoubt(context)];
      const { tenant } = one.key;
      await settleUnknown(context, one.key, completedOutside);
      await data.note(tenant, { id: newId(), ...by });
      await sweep(data, "records", everything, 100, tenant);
      const { keys: _, ...counted } = await sweep(data, "audit", null, 1, tenant);
      assert.deepEqual(counted, { ...none, over: 1 });
      const { keys: __, ...removed } = await sweep(data, "audit", onlyOver, 1, tenant);
      assert.deepEqual(removed, { ...none, removed: 1 });
      assert.deepEqual(await context.store.settlement.audit(one.key), []);
      assert.equal(
        (await context.store.settlement.audit(two.key)).length,
        1,
        "the audit row of its deletion must stay",
      );
    },
  ),
  tenantCase("the deletion is recorded once, however often it is requested", async (data, context) => {
    const id = newId();
    for (let times = 0; times < 2; times += 1) await data.note(leaving, { id, ...by });
    const rows = await context.store.settlement.audit({ tenant: leaving, scope: "", key: "" });
    assert.deepEqual(
      rows.map(({ at: _, ...row }) => row),
      [
        {
          id,
          key: { tenant: leaving, scope: "", key: "" },
          recordId: id,
          effectId: null,
          event: "delete_tenant",
          from: "none",
          to: "none",
          proof: "operator",
          ...by,
        },
      ],
    );
  }),
  {
    name: "audit age: rows are removed when they are old enough, oldest first, at most `limit`, and others stay",
    async run(context) {
      if (context.other.cleanAudit === undefined) return;
      const keys: RecordKey[] = [];
      for (let at = 0; at < 3; at += 1) {
        const { key } = await putInDoubt(context);
        await settleUnknown(context, key, completedOutside);
        keys.push(key);
        await context.advance(hour);
      }
      const rowsOf = async (key: RecordKey) => (await context.store.settlement.audit(key)).length;
      assert.equal(await context.other.cleanAudit(day, 100), 0, "none is a day old");
      assert.equal(await context.other.cleanAudit(hour / 2, 1), 1);
      assert.deepEqual(await Promise.all(keys.map(rowsOf)), [0, 1, 1], "the oldest ones");
      assert.equal(await context.other.cleanAudit(1.5 * hour, 100), 1);
      assert.deepEqual(await Promise.all(keys.map(rowsOf)), [0, 0, 1]);
      assert.equal((await readRecord(context, keys[0] ?? newKey())).state, "completed", "records must stay");
    },
  },
];

const textsOf = (keys: readonly RecordKey[]) =>
  keys.map(({ tenant, scope, key }) => `${tenant} ${scope} ${key}`).sort();

export const tenantDataCases: readonly StoreCase[] = [...counting, ...removing, ...auditing];
