/** The suite can fail: each store here makes one mistake that real stores have made, and a named case catches it. */

import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import {
  alter,
  type BrokenSupport,
  casesOf,
  currentOf,
  effectGroups,
  failuresOf,
  type Mistake,
  otherTurn,
  type Parts,
  restored,
  running,
  slowCase,
  soundParts,
} from "../../../test/support/broken-store.ts";
import { sample } from "../../../test/support/thorough.ts";
import {
  type Fence,
  guardOf,
  type LatchkeyRecord,
  type RecordKey,
  type RecordState,
} from "../../latchkey/src/engine/record.ts";
import { guardHolds, keyText, MemoryRows, type RowChange } from "../../latchkey/src/stores/memory/rows.ts";
import type { BusinessRow, MemoryTransaction } from "../../latchkey/src/stores/memory/tables.ts";
import type { OpenTransaction, TransactionWork } from "../../latchkey/src/stores/transactions.ts";
import { storeConformance } from "./index.ts";
import { year } from "./store-conformance/arrange.ts";
import { isExclusive } from "./store-conformance/transactions-arrange.ts";

type Support = BrokenSupport;
type Open = OpenTransaction<MemoryTransaction>;

/** `end` with the stored fence if `accepts` accepts the caller's. */
function fencedBy(accepts: (given: Fence, there: Fence) => boolean): Mistake {
  return {
    store: ({ inner, rows }) => ({
      end: (key, id, fence, end) => {
        const there = currentOf(rows, key)?.fence;
        return inner.end(key, id, there !== undefined && accepts(fence, there) ? there : fence, end);
      },
    }),
  };
}

/** Sets a record in state `from` back to running, so that its owner may end it again. */
function endsFrom(from: RecordState): Mistake {
  return {
    store: ({ inner, rows, now }) => ({
      end: (key, id, fence, end) => {
        alter(rows, key, (record) => (record.state === from ? running(record, now(), now() + year) : record));
        return inner.end(key, id, fence, end);
      },
    }),
  };
}

const withLeaseEnding = (leaseEndsAt: number) => (record: LatchkeyRecord) =>
  record.state === "in_progress" ? { ...record, leaseEndsAt } : record;

/** A cleaner that also removes old records in `state`. */
function cleanerEats(state: RecordState): Mistake {
  return {
    store: ({ inner, rows, now }) => ({
      async clean(limit) {
        for (const { record } of rows.all()) {
          if (record.state === state && now() > record.createdAt + year) rows.remove(record);
        }
        return inner.clean(limit);
      },
    }),
  };
}

/** Rows stored under a text made from the key. */
const filedUnder = (textOf: (key: RecordKey) => string): Mistake => ({
  rows: () => new MemoryRows(textOf),
});
const joined = (separator: string) =>
  filedUnder(({ tenant, scope, key }) => [tenant, scope, key].join(separator));

/** Rows that change what they store. */
class LossyRows extends MemoryRows {
  readonly #lose: (record: LatchkeyRecord) => Partial<LatchkeyRecord>;

  constructor(lose: (record: LatchkeyRecord) => Partial<LatchkeyRecord>) {
    super();
    this.#lose = lose;
  }

  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    return super.put({ ...record, ...this.#lose(record) }, change);
  }
}

function answersStoredAs(lose: (answer: Uint8Array) => Uint8Array): Mistake {
  const change = (record: LatchkeyRecord) =>
    "answer" in record && record.answer !== null ? { answer: lose(record.answer) } : {};
  return { rows: () => new LossyRows(change) };
}

/** Rows that are returned without a copy. */
const sharedRows = () => new MemoryRows(keyText, (record) => record);

/** Changes what the work sees and how it ends. */
function runningWith(
  parts: Parts,
  change: {
    readonly open?: (open: Open) => Open;
    readonly end?: <T>(work: TransactionWork<T>, key: RecordKey) => TransactionWork<T>;
  },
): Partial<Support> {
  return {
    run: (request, work) =>
      parts.support.run(request, async (open) => {
        const ended = await work(change.open?.(open) ?? open);
        return change.end?.(ended, request.key) ?? ended;
      }),
  };
}

/** A handle that writes through `insert`. */
const writingTo = (open: Open, insert: (table: string, row: BusinessRow) => Promise<void>): Open => ({
  ...open,
  tx: { rows: (table) => open.tx.rows(table), insert },
});

/** Each mistake, and the case that must catch it. */
const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "capabilities that are false": [
    "manifest: the store declares the capabilities that the suite was given",
    { store: () => ({ transactions: null }) },
  ],
  "time in seconds": [
    "lookup: the store's time moves with `advance` and is the same for both instances",
    {
      store: ({ inner }) => ({
        async read(key) {
          const { record, now } = await inner.read(key);
          return { record, now: now / 1000 };
        },
      }),
    },
  ],
  "returns its own objects": [
    "lookup: changing a value that was passed in or returned does not change the record",
    { rows: sharedRows },
  ],

