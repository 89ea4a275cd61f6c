/** `settlement.list` and `settlement.audit`: what an operator sees. */
import assert from "node:assert/strict";
import type { LatchkeyRecord, RecordKey } from "latchkey";
import {
  type AuditEntry,
  type AuditFilter,
  type AuditNote,
  guardOf,
  type RecordFilter,
} from "latchkey/internal";
import {
  defaultTerms,
  endRunning,
  ends,
  hour,
  newId,
  newKey,
  newLife,
  putInState,
  readRecord,
  second,
  states,
} from "./arrange.ts";
import type { CaseContext, StoreCase } from "./case.ts";
import { cleanAll, sameRecord } from "./check.ts";
import { completedOutside, neverHappened, newNote, putInDoubt, settleUnknown } from "./settlement-arrange.ts";

const everything = { state: "unknown", tenant: null, operation: null, limit: 100, after: null } as const;

function list(context: CaseContext, filter: Partial<RecordFilter> = {}) {
  return context.store.settlement.list({ ...everything, ...filter });
}

const idsOf = (records: readonly LatchkeyRecord[]) => records.map(({ id }) => id);

async function putUnknown(context: CaseContext, key: RecordKey): Promise<string> {
  return (await endRunning(context, key, ends.unknown)).id;
}

/** Reads all records of a filter, page by page. */
async function pages(context: CaseContext, filter: Partial<RecordFilter>): Promise<readonly string[]> {
  const seen: string[] = [];
  let after: RecordFilter["after"] = null;
  for (let page = 0; page < 20; page += 1) {
    const found: readonly LatchkeyRecord[] = await list(context, { ...filter, after });
    assert.ok(found.length <= (filter.limit ?? 100), "no more than the limit");
    seen.push(...idsOf(found));
    const last = found.at(-1);
    if (last === undefined) break;
    after = { createdAt: last.createdAt, id: last.id };
  }
  return seen;
}

