/** Keys that look alike are different keys, and no key gives access to another's record. */
import assert from "node:assert/strict";
import type { RecordKey } from "latchkey";
import { guardOf } from "latchkey/internal";
import {
  completion,
  createRunning,
  day,
  defaultTerms,
  endRunning,
  fingerprint,
  leaseMs,
  minute,
  newKey,
  newLife,
  newToken,
  readRecord,
  second,
} from "./arrange.ts";
import type { StoreCase } from "./case.ts";
import { refused, sameRecord, unchanged } from "./check.ts";

/** Pairs that become equal if a key is joined carelessly into one text. */
const lookAlikes: readonly (readonly [what: string, left: RecordKey, right: RecordKey])[] = [
  ["tenants", parts("tenant-a", "s", "k"), parts("tenant-b", "s", "k")],
  ["scopes", parts("t", "payments.create", "k"), parts("t", "payments.refund", "k")],
  ["an operation and the tenant-wide scope", parts("t", "payments.create", "k"), parts("t", "*", "k")],
  ["keys", parts("t", "s", "k"), parts("t", "s", "k2")],
  ["separators |", parts("a|b", "c", "d"), parts("a", "b|c", "d")],
  ["separators | in the key", parts("a", "b|c", "d"), parts("a", "b", "c|d")],
  ["separators :", parts("a:b", "c", "d"), parts("a", "b:c", "d")],
  ["separators : in the key", parts("a", "b:c", "d"), parts("a", "b", "c:d")],
  ["separators / in the key", parts("a", "b/c", "d"), parts("a", "b", "c/d")],
  ["separators . in the key", parts("a", "b.c", "d"), parts("a", "b", "c.d")],
  ["separators , in the key", parts("a", "b,c", "d"), parts("a", "b", "c,d")],
  ["separators - in the key", parts("a", "b-c", "d"), parts("a", "b", "c-d")],
  ["spaces as separators", parts("a b", "c", "d"), parts("a", "b c", "d")],
  ["line breaks as separators", parts("a\nb", "c", "d"), parts("a", "b\nc", "d")],
  ["unit separators", parts("a\u001fb", "c", "d"), parts("a", "b\u001fc", "d")],
  ["tenant and key swapped", parts("a", "s", "b"), parts("b", "s", "a")],
  ["quoted separators", parts('a","b', "c", "d"), parts("a", 'b","c', "d")],
  ["no separator", parts("ab", "c", "d"), parts("a", "bc", "d")],
  ["letter case in the key", parts("t", "s", "Key"), parts("t", "s", "key")],
  ["letter case in the tenant", parts("Tenant", "s", "k"), parts("tenant", "s", "k")],
  ["accents", parts("t", "s", "e"), parts("t", "s", "é")],
  ["composed and decomposed characters", parts("caf\u00e9", "s", "k"), parts("cafe\u0301", "s", "k")],
  ["a trailing space", parts("t", "s", "k"), parts("t", "s", "k ")],
  ["a leading space", parts("t", "s", "k"), parts("t", "s", " k")],
  ["a leading zero", parts("t", "s", "1"), parts("t", "s", "01")],
  ["wildcards", parts("t", "s", "a_c"), parts("t", "s", "abc")],
  ["percent signs", parts("t", "s", "a%"), parts("t", "s", "abc")],
  ["backslashes", parts("t", "s", "a\\b"), parts("t", "s", "a\\\\b")],
];

function parts(tenant: string, scope: string, key: string): RecordKey {
  return { tenant, scope, key };
}

const confusion: readonly StoreCase[] = lookAlikes.map(([what, left, right]) => ({
  name: `isolation: two keys that differ only by ${what} are two records`,
  async run(context) {
    const { store } = context;
    const first = await createRunning(context, left);
    assert.equal((await store.read(right)).record, null, "the other key must still be free");
    const second = await createRunning(context, right);
    await store.end(left, first.id, first.fence, completion("left"));
    sameRecord(await readRecord(context, right), second, "the other record must be untouched");
    await store.end(right, second.id, second.fence, { event: "release" });
    const record = await readRecord(context, left);
    assert.equal(record.id, first.id);
    assert.deepEqual([record.tenant, record.scope, record.key], [left.tenant, left.scope, left.key]);
  },
}));

export const isolationCases: readonly StoreCase[] = [
  ...confusion,
  {
    name: "isolation: id and fence of one key give no access to another",
    async run(context) {
      const mine = await createRunning(context, newKey({ tenant: "mallory" }));
      const key = newKey({ tenant: "alice" });
      await createRunning(context, key);
      const { id, fence } = mine;
      await refused(context, key, "renew", () => context.store.renew(key, id, fence, leaseMs));
      await refused(context, key, "complete", () => context.store.end(key, id, fence, completion()));
      await refused(context, key, "release", () => context.store.end(key, id, fence, { event: "release" }));
      await context.advance(leaseMs + second);
      await refused(context, key, "give up", () => context.store.giveUp(key, guardOf(mine), "x", null));
      const print = fingerprint();
      await refused(context, key, "take over", () =>
        context.store.takeOver(key, guardOf(mine), print, newToken(), defaultTerms),
      );
    },
  },
  {
    name: "isolation: cleaning one tenant's records leaves those of others",
    async run(context) {
      const gone = newKey({ tenant: "a" });
      await endRunning(context, gone, completion("a", { retentionMs: minute, forgetAfterMs: minute }));
      const kept = { ...gone, tenant: "b" };
      await endRunning(context, kept, completion("b", { retentionMs: day, forgetAfterMs: day }));
      await context.advance(2 * minute);
      await unchanged(context, kept, "cleaning", async () => {
        await context.store.clean(100);
        await context.store.clean(100);
      });
      assert.equal((await context.store.read(gone)).record, null);
    },
  },
  {
    name: "isolation: a hundred keys of one tenant each begin once, all at the same time",
    async run(context) {
      const keys = Array.from({ length: 100 }, () => newKey());
      const stores = [context.store, context.other];
      const results = await Promise.all(
        keys.flatMap((key) => stores.map((store) => store.create(newLife(key), null, defaultTerms))),
      );
      const ids = new Set(results.flatMap((record) => (record === null ? [] : [record.id])));
      assert.equal(ids.size, keys.length);
    },
  },
];