  "every column in every record": [
    "lookup: a record that is in_progress has the fields of that state and no others",
    {
      store: ({ inner }) => ({
        async read(key) {
          const { record, now } = await inner.read(key);
          return { record: record && { finishedAt: null, lastErrorCode: null, ...record }, now };
        },
      }),
    },
  ],
  "reading that applies expiry": [
    "cleaning: an answer can be read until it is purged, even past its expiry",
    {
      store: ({ inner }) => ({
        async read(key) {
          const { record, now } = await inner.read(key);
          const over = record?.state === "completed" && now >= record.expiresAt;
          return { record: over ? null : record, now };
        },
      }),
    },
  ],

  "create that checks, then acts": [
    "create: exactly one of many at once begins",
    {
      store: ({ inner, rows }) => ({
        async create(life, replaces, terms) {
          const seen = rows.find(life);
          await otherTurn();
          if (seen === null) rows.remove(life);
          return inner.create(life, replaces, terms);
        },
      }),
    },
  ],
  "create that overwrites": [
    "create: without a guard, nothing begins over a record that is completed",
    {
      store: ({ inner, rows }) => ({
        async create(life, replaces, terms) {
          if (replaces === null) rows.remove(life);
          return inner.create(life, replaces, terms);
        },
      }),
    },
  ],
  "accept that overwrites": [
    "create: without a guard, nothing begins over a record that is in_progress",
    {
      store: ({ inner, rows }) => ({
        async accept(life, replaces, expiresAfterMs) {
          if (replaces === null) rows.remove(life);
          return inner.accept(life, replaces, expiresAfterMs);
        },
      }),
    },
  ],
  "create that begins again when it is repeated": [
    "create: repeating it after a lost reply begins nothing new",
    {
      store: ({ inner, rows }) => ({
        async create(life, replaces, terms) {
          const again = currentOf(rows, life)?.id === life.id;
          if (again) rows.remove(life);
          const created = await inner.create(life, again ? null : replaces, terms);
          if (created !== null && again) return rows.put({ ...created, leaseEndsAt: year }, { terms });
          return created;
        },
      }),
    },
  ],
  "replacement that reads first, then writes": [
    "create: exactly one of many at once takes the place of a forgotten record",
    {
      store: ({ inner, rows }) => ({
        async create(life, replaces, terms) {
          const seen = rows.find(life);
          await otherTurn();
          if (seen !== null) rows.put(seen.record, restored(seen));
          return inner.create(life, replaces, terms);
        },
      }),
    },
  ],
  "replacement guarded by the id alone": [
    "create: the guard names every part of the expired record it replaces",
    {
      store: ({ inner, rows }) => ({
        create(life, replaces, terms) {
          const there = currentOf(rows, life);
          const guard = there !== null && replaces?.id === there.id ? guardOf(there) : replaces;
          return inner.create(life, guard, terms);
        },
      }),
    },
  ],
  "replacement of an answer that is still kept": [
    "create: a completed record whose answer is still kept is not replaced, whatever the guard says",
    {
      store: ({ inner, rows, now }) => ({
        create(life, replaces, terms) {
          alter(rows, life, (record) =>
            record.state === "completed" ? { ...record, expiresAt: now() } : record,
          );
          return inner.create(life, replaces, terms);
        },
      }),
    },
  ],
  "new life over a running one": [
    "create: no life begins over a record that is in_progress, whatever the guard says",
    {
      store: ({ inner, rows }) => ({
        create(life, replaces, terms) {
          const there = currentOf(rows, life);
          const over = there?.state === "in_progress" && replaces !== null && guardHolds(there, replaces);
          if (over) rows.remove(life);
          return inner.create(life, over ? null : replaces, terms);
        },
      }),
    },
  ],
  "new life under the old id": [
    "create: a new life takes the place of one that is expired and over",
    {
      store: ({ inner }) => ({
        create: (life, replaces, terms) =>
          inner.create({ ...life, id: replaces?.id ?? life.id }, replaces, terms),
      }),
    },
  ],