export const listingCases: readonly StoreCase[] = [
  {
    name: "list: the records in one state, as they are stored",
    async run(context) {
      for (const state of states) await putInState(context, state);
      for (const state of states) {
        const found = await list(context, { state });
        assert.ok(found.length >= 1, `one must be ${state}`);
        for (const record of found) {
          assert.equal(record.state, state);
          const { tenant, scope, key } = record;
          sameRecord(await readRecord(context, { tenant, scope, key }), record, "as it is stored");
        }
      }
      const total = await Promise.all(states.map((state) => list(context, { state })));
      assert.equal(new Set(total.flat().map(({ id }) => id)).size, states.length);
    },
  },
  {
    name: "list: of one tenant, of one operation, or of both",
    async run(context) {
      const ids = new Map<string, string>();
      for (const tenant of ["tenant-1", "tenant-2"]) {
        for (const scope of ["one", "two"]) {
          ids.set(`${tenant} ${scope}`, await putUnknown(context, newKey({ tenant, scope })));
          await context.advance(second);
        }
      }
      const named = (...names: string[]) => names.map((name) => ids.get(name));
      const found = async (filter: Partial<RecordFilter>) => idsOf(await list(context, filter));
      assert.deepEqual(await found({}), [...ids.values()]);
      assert.deepEqual(await found({ tenant: "tenant-2" }), named("tenant-2 one", "tenant-2 two"));
      assert.deepEqual(await found({ operation: "one" }), named("tenant-1 one", "tenant-2 one"));
      assert.deepEqual(await found({ tenant: "tenant-1", operation: "two" }), named("tenant-1 two"));
      assert.deepEqual(await found({ tenant: "tenant" }), []);
      assert.deepEqual(await found({ tenant: "" }), []);
    },
  },
  {
    name: "list: oldest first, page by page, none twice and none missing",
    async run(context) {
      const ids = [];
      for (let count = 0; count < 7; count += 1) {
        ids.push(await putUnknown(context, newKey()));
        await context.advance(second);
      }
      for (const limit of [1, 2, 3, 100]) assert.deepEqual(await pages(context, { limit }), ids);
    },
  },
  {
    name: "list: records of the same time are ordered by their ids",
    frozenClock: true,
    async run(context) {
      const ids = [];
      for (let count = 0; count < 6; count += 1) ids.push(await putUnknown(context, newKey()));
      for (const limit of [1, 2, 100]) assert.deepEqual(await pages(context, { limit }), ids.toSorted());
    },
  },
  {
    name: "audit: none before a settlement, and none for keys that were never settled",
    async run(context) {
      const { key } = await putInDoubt(context);
      assert.deepEqual(await context.store.settlement.audit(key), []);
      assert.deepEqual(await context.store.settlement.audit(newKey()), []);
    },
  },
  {
    name: "audit: includes all lives of the key, oldest first, even after cleaning",
    async run(context) {
      const { key, record } = await putInDoubt(context);
      await settleUnknown(context, key, neverHappened);
      await context.advance(second);
      const retryable = await readRecord(context, key);
      const next = await context.store.takeOver(
        key,
        guardOf(retryable),
        retryable.fingerprint,
        "e".repeat(32),
        defaultTerms,
      );
      assert.ok(next && (await context.store.end(key, next.id, next.fence, ends.unknown)));
      await settleUnknown(context, key, completedOutside);
      await context.advance(3 * hour);
      await cleanAll(context);
      assert.equal((await context.store.read(key)).record, null);
      const life = newLife(key);
      assert.ok(await context.store.create(life, null, defaultTerms));
      assert.ok(await context.store.end(key, life.id, life.fence, ends.unknown));
      await settleUnknown(context, key, completedOutside);
      const entries = await context.store.settlement.audit(key);
      assert.deepEqual(
        entries.map(({ recordId, event, to }) => [recordId, event, to]),
        [
          [record.id, "settle_not_executed", "retryable"],
          [record.id, "settle_completed", "completed"],
          [life.id, "settle_completed", "completed"],
        ],
      );
    },
  },
  {
    name: "audit: includes this key only",
    async run(context) {
      const key = newKey();
      const neighbours = [{ ...key, tenant: "another" }, { ...key, scope: "another" }, newKey(), key];
      for (const each of neighbours) {
        await putUnknown(context, each);
        await settleUnknown(context, each, completedOutside);
      }
      for (const each of neighbours) {
        const entries = await context.store.settlement.audit(each);
        assert.deepEqual(
          entries.map((entry) => ({ ...entry.key })),
          [each],
        );
      }
    },
  },
  {
    name: "audit log: newest first, in pages without repetitions or gaps; for one tenant if asked",
    async run(context) {
      const { listAudit } = context.other;
      if (listAudit === undefined) return;
      const [one, two] = [newKey(), { ...newKey(), tenant: `tenant-${newId()}` }];
      const notes: (AuditNote & { readonly key: RecordKey })[] = [];
      for (const key of [one, two, { ...two, key: "b" }, { ...one, key: "b" }]) {
        await putUnknown(context, key);
        const note = newNote({ reason: key.key });
        await settleUnknown(context, key, completedOutside, note);
        notes.unshift({ ...note, key });
        // Two rows with the same time must be distinguished by their ids.
        if (notes.length % 2 === 0) await context.advance(second);
      }
      const read = async (tenant: string | null, limit: number) => {
        const found: AuditEntry[] = [];
        for (let before: AuditFilter["before"] = null; ; ) {
          const page: readonly AuditEntry[] = await listAudit.call(context.other, { tenant, limit, before });
          found.push(...page);
          const last = page.at(-1);
          if (last === undefined || page.length < limit) return found;
          before = { at: last.at, id: last.id };
        }
      };
      const ids = (entries: readonly { readonly id: string }[]) => entries.map(({ id }) => id);
      for (const limit of [1, 2, 100]) {
        const all = await read(null, limit);
        assert.equal(new Set(ids(all)).size, all.length, "none twice");
        const own = all.filter(({ id }) => ids(notes).includes(id));
        assert.deepEqual(ids(own).toSorted(), ids(notes).toSorted(), "every one of them");
        const times = all.map(({ at }) => at);
        assert.deepEqual(
          times,
          times.toSorted((left, right) => right - left),
          "newest first",
        );
        const ofTwo = await read(two.tenant, limit);
        assert.deepEqual(
          ofTwo.map(({ key, actor, reason }) => ({ ...key, actor, reason })).toSorted(byKey),
          notes
            .filter(({ key }) => key.tenant === two.tenant)
            .map(({ key, actor, reason }) => ({ ...key, actor, reason }))
            .toSorted(byKey),
        );
      }
    },
  },
  {
    name: "audit: actor, proof and reason come back unchanged, even without a reason",
    async run(context) {
      for (const text of [null, "", "Ελλάδα 🔑 '; drop table audit; --", "null"]) {
        const { key } = await putInDoubt(context);
        const note = newNote({ reason: text, actor: `a ${text}`, proof: "closed-downstream" });
        await settleUnknown(context, key, completedOutside, note);
        const [entry] = await context.store.settlement.audit(key);
        const { id, actor, proof, reason } = entry ?? newNote();
        assert.deepEqual({ id, actor, proof, reason }, note);
      }
    },
  },
];

const byKey = (left: { readonly key: string }, right: { readonly key: string }) =>
  left.key < right.key ? -1 : 1;