  "take-over without the fingerprint": [
    "take over: from retryable, another request's fingerprint is refused",
    {
      store: ({ inner, rows }) => ({
        takeOver: (key, guard, fingerprint, token, terms) =>
          inner.takeOver(key, guard, currentOf(rows, key)?.fingerprint ?? fingerprint, token, terms),
      }),
    },
  ],
  "take-over that ignores the lease": [
    "take over: never while the lease runs",
    {
      store: ({ inner, rows, now }) => ({
        takeOver(key, guard, fingerprint, token, terms) {
          alter(rows, key, withLeaseEnding(now()));
          return inner.takeOver(key, guard, fingerprint, token, terms);
        },
      }),
    },
  ],
  "take-over a millisecond early": [
    "take over: the lease ends at `leaseEndsAt`, not a millisecond earlier",
    {
      store: ({ inner, rows, now }) => ({
        takeOver(key, guard, fingerprint, token, terms) {
          alter(rows, key, (record) =>
            record.state === "in_progress" && record.leaseEndsAt === now() + 1
              ? { ...record, leaseEndsAt: now() }
              : record,
          );
          return inner.takeOver(key, guard, fingerprint, token, terms);
        },
      }),
    },
  ],
  "take-over guarded by the fence's number alone": [
    "take over: from in_progress, the guard covers every part of the record's version",
    {
      store: ({ inner, rows }) => ({
        takeOver(key, guard, fingerprint, token, terms) {
          const there = currentOf(rows, key)?.fence;
          const fence = there?.attempt === guard.fence.attempt ? there : guard.fence;
          return inner.takeOver(key, { ...guard, fence }, fingerprint, token, terms);
        },
      }),
    },
  ],
  "take-over that reads first, then writes": [
    "take over: from retryable, exactly one of many at once wins",
    {
      store: ({ inner, rows }) => ({
        async takeOver(key, guard, fingerprint, token, terms) {
          const seen = rows.find(key);
          await otherTurn();
          if (seen !== null) rows.put(seen.record, restored(seen));
          return inner.takeOver(key, guard, fingerprint, token, terms);
        },
      }),
    },
  ],
  "take-over of an answer": [
    "take over: never from completed",
    {
      store: ({ inner, rows, now }) => ({
        takeOver(key, guard, fingerprint, token, terms) {
          const there = currentOf(rows, key);
          if (there?.state !== "completed") return inner.takeOver(key, guard, fingerprint, token, terms);
          rows.put({ ...running(there, now(), now() + year) });
          alter(rows, key, withLeaseEnding(now()));
          return inner.takeOver(key, { ...guard, state: "in_progress" }, fingerprint, token, terms);
        },
      }),
    },
  ],
  "take-over under the old number": [
    "take over: attempts are counted upwards, each under its own token",
    {
      store: ({ inner, rows }) => ({
        async takeOver(key, guard, fingerprint, token, terms) {
          const taken = await inner.takeOver(key, guard, fingerprint, token, terms);
          if (taken === null) return null;
          return rows.put({ ...taken, fence: { attempt: guard.fence.attempt, token } }, { terms });
        },
      }),
    },
  ],
  "take-over that resets the life": [
    "take over: from in_progress, the life continues under the next fence",
    {
      store: ({ inner, rows, now }) => ({
        async takeOver(key, guard, fingerprint, token, terms) {
          const taken = await inner.takeOver(key, guard, fingerprint, token, terms);
          return taken === null ? null : rows.put({ ...taken, createdAt: now() }, { terms });
        },
      }),
    },
  ],
  "take-over under the old terms": [
    "ended leases: a take-over sets its own terms",
    {
      store: ({ inner, rows }) => ({
        async takeOver(key, guard, fingerprint, token, terms) {
          const before = rows.find(key)?.terms ?? null;
          const taken = await inner.takeOver(key, guard, fingerprint, token, terms);
          return taken === null ? null : rows.put(taken, { terms: before });
        },
      }),
    },
  ],

  "renewal after the lease revives it": [
    "renew: a lease that has ended is not revived",
    {
      store: ({ inner, rows, now }) => ({
        renew(key, id, fence, leaseMs) {
          alter(rows, key, withLeaseEnding(now() + 1));
          return inner.renew(key, id, fence, leaseMs);
        },
      }),
    },
  ],
  "renewal at the very end of the lease": [
    "renew: accepted until `leaseEndsAt`, and refused at it",
    {
      store: ({ inner, rows, now }) => ({
        renew(key, id, fence, leaseMs) {
          alter(rows, key, (record) =>
            record.state === "in_progress" && record.leaseEndsAt === now()
              ? { ...record, leaseEndsAt: now() + 1 }
              : record,
          );
          return inner.renew(key, id, fence, leaseMs);
        },
      }),
    },
  ],
  "renewal by anyone": [
    "renew: a lease that belongs to another owner is left alone",
    {
      store: ({ inner, rows }) => ({
        renew: (key, id, fence, leaseMs) =>
          inner.renew(key, id, currentOf(rows, key)?.fence ?? fence, leaseMs),
      }),
    },
  ],
  "renewal counted from the old end": [
    "renew: moves the end of the lease to `leaseMs` from now, and changes nothing else",
    {
      store: ({ inner, rows }) => ({
        async renew(key, id, fence, leaseMs) {
          const before = currentOf(rows, key);
          const renewed = await inner.renew(key, id, fence, leaseMs);
          if (renewed && before?.state === "in_progress") {
            alter(rows, key, withLeaseEnding(before.leaseEndsAt + leaseMs));
          }
          return renewed;
        },
      }),
    },
  ],

  "end without a fence": ["end: complete is refused to anyone but the owner", fencedBy(() => true)],
  "end fenced by the number alone": [
    "end: fail is refused to anyone but the owner",
    fencedBy((given, there) => given.attempt === there.attempt),
  ],
  "end fenced by the token alone": [
    "end: release is refused to anyone but the owner",
    fencedBy((given, there) => given.token === there.token),
  ],
  "tokens compared as numbers": [
    "bytes: tokens that differ in one digit are different, even beyond the precision of a number",
    fencedBy(
      (given, there) =>
        given.attempt === there.attempt && Number(`0x${given.token}`) === Number(`0x${there.token}`),
    ),
  ],
  "end without an id": [
    "end: doubt is refused to anyone but the owner",
    {
      store: ({ inner, rows }) => ({
        end: (key, id, fence, end) => inner.end(key, currentOf(rows, key)?.id ?? id, fence, end),
      }),
    },
  ],
  "completion over a completed record": [
    "end: no event ends a record that is completed",
    endsFrom("completed"),
  ],
  "completion over a failed record": ["end: no event ends a record that is failed", endsFrom("failed")],
  "completion over a tombstone": ["end: no event ends a record that is expired", endsFrom("expired")],
  "completion of an unknown record by its late owner": [
    "give up: the late owner of an unknown record cannot end it",
    endsFrom("unknown"),
  ],
  "end that insists on a running lease": [
    "end: accepted after the lease has ended, until another attempt takes over",
    {
      store: ({ inner, rows, now }) => ({
        async end(key, id, fence, end) {
          const record = currentOf(rows, key);
          const dead = record?.state === "in_progress" && now() >= record.leaseEndsAt;
          return dead ? null : inner.end(key, id, fence, end);
        },
      }),
    },
  ],
  "end that reads first, then writes": [
    "end: exactly one of many ends at once is written",
    {
      store: ({ inner, rows }) => ({
        async end(key, id, fence, end) {
          const seen = rows.find(key);
          await otherTurn();
          if (seen !== null) rows.put(seen.record, restored(seen));
          return inner.end(key, id, fence, end);
        },
      }),
    },
  ],
  "release that leaves the row": [
    "end: release leaves nothing, and the key may run as new",
    {
      store: ({ inner }) => ({
        end: (key, id, fence, end) =>
          inner.end(
            key,
            id,
            fence,
            end.event === "release" ? { event: "retry_later", errorCode: "", resumeAfterMs: null } : end,
          ),
      }),
    },
  ],
  "retry_later that forgets the life": [
    "end: retry_later keeps the life for the next attempt",
    {
      store: ({ inner }) => ({
        end: (key, id, fence, end) =>
          inner.end(key, id, fence, end.event === "retry_later" ? { event: "release" } : end),
      }),
    },
  ],
  "doubt stored as a retryable failure": [
    "end: doubt sets when reconciliation is due",
    {
      store: ({ inner }) => ({
        end: (key, id, fence, end) =>
          inner.end(
            key,
            id,
            fence,
            end.event === "doubt" ? { event: "retry_later", errorCode: "", resumeAfterMs: null } : end,
          ),
      }),
    },
  ],
  "retention counted from the start of the attempt": [
    "cleaning: retention is counted from the end of the attempt, not from its start",
    {
      store: ({ inner, rows }) => ({
        async end(key, id, fence, end) {
          const ended = await inner.end(key, id, fence, end);
          alter(rows, key, (record) =>
            record.state === "completed"
              ? { ...record, expiresAt: record.expiresAt - (record.finishedAt - record.createdAt) }
              : record,
          );
          return ended;
        },
      }),
    },
  ],

  "give-up that ignores the lease": [
    "give up: never while the lease runs",
    {
      store: ({ inner, rows, now }) => ({
        giveUp(key, guard, errorCode, reconcileAfterMs) {
          alter(rows, key, withLeaseEnding(now()));
          return inner.giveUp(key, guard, errorCode, reconcileAfterMs);
        },
      }),
    },
  ],
  "give-up guarded by the id alone": [
    "give up: the guard covers every part of the record's version",
    {
      store: ({ inner, rows }) => ({
        giveUp(key, guard, errorCode, reconcileAfterMs) {
          const there = currentOf(rows, key);
          const same = there?.state === "in_progress" && there.id === guard.id;
          return inner.giveUp(key, same ? guardOf(there) : guard, errorCode, reconcileAfterMs);
        },
      }),
    },
  ],
  "give-up that is written again": [
    "give up: repeating it after a lost reply is harmless",
    {
      store: ({ inner, rows }) => ({
        async giveUp(key, guard, errorCode, reconcileAfterMs) {
          alter(rows, key, (record) =>
            record.state === "unknown" ? { ...record, lastErrorCode: errorCode } : record,
          );
          return inner.giveUp(key, guard, errorCode, reconcileAfterMs);
        },
      }),
    },
  ],
  "give-up that frees the key": [
    "give up: an attempt whose lease has ended becomes unknown, with its fence",
    {
      store: ({ inner, rows }) => ({
        async giveUp(key, guard, errorCode, reconcileAfterMs) {
          const given = await inner.giveUp(key, guard, errorCode, reconcileAfterMs);
          if (given) rows.remove(key);
          return given;
        },
      }),
    },
  ],
  "dead leases that may still be taken over": [
    "ended leases: only leases of records that no attempt may take over",
    {
      store: ({ rows, now }) => ({
        endedLeases: async (limit) =>
          rows
            .all()
            .flatMap(({ record, terms }) =>
              record.state === "in_progress" && terms !== null && now() >= record.leaseEndsAt
                ? [{ record, ...terms }]
                : [],
            )
            .slice(0, limit),
      }),
    },
  ],
  "dead leases by their ends alone": [
    "ended leases: first the records that could not be taken over for the longest time, whenever their leases ended",
    {
      store: ({ inner }) => ({
        async endedLeases(limit) {
          const ended = await inner.endedLeases(1_000);
          return ended
            .toSorted((one, other) => one.record.leaseEndsAt - other.record.leaseEndsAt)
            .slice(0, limit);
        },
      }),
    },
  ],
  "dead leases in any order": [
    "ended leases: oldest first, at most `limit`",
    {
      store: ({ inner }) => ({
        endedLeases: async (limit) => [...(await inner.endedLeases(limit))].reverse(),
      }),
    },
  ],
  "lost transaction that overwrites": [
    "lose transaction: refused without a guard over a record that is completed",
    {
      store: ({ inner, rows }) => ({
        async recordLostTransaction(life, _replaces, errorCode) {
          rows.remove(life);
          return inner.recordLostTransaction(life, null, errorCode);
        },
      }),
    },
  ],
  "lost transaction that may run again": [
    "lose transaction: the life is written as unknown and waits for a person",
    {
      store: ({ inner, rows }) => ({
        async recordLostTransaction(life, replaces, errorCode) {
          const lost = await inner.recordLostTransaction(life, replaces, errorCode);
          if (lost !== null) rows.remove(life);
          return lost;
        },
      }),
    },
  ],

  "cleaner eats unknown": [
    "cleaning: a record that is unknown stays, however old it is",
    cleanerEats("unknown"),
  ],
  "cleaner eats in_progress": [
    "cleaning: a record that is in_progress stays, however old it is",
    cleanerEats("in_progress"),
  ],
  "cleaner eats retryable": [
    "cleaning: a record that is retryable stays, however old it is",
    cleanerEats("retryable"),
  ],
  "cleaner without a limit": [
    "cleaning: at most `limit` records of each kind at a time",
    { store: ({ inner }) => ({ clean: () => inner.clean(Number.POSITIVE_INFINITY) }) },
  ],
  "purge that forgets at once": [
    "cleaning: after complete, the answer is purged at its expiry and the key is refused until it is forgotten",
    {
      store: ({ inner, rows }) => ({
        async clean(limit) {
          const report = await inner.clean(limit);
          for (const { record } of rows.all()) if (record.state === "expired") rows.remove(record);
          return report;
        },
      }),
    },
  ],
  "purge that leaves the answer": [
    "cleaning: after fail, the answer is purged at its expiry and the key is refused until it is forgotten",
    {
      store: ({ inner, rows }) => ({
        async clean(limit) {
          const before = rows.all();
          const report = await inner.clean(limit);
          for (const { record } of before) {
            if (record.state === "completed" || record.state === "failed") rows.put(record);
          }
          return report;
        },
      }),
    },
  ],
  "purge before its time": [
    "cleaning: purges at `expiresAt` and forgets at `forgetAt`, not a millisecond earlier",
    {
      store: ({ inner, rows, now }) => ({
        clean(limit) {
          for (const { record } of rows.all()) {
            if (record.state === "completed" && record.expiresAt === now() + 1) {
              rows.put({ ...record, expiresAt: now() });
            }
          }
          return inner.clean(limit);
        },
      }),
    },
  ],
  "cleaner that reads first, then writes": [
    "cleaning: a cleaner and a new life racing for a forgotten key leave the new life, or nothing",
    {
      store: ({ inner, rows, now }) => ({
        async clean(limit) {
          const due = rows.all().filter(({ record }) => "forgetAt" in record && now() >= record.forgetAt);
          await otherTurn();
          for (const { record } of due) rows.remove(record);
          return inner.clean(limit);
        },
      }),
    },
  ],
  "abandoned requests that vanish": [
    "cleaning: a pending request past its expiry fails as timed out, and is retained",
    {
      store: ({ inner, rows }) => ({
        async clean(limit) {
          const report = await inner.clean(limit);
          for (const { record } of rows.all()) {
            if (record.state === "failed" && record.answer === null) rows.remove(record);
          }
          return report;
        },
      }),
    },
  ],

  "keys without the tenant": [
    "isolation: two keys that differ only by tenants are two records",
    filedUnder(({ scope, key }) => JSON.stringify([scope, key])),
  ],
  "keys without the scope": [
    "isolation: two keys that differ only by scopes are two records",
    filedUnder(({ tenant, key }) => JSON.stringify([tenant, key])),
  ],
  "keys joined by |": ["isolation: two keys that differ only by separators | are two records", joined("|")],
  "keys joined by :": [
    "isolation: two keys that differ only by separators : in the key are two records",
    joined(":"),
  ],
  "keys joined by nothing": [
    "isolation: two keys that differ only by no separator are two records",
    joined(""),
  ],
  "keys without letter case": [
    "isolation: two keys that differ only by letter case in the key are two records",
    filedUnder((key) => JSON.stringify([key.tenant, key.scope, key.key]).toLowerCase()),
  ],
  "keys in Unicode's composed form": [
    "isolation: two keys that differ only by composed and decomposed characters are two records",
    filedUnder((key) => JSON.stringify([key.tenant, key.scope, key.key]).normalize("NFC")),
  ],
  "keys without white space at their end": [
    "isolation: two keys that differ only by a trailing space are two records",
    filedUnder((key) => JSON.stringify([key.tenant, key.scope, key.key.trimEnd()])),
  ],

  "answers as UTF-8 text": [
    "bytes: an answer of bytes that are not UTF-8 comes back unchanged",
    answersStoredAs((answer) => new TextEncoder().encode(new TextDecoder().decode(answer))),
  ],
  "answers without their trailing zeros": [
    "bytes: an answer of a trailing zero comes back unchanged",
    answersStoredAs((answer) => (answer.at(-1) === 0 ? answer.slice(0, -1) : answer)),
  ],
  "answers cut at 64 KiB": [
    "bytes: an answer of 1 MiB comes back unchanged",
    answersStoredAs((answer) => answer.slice(0, 65_535)),
  ],
  "answers as views of a larger buffer": [
    "bytes: an answer of a view into a larger buffer comes back unchanged",
    answersStoredAs((answer) => (answer.length === 20 ? new Uint8Array(answer.buffer, 1) : answer)),
  ],
  "an empty principal taken for none": [
    "bytes: no principal and an empty one are different",
    { rows: () => new LossyRows(({ principal }) => ({ principal: principal === "" ? null : principal })) },
  ],

  "commit without a guard": [
    "transactions: of many with one key, all past their look-up, exactly one commits",
    {
      transactions: ({ support, rows }) => ({
        async run(request, work) {
          const outcome = await support.run(request, work);
          if (outcome.kind !== "lost") return outcome;
          const { record } = rows.find(request.key) ?? {};
          const expiresAt = record !== undefined && "expiresAt" in record ? record.expiresAt : 0;
          return { kind: "committed", value: outcome.value, expiresAt };
        },
      }),
    },
  ],
  "guard that does not raise, so that COMMIT succeeds": [
    "transactions: repeating a commit after a lost reply is lost",
    {
      transactions: ({ support, tables }) => ({
        async run(request, work) {
          const written: { table: string; row: BusinessRow }[] = [];
          const outcome = await support.run(request, (open) =>
            work(
              writingTo(open, async (table, row) => {
                await open.tx.insert(table, row);
                written.push({ table, row });
              }),
            ),
          );
          if (outcome.kind === "lost") tables.add(written);
          return outcome;
        },
      }),
    },
  ],
  "commit guarded by the id alone": [
    "transactions: the guard covers every part of the version of the record it replaces",
    {
      transactions: (parts) =>
        runningWith(parts, {
          end(work, key) {
            const there = currentOf(parts.rows, key);
            if (work.end !== "commit" || there === null || work.replaces?.id !== there.id) return work;
            return { ...work, replaces: guardOf(there) };
          },
        }),
    },
  ],
  "writes on another connection": [
    "transactions: rollback leaves neither rows nor record, and frees the key",
    {
      transactions: (parts) =>
        runningWith(parts, {
          open: (open) =>
            writingTo(open, async (table, row) => {
              await open.tx.rows(table);
              parts.tables.add([{ table, row }]);
            }),
        }),
    },
  ],
  "record of a transaction that rolled back": [
    "transactions: abandon leaves neither rows nor record, and frees the key",
    {
      transactions: (parts) =>
        runningWith(parts, {
          end(work, key) {
            if (work.end === "abandon") {
              const fence = { attempt: 1, token: "0".repeat(32) };
              const fingerprint = { version: 1, digest: new Uint8Array() };
              const life = { ...key, id: "x", operation: "x", principal: null, fence, fingerprint };
              void parts.inner.recordLostTransaction(life, null, "x");
            }
            return work;
          },
        }),
    },
  ],
  "every transaction alone": [
    "transactions: the second transaction of a key learns at once that it is not alone",
    {
      transactions: (parts) => runningWith(parts, { open: (open) => ({ ...open, exclusive: true }) }),
    },
  ],
  "lock that anyone's end releases": [
    "transactions: a transaction that was not alone does not free the key of the one that is",
    {
      transactions({ support }) {
        const locked = new Set<string>();
        return {
          async run(request, work) {
            const text = JSON.stringify(request.key);
            const exclusive = !locked.has(text);
            locked.add(text);
            try {
              return await support.run(request, (open) => work({ ...open, exclusive }));
            } finally {
              locked.delete(text);
            }
          },
        };
      },
    },
  ],
  "lock without the tenant": [
    "transactions: other keys and other tenants are not blocked",
    {
      transactions({ support }) {
        const locked = new Set<string>();
        return {
          async run(request, work) {
            const exclusive = !locked.has(request.key.key);
            if (exclusive) locked.add(request.key.key);
            try {
              return await support.run(request, (open) => work({ ...open, exclusive }));
            } finally {
              if (exclusive) locked.delete(request.key.key);
            }
          },
        };
      },
    },
  ],
  "lock that an error leaves behind": [
    "transactions: rethrows the work's error, after everything was rolled back",
    {
      transactions({ support }) {
        const stuck = new Set<string>();
        return {
          async run(request, work) {
            const text = JSON.stringify(request.key);
            const run = support.run(request, (open) =>
              work({ ...open, exclusive: open.exclusive && !stuck.has(text) }),
            );
            return run.catch((error: unknown) => {
              stuck.add(text);
              throw error;
            });
          },
        };
      },
    },
  ],
  "transactions without an idle limit": [
    slowCase,
    {
      transactions: ({ support }) => ({
        run: (request, work) => support.run({ ...request, idleLimitMs: 1_000_000 }, work),
      }),
    },
  ],
  "a revoke that does nothing": [
    "transactions: a revoked `tx` refuses statements, and what it wrote before is committed",
    { transactions: (parts) => runningWith(parts, { open: (open) => ({ ...open, revoke() {} }) }) },
  ],
  "a handle that works after its end": [
    "transactions: after its end, whatever the end, `tx` refuses statements",
    {
      transactions: (parts) =>
        runningWith(parts, {
          open: (open) =>
            writingTo(open, (table, row) =>
              open.tx.insert(table, row).catch(() => parts.tables.add([{ table, row }])),
            ),
        }),
    },
  ],
  "every handle counted as used": [
    "transactions: reports whether the handler has used `tx`",
    { transactions: (parts) => runningWith(parts, { open: (open) => ({ ...open, used: () => true }) }) },
  ],
  "writes that are not undone": [
    "transactions: undoing the writes keeps the answer",
    {
      transactions: (parts) =>
        runningWith(parts, {
          end: (work) => (work.end === "commit" ? { ...work, undoWrites: false } : work),
        }),
    },
  ],
  "writes that are always undone": [
    "transactions: a savepoint alone undoes nothing",
    {
      transactions: (parts) => ({
        run: (request, work) =>
          parts.support.run(request, async (open) => {
            const ended = await work(open);
            return ended.end === "commit" ? { ...ended, undoWrites: request.savepoint } : ended;
          }),
      }),
    },
  ],
  "resolving by a plain read": [
    "resolve: in doubt while the transaction can still commit",
    {
      transactions: ({ support }) => ({
        async resolve(key, id, fence) {
          const resolved = await support.resolve(key, id, fence, 0);
          return resolved === "in_doubt" ? "rolled_back" : resolved;
        },
      }),
    },
  ],
  "resolving that does not wait": [
    "resolve: waits for an open transaction that then ends with commit",
    {
      transactions: ({ support }) => ({
        resolve: async (key, id, fence, timeoutMs) =>
          (await isExclusive(support, key)) ? support.resolve(key, id, fence, timeoutMs) : "in_doubt",
      }),
    },
  ],
  "resolving by the key alone": [
    "resolve: does not count another transaction's record as its own",
    {
      transactions: ({ support, rows }) => ({
        resolve(key, id, fence, timeoutMs) {
          const there = currentOf(rows, key);
          return support.resolve(key, there?.id ?? id, there?.fence ?? fence, timeoutMs);
        },
      }),
    },
  ],
  "resolving by the token alone": [
    "resolve: does not count another transaction's record as its own",
    {
      transactions: ({ support, rows }) => ({
        resolve(key, id, fence, timeoutMs) {
          const there = currentOf(rows, key)?.fence;
          return support.resolve(key, id, there?.token === fence.token ? there : fence, timeoutMs);
        },
      }),
    },
  ],
  "resolving by inserting a marker": [
    "resolve: reports a transaction that rolled back, and inserts nothing",
    {
      transactions: ({ support, inner }) => ({
        async resolve(key, id, fence, timeoutMs) {
          const resolved = await support.resolve(key, id, fence, timeoutMs);
          const fingerprint = { version: 1, digest: new Uint8Array() };
          const life = { ...key, id, operation: "marker", principal: null, fence, fingerprint };
          await inner.recordLostTransaction(life, null, "marker");
          return resolved;
        },
      }),
    },
  ],
};

describe("the suite", () => {
  test("passes on the sound store that the broken ones are made from", async () => {
    expect([...(await failuresOf(casesOf({}))).keys()]).toEqual([]);
  });

  test.each(sample(Object.entries(mistakes), 8))("catches: %s", async (_name, [caughtBy, mistake]) => {
    const skip = caughtBy === slowCase ? {} : { [slowCase]: "it waits in real time" };
    const cases = casesOf(mistake, skip).filter(([name]) => !effectGroups.test(name));
    const failures = await failuresOf(cases);
    expect([...failures.keys()]).toContain(caughtBy);
    expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
  });
});

describe("skipping a case", () => {
  const options = {
    test: () => {},
    clock: "frozen",
    capabilities: soundParts().inner.capabilities,
    factory: () => {
      throw new TypeError("no case runs here");
    },
  } as const;

  test("leaves it out by its name and reason", () => {
    const names: string[] = [];
    const skipped = "create: exactly one of many at once begins";
    const named = { ...options, test: (name: string) => names.push(name) };
    storeConformance(named);
    const all = names.splice(0);
    storeConformance({ ...named, skip: { [skipped]: "one session at a time" } });
    expect(names).toEqual(all.filter((name) => name !== skipped));
    expect(new Set(all).size).toBe(all.length);
  });

  test("rejects unknown case names and empty reasons", () => {
    expect(() => storeConformance({ ...options, skip: { "create: nothing": "x" } })).toThrow(TypeError);
    expect(() => storeConformance({ ...options, skip: { "lookup: a new store is empty": " " } })).toThrow(
      TypeError,
    );
  });

  test("a store without transactions runs none of their cases, and one with a running clock no boundary cases", () => {
    const names: string[] = [];
    const capabilities = { ...options.capabilities, transactions: false };
    const running = { ...options, capabilities, clock: "running" } as const;
    storeConformance({ ...running, test: (name) => names.push(name) });
    expect(names.filter((name) => /^(transactions|resolve):/.test(name))).toEqual([]);
    expect(names.filter((name) => name.includes("millisecond"))).toEqual([]);
    expect(names.length).toBeGreaterThan(150);
  });
});
