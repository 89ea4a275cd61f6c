/** The cases about effects, deferred work and hints can fail: each of them catches some of these mistakes. */

import { AssertionError } from "node:assert/strict";
import { describe, expect, test } from "vitest";
import {
  alter,
  casesOf,
  effectGroups,
  failuresOf,
  type Mistake,
  otherTurn,
  type Parts,
  restored,
} from "../../../test/support/broken-store.ts";
import { isThorough, sample } from "../../../test/support/thorough.ts";
import type { Fence, LatchkeyRecord } from "../../latchkey/src/engine/record.ts";
import type { Hint, HintSupport } from "../../latchkey/src/stores/hints.ts";
import { type EffectRow, enqueue, MemoryEffects } from "../../latchkey/src/stores/memory/effects.ts";
import { MemoryRows, type RowChange } from "../../latchkey/src/stores/memory/rows.ts";
import type { MemoryTransaction } from "../../latchkey/src/stores/memory/tables.ts";
import type {
  DeliveryEnd,
  EffectClaim,
  EffectState,
  NewEffect,
  OutboxEffect,
  OutboxSupport,
} from "../../latchkey/src/stores/outbox.ts";
import type { SettlementSupport } from "../../latchkey/src/stores/settlement.ts";
import type { Store } from "../../latchkey/src/stores/store.ts";
import type { DeliveryRequest, DeliveryWork } from "../../latchkey/src/stores/transactions.ts";
import { hour, minute, newId } from "./store-conformance/arrange.ts";
import { newEffect } from "./store-conformance/outbox-arrange.ts";

const outbox = (make: (parts: Parts) => Partial<OutboxSupport>): Mistake => ({ outbox: make });
const settlement = (make: (parts: Parts) => Partial<SettlementSupport>): Mistake => ({ settlement: make });
const store = (make: (parts: Parts) => Partial<Store<MemoryTransaction>>): Mistake => ({ store: make });
const hints = (make: (parts: Parts) => Partial<HintSupport>): Mistake => ({ hints: make });

/** Replaces all effects by other versions. */
function alterAll(effects: MemoryEffects, change: (row: EffectRow) => EffectRow): void {
  for (const row of effects.all()) effects.put(change(row));
}

function alterEffect(effects: MemoryEffects, id: string, change: (row: EffectRow) => EffectRow): void {
  const row = effects.find(id);
  if (row !== null) effects.put(change(row));
}

const withEffect = (row: EffectRow, change: Partial<OutboxEffect>): EffectRow => ({
  ...row,
  effect: { ...row.effect, ...change },
});

/** `now` with the fields that `act` has changed; the others from before. */
function unseen<T extends object>(before: T, seen: T, now: T): T {
  const restore = Object.entries(before).filter(([name, value]) => {
    const [there, was] = [Reflect.get(now, name), Reflect.get(seen, name)];
    return was !== value && there === was && typeof value !== "object";
  });
  return { ...now, ...Object.fromEntries(restore) };
}

/** Runs one step of the sound store while it sees modified effects. */
async function seeing<T>(
  effects: MemoryEffects,
  change: (row: EffectRow) => EffectRow,
  act: () => Promise<T>,
): Promise<T> {
  const before = effects.all();
  alterAll(effects, change);
  // The change is undone when this returns, before any other call.
  const result = act();
  for (const row of before) {
    const now = effects.find(row.effect.id);
    const seen = change(row);
    if (now === null) continue;
    const nulled = { leaseEndsAt: now.leaseEndsAt, endedBy: now.endedBy, removeAt: now.removeAt };
    effects.put({
      ...unseen(row, seen, now),
      ...nulled,
      effect: unseen(row.effect, seen.effect, now.effect),
    });
  }
  return result;
}

/** Claims that see modified effects. */
const claimsSeeing = (change: (parts: Parts) => (row: EffectRow) => EffectRow): Mistake =>
  outbox((parts) => ({
    claim: (...given) => seeing(parts.effects, change(parts), () => parts.outbox.claim(...given)),
  }));

const seenAs = (is: (row: EffectRow) => boolean, change: Partial<OutboxEffect>) =>
  claimsSeeing(() => (row) => (is(row) ? withEffect(row, change) : row));

/** Reads first, then writes based on what it read. */
function checksThenActs(write: "claim" | "end" | "rescue" | "confirm" | "decide"): Mistake {
  return outbox(({ outbox: inner, effects, audit }) => {
    const stale = async <T>(act: () => Promise<T>): Promise<T> => {
      const seen = effects.all();
      const decisions = [...audit];
      await otherTurn();
      for (const row of seen) effects.put(row);
      audit.splice(0, audit.length, ...decisions);
      return act();
    };
    const all: Pick<OutboxSupport, "claim" | "end" | "rescue" | "confirm" | "decide"> = {
      claim: (...given) => stale(() => inner.claim(...given)),
      end: (...given) => stale(() => inner.end(...given)),
      rescue: (...given) => stale(() => inner.rescue(...given)),
      confirm: (...given) => stale(() => inner.confirm(...given)),
      decide: (...given) => stale(() => inner.decide(...given)),
    };
    return { [write]: all[write] };
  });
}

/** Changes the effects before each call of `write`. */
function before(
  write: "claim" | "start" | "end" | "rescue",
  change: (parts: Parts) => (row: EffectRow) => EffectRow,
): Mistake {
  return outbox((parts) => {
    const { outbox: inner, effects } = parts;
    const changed = <T>(act: () => Promise<T>): Promise<T> => {
      alterAll(effects, change(parts));
      return act();
    };
    const all: Pick<OutboxSupport, "claim" | "start" | "end" | "rescue"> = {
      claim: (...given) => changed(() => inner.claim(...given)),
      start: (...given) => changed(() => inner.start(...given)),
      end: (...given) => changed(() => inner.end(...given)),
      rescue: (...given) => changed(() => inner.rescue(...given)),
    };
    return { [write]: all[write] };
  });
}

type FenceOf = (given: Fence, there: Fence) => Fence;
const anyFence: FenceOf = (_, there) => there;
const anyToken: FenceOf = (given, there) => (given.attempt === there.attempt ? there : given);
const anyNumber: FenceOf = (given, there) => (given.token === there.token ? there : given);

function refenced<C extends EffectClaim>(effects: MemoryEffects, claim: C, fenceOf: FenceOf): C {
  const there = effects.find(claim.id)?.effect.fence;
  return there === undefined ? claim : { ...claim, fence: fenceOf(claim.fence, there) };
}

/** Claims that also start effects they should not start. */
const claimsStarting = (may: (effect: OutboxEffect) => boolean): Mistake =>
  outbox(({ outbox: inner, effects }) => ({
    async claim(wants, token, leaseMs) {
      const claimed = await inner.claim(wants, token, leaseMs);
      const wrong = claimed.filter(
        ({ effect }) => wants.find((want) => want.effect === effect)?.starts === true,
      );
      await inner.start(wrong.filter(may), leaseMs);
      return claimed.map((effect) => effects.find(effect.id)?.effect ?? effect);
    },
  }));

const startsBy = (fenceOf: FenceOf): Mistake =>
  outbox(({ outbox: inner, effects }) => ({
    start: (claims, leaseMs) =>
      inner.start(
        claims.map((one) => refenced(effects, one, fenceOf)),
        leaseMs,
      ),
  }));

const endsBy = (fenceOf: FenceOf): Mistake =>
  outbox(({ outbox: inner, effects }) => ({
    end: (ends) => inner.end(ends.map((one) => refenced(effects, one, fenceOf))),
  }));

/** Makes one more change after an end that was written. */
const afterEnd = (
  is: (end: DeliveryEnd) => boolean,
  change: (row: EffectRow, parts: Parts, before: EffectRow | null) => EffectRow,
): Mistake =>
  outbox((parts) => ({
    async end(ends) {
      const there = new Map(ends.map(({ id }) => [id, parts.effects.find(id)]));
      const ended = await parts.outbox.end(ends);
      for (const end of ends) {
        if (!is(end) || !ended.includes(end.id)) continue;
        alterEffect(parts.effects, end.id, (row) => change(row, parts, there.get(end.id) ?? null));
      }
      return ended;
    },
  }));

const isA =
  (...events: readonly DeliveryEnd["event"][]) =>
  (end: DeliveryEnd) =>
    events.includes(end.event);

/** Ends that differ from those that were passed. */
const endsAs = (change: (end: DeliveryEnd, parts: Parts) => DeliveryEnd): Mistake =>
  outbox((parts) => ({ end: (ends) => parts.outbox.end(ends.map((end) => change(end, parts))) }));

/** Effects that are changed by `lose` when they are stored. */
const storedAs = (lose: (effect: OutboxEffect) => OutboxEffect): Mistake => ({
  effects: () => new MemoryEffects((effect) => lose(structuredClone(effect))),
});

class ReturningLast extends MemoryEffects {
  override put(row: EffectRow): EffectRow {
    const back = row.effect.state === "pending" && this.find(row.effect.id)?.leaseEndsAt != null;
    if (back) this.remove(row.effect.id);
    return super.put(row);
  }
}

class ById extends MemoryEffects {
  override all(): readonly EffectRow[] {
    return super.all().toSorted((left, right) => (left.effect.id < right.effect.id ? -1 : 1));
  }
}

type EffectsOf = (effects: readonly NewEffect[], parts: Parts) => readonly NewEffect[];

/** Commits with other effects than they were given. */
const committing = (where: "run" | "phase" | "last phase", change: EffectsOf): Mistake => ({
  transactions: (parts) =>
    where === "run"
      ? {
          run: (request, work) =>
            parts.support.run(request, async (open) => {
              const end = await work(open);
              return end.end === "commit" ? { ...end, effects: change(end.effects, parts) } : end;
            }),
        }
      : {
          phase: (request, work) =>
            parts.support.phase(request, async (open) => {
              const end = await work(open);
              if (end.end !== "commit" || (where === "last phase" && end.completes === null)) return end;
              return { ...end, effects: change(end.effects, parts) };
            }),
        },
});

/** An effect of a transaction or a phase that did not commit. */
function ghost({ effects, now }: Parts, recordId: string): void {
  const identity = { tenant: "t", scope: "s", key: "k", id: recordId, operation: "o" };
  const fingerprint = { version: 1, digest: new Uint8Array() };
  const life = {
    ...identity,
    fingerprint,
    principal: null,
    fence: { attempt: 1, token: "" },
    createdAt: now(),
  };
  const record: LatchkeyRecord = { ...life, state: "retryable", lastErrorCode: null };
  enqueue(effects, record, [newEffect()], now());
}

const ghosts: Mistake = {
  transactions: (parts) => {
    const orGhost = async <T extends { readonly kind: string }>(recordId: string, act: () => Promise<T>) => {
      try {
        const outcome = await act();
        if (outcome.kind !== "committed") ghost(parts, recordId);
        return outcome;
      } catch (error) {
        ghost(parts, recordId);
        throw error;
      }
    };
    return {
      run: (request, work) => orGhost(request.key.key, () => parts.support.run(request, work)),
      phase: (request, work) => orGhost(request.owner.id, () => parts.support.phase(request, work)),
    };
  },
};

type AnyDelivery = <T>(work: DeliveryWork<T>, request: DeliveryRequest, parts: Parts) => DeliveryWork<T>;

/** A delivery that ends differently than its work says. */
const delivering = (
  change: AnyDelivery,
  requested: (request: DeliveryRequest, parts: Parts) => DeliveryRequest = (request) => request,
): Mistake => ({
  transactions: (parts) => ({
    deliver: (request, work) => {
      // Evaluated when the delivery ends, as in the sound store.
      const late = {
        ...request,
        get claim() {
          return requested(request, parts).claim;
        },
        get keepMs() {
          return requested(request, parts).keepMs;
        },
      };
      return parts.support.deliver(late, async (open) => change(await work(open), request, parts));
    },
  }),
});

/** One more step after the sound store's delivery, whatever its result. */
const afterDelivery = (
  act: (parts: Parts, request: DeliveryRequest, kind: string, before: EffectRow | null) => void,
): Mistake => ({
  transactions: (parts) => ({
    async deliver(request, work) {
      const there = parts.effects.find(request.claim.id);
      const outcome = await parts.support.deliver(request, work);
      act(parts, request, outcome.kind, there);
      return outcome;
    },
  }),
});

/** Makes the claim of a delivery valid again. */
const reviving = (is: (row: EffectRow) => boolean): Mistake =>
  delivering(
    (work) => work,
    (request, { effects, now }) => {
      alterEffect(effects, request.claim.id, (row) =>
        is(row) ? { ...withEffect(row, { state: "started" }), leaseEndsAt: now() + 1 } : row,
      );
      return request;
    },
  );

/** Accepts answers of deliveries whose guard does not hold. */
const answeringAnyway = (is: (record: LatchkeyRecord, guardId: string) => boolean): Mistake =>
  delivering((work, _, { rows }) => {
    if (work.end !== "commit" || work.answers === null) return work;
    const { key, guard } = work.answers;
    const row = rows.find(key);
    if (row === null || !is(row.record, guard.id)) return work;
    const { tenant, scope, operation, fingerprint, principal, fence, createdAt, id } = row.record;
    const life = { tenant, scope, key: key.key, operation, fingerprint, principal, fence, createdAt, id };
    rows.put({ ...life, state: "retryable", lastErrorCode: null }, restored(row));
    return { ...work, answers: { ...work.answers, guard: { id, state: "retryable", fence } } };
  });

/** A cleaner that sees modified effects. */
const cleaningSeeing = (change: (parts: Parts) => (row: EffectRow) => EffectRow): Mistake =>
  store((parts) => ({
    clean: (limit) => seeing(parts.effects, change(parts), () => parts.inner.clean(limit)),
  }));

const forgetting = (state: EffectState): Mistake =>
  cleaningSeeing(() => (row) => (row.effect.state === state ? withEffect(row, { state: "delivered" }) : row));

class LossyRows extends MemoryRows {
  readonly #lose: (record: LatchkeyRecord) => RowChange;

  constructor(lose: (record: LatchkeyRecord) => RowChange) {
    super();
    this.#lose = lose;
  }

  override put<R extends LatchkeyRecord>(record: R, change: RowChange = {}): R {
    return super.put(record, { ...change, ...this.#lose(record) });
  }
}

/** Pending records that claims see modified. */
const pendingAs = (change: (record: LatchkeyRecord, parts: Parts) => LatchkeyRecord): Mistake =>
  store((parts) => ({
    claimPending(wants) {
      for (const { record } of parts.rows.all()) {
        if (record.state === "pending") alter(parts.rows, record, (there) => change(there, parts));
      }
      return parts.inner.claimPending(wants);
    },
  }));

/** Claimed attempts with one more change. */
const claimedAs = (change: (record: LatchkeyRecord, parts: Parts) => LatchkeyRecord): Mistake =>
  store((parts) => ({
    async claimPending(wants) {
      const claimed = await parts.inner.claimPending(wants);
      for (const record of claimed) alter(parts.rows, record, (there) => change(there, parts));
      return claimed.flatMap((record) => {
        const there = parts.rows.find(record)?.record;
        return there?.state === "in_progress" ? [there] : [];
      });
    },
  }));

const foundBy = (
  is: (record: LatchkeyRecord, tenant: string | null, id: string, addressable: boolean) => boolean,
): Mistake =>
  store(({ rows, now }) => ({
    readById: async (tenant, id) => {
      const row = rows.all().find(({ record, life }) => is(record, tenant, id, life.addressable));
      return { record: row?.record ?? null, now: now() };
    },
  }));

const utf8 = (bytes: Uint8Array) => new Uint8Array([...bytes, 0]);

/** Each mistake, and a case that must catch it. */
const mistakes: Readonly<Record<string, readonly [caughtBy: string, mistake: Mistake]>> = {
  "effects that do not depend on their transaction": [
    "enqueue: a transaction that has lost leaves nothing to deliver",
    ghosts,
  ],
  "repetitions that are refused": [
    "enqueue: a repeated transaction with effects is lost, and its effects are stored once",
    {
      transactions: ({ support }) => ({
        async run(request, work) {
          const outcome = await support.run(request, work);
          if (outcome.kind !== "lost") return outcome;
          return { ...outcome, kind: "refused", because: "other", error: new Error("It is there already") };
        },
      }),
    },
  ],
  "effects of phases that are not written": [
    "enqueue: an effect of a phase is stored with its record's identity, once the phase has committed",
    committing("phase", () => []),
  ],
  "effects of the last phase that are not written": [
    "enqueue: the last phase writes its effects and completes the attempt",
    committing("last phase", () => []),
  ],
  "effects of transactions that are not written": [
    "enqueue: an effect of a transaction is stored, complete and new, once the transaction has committed",
    committing("run", () => []),
  ],
  "only the first of many effects": [
    "enqueue: many effects of one transaction are all stored",
    committing("run", (effects) => effects.slice(0, 1)),
  ],
  "an effect for a transaction without any": [
    "enqueue: a transaction without effects leaves nothing to deliver",
    committing("run", (effects) => (effects.length === 0 ? [newEffect()] : effects)),
  ],
  "effects of the scope": [
    "enqueue: the operation is the record's, even if keys are unique per tenant",
    storedAs((effect) => ({ ...effect, operation: effect.scope })),
  ],
  "effects with their time in seconds": [
    "enqueue: an effect of a transaction is stored, complete and new, once the transaction has committed",
    storedAs((effect) => ({ ...effect, createdAt: effect.createdAt / 1000 })),
  ],
  "effects in the order of their ids": [
    "enqueue: effects of one life are in the order in which they were written, whatever their ids",
    { effects: () => new ById() },
  ],
  "a cursor over the ids": [
    "enqueue: an effect whose transaction commits late is found like any other",
    outbox(({ outbox: inner, effects }) => {
      let last = "";
      return {
        async claim(...given) {
          alterAll(effects, (row) => (row.effect.id < last ? { ...row, dueAt: Infinity } : row));
          const claimed = await inner.claim(...given);
          for (const { id } of claimed) last = id > last ? id : last;
          return claimed;
        },
      };
    }),
  ],
  "effects that go with their attempt": [
    "enqueue: an attempt that continues or ends keeps the effects it has enqueued",
    store(({ inner, effects }) => ({
      end(key, id, ...rest) {
        for (const { effect } of effects.all()) if (effect.recordId === id) effects.remove(effect.id);
        return inner.end(key, id, ...rest);
      },
    })),
  ],

  "claims of claimed effects": [
    "outbox claim: claims an effect under its own fence, changes nothing else, and hides it",
    before(
      "claim",
      () => (row) => (row.effect.state === "claimed" ? withEffect(row, { state: "pending" }) : row),
    ),
  ],
  "claims of dead leases": [
    "outbox claim: never a claimed effect, even after its lease, until it is rescued",
    before(
      "claim",
      ({ now }) =>
        (row) =>
          row.leaseEndsAt !== null && now() >= row.leaseEndsAt ? withEffect(row, { state: "pending" }) : row,
    ),
  ],
  "claims of dead effects": [
    "outbox claim: never an effect that is started, delivered or dead",
    before(
      "claim",
      () => (row) => (row.effect.state === "dead" ? withEffect(row, { state: "pending" }) : row),
    ),
  ],
  "claims of everything if nothing is wanted": [
    "outbox claim: claims nothing if nothing is wanted or due",
    outbox(({ outbox: inner, effects }) => ({
      claim: (wants, ...rest) =>
        inner.claim(
          wants.length > 0 ? wants : effects.all().map(({ effect: { effect } }) => ({ effect, limit: 9 })),
          ...rest,
        ),
    })),
  ],
  "claims of every definition": [
    "outbox claim: only of the definitions that are named",
    outbox(({ outbox: inner, effects }) => ({
      claim: (_, ...rest) => {
        const names = new Set(effects.all().map(({ effect }) => effect.effect));
        return inner.claim(
          [...names].map((effect) => ({ effect, limit: 100 })),
          ...rest,
        );
      },
    })),
  ],
  "one limit for all definitions": [
    "outbox claim: at most the limit of each definition",
    outbox(({ outbox: inner }) => ({
      claim: (wants, ...rest) => {
        const limit = wants.reduce((sum, want) => sum + want.limit, 0);
        return inner.claim(
          wants.map((want) => ({ ...want, limit })),
          ...rest,
        );
      },
    })),
  ],
  "claims in the order of writing": [
    "outbox claim: effects that are due first come first, whatever the order in which they were written",
    claimsSeeing(
      ({ now }) =>
        (row) =>
          now() >= row.dueAt ? { ...row, dueAt: 0 } : row,
    ),
  ],
  "claims ahead of time": [
    "outbox claim: never before an effect is due",
    claimsSeeing(() => (row) => ({ ...row, dueAt: 0 })),
  ],
  "claims a millisecond early": [
    "outbox claim: at the time that it is due, not a millisecond earlier",
    claimsSeeing(() => (row) => ({ ...row, dueAt: row.dueAt - 1 })),
  ],
  "claims that raise no attempt": [
    "outbox claim: each claim raises the attempt, under its own token",
    storedAs((effect) => ({
      ...effect,
      fence: { ...effect.fence, attempt: Math.min(1, effect.fence.attempt) },
    })),
  ],
  "claims that read first, then write": [
    "outbox claim: many at once claim each effect once",
    checksThenActs("claim"),
  ],
  "claims of the first tenant only": [
    "outbox claim: includes all tenants, and an effect behind another tenant's effects is claimed in turn",
    claimsSeeing(({ effects }) => {
      const first = effects.all()[0]?.effect.tenant;
      return (row) => (row.effect.tenant === first ? row : { ...row, dueAt: Infinity });
    }),
  ],
  "leases counted from the due time": [
    "outbox claim: the lease is counted from the claim, by the store's time",
    outbox(({ outbox: inner, effects }) => ({
      async claim(wants, token, leaseMs) {
        const claimed = await inner.claim(wants, token, leaseMs);
        for (const { id } of claimed)
          alterEffect(effects, id, (row) => ({ ...row, leaseEndsAt: row.dueAt + leaseMs }));
        return claimed;
      },
    })),
  ],
  "claims that lose the result": [
    "outbox claim: a stored result comes with the next claim",
    before("claim", () => (row) => withEffect(row, { result: null })),
  ],

  "claims that never start": [
    "outbox claim: a claim that starts counts a send, in doubt from now, and changes nothing else",
    outbox(({ outbox: inner }) => ({
      claim: (wants, ...rest) =>
        inner.claim(
          wants.map((want) => ({ ...want, starts: false })),
          ...rest,
        ),
    })),
  ],
  "claims that start effects in doubt": [
    "outbox claim: a claim that starts does not start an effect in doubt",
    claimsStarting(({ result }) => result === null),
  ],
  "claims that start effects with a result": [
    "outbox claim: a claim that starts does not start an effect that has its result",
    claimsStarting(({ doubtfulSince }) => doubtfulSince === null),
  ],
  "claims that start everything": [
    "outbox claim: starts only the definitions for which it is asked to",
    outbox(({ outbox: inner }) => ({
      claim: (wants, ...rest) =>
        inner.claim(
          wants.map((want) => ({ ...want, starts: wants.some(({ starts }) => starts) })),
          ...rest,
        ),
    })),
  ],

  "no order at all": [
    "outbox order: only the first effect of an aggregate is claimed, until it is delivered",
    seenAs(() => true, { ordered: false }),
  ],
  "an order of ids": [
    "outbox order: by the order of writing within one transaction, whatever their ids",
    { effects: () => new ById() },
  ],
  "an order among due effects only": [
    "outbox order: an effect that is not due yet blocks those behind it",
    claimsSeeing(
      ({ now }) =>
        (row) =>
          row.effect.state === "pending" && now() < row.dueAt ? withEffect(row, { ordered: false }) : row,
    ),
  ],
  "an order that a retried effect has lost": [
    "outbox order: an effect that waits to be retried blocks those behind it",
    seenAs(({ effect }) => effect.lastErrorCode !== null, { ordered: false }),
  ],
  "returning effects that go to the end": [
    "outbox order: an effect that was rescued after its send was begun stays ahead of those behind it",
    { effects: () => new ReturningLast() },
  ],
  "an order that skips dead effects": [
    "outbox order: a dead effect blocks those behind it, and is first again when it is redriven",
    seenAs(({ effect }) => effect.state === "dead", { ordered: false }),
  ],
  "an order that discarded effects block": [
    "outbox order: a dead effect blocks nothing after it is discarded",
    seenAs(({ effect }) => effect.state === "delivered" && effect.lastErrorCode !== null, { state: "dead" }),
  ],
  "one order for all aggregates": [
    "outbox order: different aggregates do not block each other",
    seenAs(() => true, { aggregate: "x" }),
  ],
  "an order without case": [
    "outbox order: different aggregates that differ in case do not block each other",
    claimsSeeing(() => (row) => withEffect(row, { aggregate: row.effect.aggregate?.toLowerCase() ?? null })),
  ],
  "an order without spaces": [
    "outbox order: different aggregates that differ in a space do not block each other",
    claimsSeeing(() => (row) => withEffect(row, { aggregate: row.effect.aggregate?.trim() ?? null })),
  ],
  "one order for all tenants": [
    "outbox order: different tenants do not block each other",
    seenAs(() => true, { tenant: "x" }),
  ],
  "an order of tenant and aggregate as one text": [
    "outbox order: different tenants and aggregates with separators do not block each other",
    claimsSeeing(
      () => (row) =>
        withEffect(row, { tenant: "x", aggregate: `${row.effect.tenant}:${row.effect.aggregate}` }),
    ),
  ],
  "one order for all definitions": [
    "outbox order: different definitions do not block each other",
    claimsSeeing(({ effects }) => (row) => {
      const { ordered, aggregate } = row.effect;
      const all = effects.all().filter(({ effect }) => effect.ordered && effect.state !== "delivered");
      const first = all.find(({ effect }) => effect.aggregate === aggregate);
      return ordered && first?.effect.id !== row.effect.id ? { ...row, dueAt: Infinity } : row;
    }),
  ],
  "an order for all that have an aggregate": [
    "outbox order: effects that are not ordered share an aggregate without waiting for each other",
    seenAs(({ effect }) => effect.aggregate !== null, { ordered: true }),
  ],
  "an order that two callers may read at once": [
    "outbox order: many claims at once never claim two effects of one aggregate",
    checksThenActs("claim"),
  ],
  "an order that effects being delivered do not block": [
    "outbox order: many claims while the first effect is being delivered never claim one behind the next",
    seenAs(({ leaseEndsAt }) => leaseEndsAt !== null, { ordered: false }),
  ],

  "sends that are not in doubt": [
    "outbox start: counts one more send, in doubt from now, and changes nothing else",
    storedAs((effect) => ({ ...effect, doubtfulSince: null })),
  ],
  "sends that are counted for each reply": [
    "outbox start: many repetitions at once count one send",
    before(
      "start",
      () => (row) =>
        row.effect.state === "started" ? withEffect(row, { sends: row.effect.sends + 1 }) : row,
    ),
  ],
  "starts that return true only once": [
    "outbox start: repeating it, as after a lost reply, returns the same and changes nothing",
    outbox(({ outbox: inner, effects }) => ({
      start: (claims, leaseMs) =>
        inner.start(
          claims.filter(({ id }) => effects.find(id)?.effect.state === "claimed"),
          leaseMs,
        ),
    })),
  ],
  "starts by the id alone": ["outbox start: refused under the previous claim", startsBy(anyFence)],
  "starts by the number alone": ["outbox start: refused to anyone but the claim", startsBy(anyToken)],
  "starts by the token alone": ["outbox start: refused to anyone but the claim", startsBy(anyNumber)],
  "starts without a claim": [
    "outbox start: refused for an effect without a claim",
    outbox(({ outbox: inner, effects, now }) => ({
      start(claims, leaseMs) {
        for (const { id, fence } of claims) {
          alterEffect(effects, id, (row) =>
            row.effect.fence.attempt === 0
              ? { ...withEffect(row, { state: "claimed", fence }), leaseEndsAt: now() + leaseMs }
              : row,
          );
        }
        return inner.start(claims, leaseMs);
      },
    })),
  ],
  "starts after the lease": [
    "outbox start: refused after the lease, whether or not the claim was rescued",
    before(
      "start",
      ({ now }) =>
        (row) =>
          row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: now() + 1 },
    ),
  ],
  "starts after the lease of a send": [
    "outbox start: a repetition is refused after the lease of the start itself",
    before(
      "start",
      ({ now }) =>
        (row) =>
          row.effect.state === "started" ? { ...row, leaseEndsAt: now() + 1 } : row,
    ),
  ],
  "starts at the end of the lease": [
    "outbox start: accepted until the lease ends, and refused at its end",
    before(
      "start",
      () => (row) => (row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: row.leaseEndsAt + 1 }),
    ),
  ],
  "starts that leave the lease": [
    "outbox start: extends the lease from now",
    outbox(({ outbox: inner, effects }) => ({
      async start(claims, leaseMs) {
        const leases = new Map(claims.map(({ id }) => [id, effects.find(id)?.leaseEndsAt ?? null]));
        const started = await inner.start(claims, leaseMs);
        for (const id of started)
          alterEffect(effects, id, (row) => ({ ...row, leaseEndsAt: leases.get(id) ?? null }));
        return started;
      },
    })),
  ],
  "a doubt that begins with the last send": [
    "outbox start: a second send keeps the time since which the first is in doubt",
    before(
      "start",
      () => (row) => (row.effect.state === "claimed" ? withEffect(row, { doubtfulSince: null }) : row),
    ),
  ],
  "a doubt that never ends": [
    "outbox start: after sends that have not happened, the doubt begins again",
    endsAs((end) => (end.event === "retry" ? { ...end, doubtful: true } : end)),
  ],
  "starts after any end": [
    "outbox start: refused after give_back",
    before(
      "start",
      ({ now }) =>
        (row) =>
          row.endedBy === null ? row : { ...withEffect(row, { state: "claimed" }), leaseEndsAt: now() + 1 },
    ),
  ],
  "starts of all or none": [
    "outbox start: many claims in one call, each independent of the others",
    outbox(({ outbox: inner }) => ({
      async start(claims, leaseMs) {
        const started = await inner.start(claims, leaseMs);
        return started.length === claims.length ? started : [];
      },
    })),
  ],

  "ends that count a send": [
    "outbox end: give_back changes the fields of that event, and nothing else",
    afterEnd(
      () => true,
      (row) => withEffect(row, { sends: row.effect.sends + 1 }),
    ),
  ],
  "deliveries without their results": [
    "outbox end: deliver changes the fields of that event, and nothing else",
    endsAs((end) => (end.event === "deliver" ? { ...end, result: null } : end)),
  ],
  "a retry without its code": [
    "outbox end: retry changes the fields of that event, and nothing else",
    afterEnd(isA("retry"), (row) => withEffect(row, { lastErrorCode: null })),
  ],
  "the same generation again": [
    "outbox end: a reopened effect is due at once, each time under another key and generation",
    afterEnd(isA("reopen"), (row) => withEffect(row, { generation: 1 })),
  ],
  "a death without its time": [
    "outbox end: die changes the fields of that event, and nothing else",
    afterEnd(isA("die"), (row) => withEffect(row, { finishedAt: null })),
  ],
  "results that count a return each time": [
    "outbox end: repeating keep_result, as after a lost reply, returns the same and changes nothing",
    afterEnd(isA("keep_result"), (row, _, there) =>
      withEffect(row, { returns: (there?.effect.returns ?? 0) + 1 }),
    ),
  ],
  "ends that return true only once": [
    "outbox end: repeating retry, as after a lost reply, returns the same and changes nothing",
    outbox(({ outbox: inner, effects }) => ({
      end: (ends) => inner.end(ends.filter(({ id }) => effects.find(id)?.leaseEndsAt !== null)),
    })),
  ],
  "ends by the id alone": [
    "outbox end: deliver is refused without a claim, and under the previous claim",
    endsBy(anyFence),
  ],
  "ends by the number alone": ["outbox end: retry is refused to anyone but the claim", endsBy(anyToken)],
  "ends by the token alone": ["outbox end: die is refused to anyone but the claim", endsBy(anyNumber)],
  "ends that insist on the lease": [
    "outbox end: deliver is accepted after the lease has ended, until the claim is rescued",
    outbox(({ outbox: inner, effects, now }) => ({
      end: (ends) => inner.end(ends.filter(({ id }) => now() < (effects.find(id)?.leaseEndsAt ?? Infinity))),
    })),
  ],
  "ends after a rescue": [
    "outbox end: retry is accepted after the lease has ended, until the claim is rescued",
    before(
      "end",
      ({ now }) =>
        (row) =>
          row.effect.fence.attempt > 0 && row.leaseEndsAt === null && row.endedBy === null
            ? { ...withEffect(row, { state: "claimed" }), leaseEndsAt: now() + 1 }
            : row,
    ),
  ],
  "ends after any other": [
    "outbox end: die is refused after deliver",
    before(
      "end",
      ({ now }) =>
        (row) =>
          row.endedBy === null
            ? row
            : {
                ...withEffect(row, { state: "claimed" }),
                leaseEndsAt: now() + 1,
                removeAt: null,
                endedBy: null,
              },
    ),
  ],
  "returns counted whatever the end says": [
    "outbox end: retry counts a send as returned only if it says so",
    endsAs((end) => ("returned" in end ? { ...end, returned: true } : end)),
  ],
  "returns that are counted twice": [
    "outbox end: a send whose result was stored is counted as returned once",
    afterEnd(isA("deliver", "retry", "die"), (row, _, there) =>
      withEffect(row, { returns: (there?.effect.returns ?? 0) + 1 }),
    ),
  ],
  "returns of effects that were not sent": [
    "outbox end: a result that was found without a send counts no return",
    afterEnd(isA("deliver", "keep_result"), (row, _, there) =>
      withEffect(row, { returns: (there?.effect.returns ?? 0) + 1 }),
    ),
  ],
  "an empty result in place of none": [
    "outbox end: a delivery without a result has none",
    endsAs((end) => (end.event === "deliver" ? { ...end, result: end.result ?? new Uint8Array() } : end)),
  ],
  "no result in place of an empty one": [
    "outbox end: an empty result is a result",
    storedAs((effect) => ({ ...effect, result: effect.result?.length === 0 ? null : effect.result })),
  ],
  "a result that renews the lease": [
    "outbox end: keep_result leaves the claim and its lease unchanged",
    afterEnd(isA("keep_result"), (row, { now }) => ({ ...row, leaseEndsAt: now() + hour })),
  ],
  "a retry at once": [
    "outbox end: a retry is due after its time, even if it is repeated",
    endsAs((end) => (end.event === "retry" ? { ...end, afterMs: 0 } : end)),
  ],
  "no doubt after a retry": [
    "outbox end: a retry keeps the doubt or proves that there is none",
    endsAs((end) => (end.event === "retry" ? { ...end, doubtful: false } : end)),
  ],
  "effects that are given back go to the end": [
    "outbox end: an effect that is given back is due as before",
    afterEnd(isA("give_back"), (row, { now }) => ({ ...row, dueAt: now() })),
  ],
  "sends that were not made and still count": [
    "outbox end: an effect that a claim has started and not sent is given back unchanged",
    afterEnd(isA("give_back"), (row, _, there) =>
      there?.effect.state === "started" ? withEffect(row, { sends: row.effect.sends + 1 }) : row,
    ),
  ],
  "a doubt that is lost with a send that was not made": [
    "outbox end: a start without a send is given back, with the doubt from before it",
    endsAs((end) => (end.event === "give_back" ? { ...end, doubtful: false } : end)),
  ],
  "a doubt left by a send that was not made": [
    "outbox end: a start without a send is given back without doubt, if there was none before",
    endsAs((end) => (end.event === "give_back" ? { ...end, doubtful: true } : end)),
  ],
  "sends that only a give_back takes back": [
    "outbox end: a send that a claim began and that was not made counts for nothing, however the claim ends",
    endsAs((end) => (end.event === "die" ? { ...end, unsent: false } : end)),
  ],
  "sends that were not counted and are taken back": [
    "outbox end: an effect that was not started is given back unchanged, whatever the end says about a send",
    afterEnd(
      (end) => end.event === "give_back" && end.unsent === true,
      (row, _, there) =>
        there?.effect.state === "claimed" ? withEffect(row, { sends: row.effect.sends - 1 }) : row,
    ),
  ],
  "sends that are given back": [
    "outbox end: an effect whose send was begun cannot be given back",
    outbox(({ outbox: inner, effects }) => ({
      end(ends) {
        for (const { id, event } of ends) {
          if (event === "give_back")
            alterEffect(effects, id, (row) =>
              row.effect.state === "started" ? withEffect(row, { state: "claimed" }) : row,
            );
        }
        return inner.end(ends);
      },
    })),
  ],
  "one end that stops the others": [
    "outbox end: many ends of all kinds in one call, each independent of the others",
    outbox(({ outbox: inner }) => ({
      async end(ends) {
        const [first, ...rest] = ends;
        const ended = first === undefined ? [] : await inner.end([first]);
        return ended.length === 0 ? [] : [...ended, ...(await inner.end(rest))];
      },
    })),
  ],
  "ends that read first, then write": [
    "outbox end: of two different ends at once exactly one is written",
    checksThenActs("end"),
  ],
  "ends that yield to others": [
    "outbox end: concurrent ends of effects of different claims are all written",
    outbox(({ outbox: inner }) => {
      let busy = false;
      return {
        async end(ends) {
          if (busy) return [];
          busy = true;
          await otherTurn();
          busy = false;
          return inner.end(ends);
        },
      };
    }),
  ],
  "returns that each claim counts again": [
    "outbox end: a further send after a retry is ended under its own claim",
    before("claim", () => (row) => withEffect(row, { returns: 0 })),
  ],

  "rescues of running claims": [
    "outbox rescue: an effect that was claimed and not sent is free again, unchanged",
    before(
      "rescue",
      ({ now }) =>
        (row) =>
          row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: now() },
    ),
  ],
  "rescues that end the doubt": [
    "outbox rescue: an effect whose send was begun is due at once, and in doubt",
    before("rescue", () => (row) => withEffect(row, { doubtfulSince: null })),
  ],
  "rescues a millisecond early": [
    "outbox rescue: at the end of the lease, not a millisecond earlier",
    before(
      "rescue",
      () => (row) => (row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: row.leaseEndsAt - 1 }),
    ),
  ],
  "rescues of dead effects": [
    "outbox rescue: leaves effects without a claim, however old they are",
    before("rescue", () => (row) => (row.effect.state === "dead" ? { ...row, leaseEndsAt: 0 } : row)),
  ],
  "rescues without a limit": [
    "outbox rescue: at most `limit`, oldest first",
    outbox(({ outbox: inner }) => ({ rescue: () => inner.rescue(1_000) })),
  ],
  "rescues of the newest": [
    "outbox rescue: at most `limit`, oldest first",
    outbox(({ outbox: inner, effects, now }) => ({
      rescue: (limit) =>
        seeing(
          effects,
          (row) =>
            row.leaseEndsAt !== null && now() >= row.leaseEndsAt
              ? { ...row, leaseEndsAt: 2 * now() - row.leaseEndsAt - now() }
              : row,
          () => inner.rescue(limit),
        ),
    })),
  ],
  "rescues of one kind": [
    "outbox rescue: covers every definition and both kinds of claims at once",
    outbox(({ outbox: inner }) => ({
      async rescue(limit) {
        const { unstarted, started } = await inner.rescue(limit);
        return { unstarted: unstarted + started, started: 0 };
      },
    })),
  ],
  "leases of one length": [
    "outbox rescue: leases of different lengths end each at its own time",
    outbox(({ outbox: inner }) => ({ claim: (wants, token) => inner.claim(wants, token, 10 * minute) })),
  ],
  "rescues that read first, then count": [
    "outbox rescue: many at once release each claim once",
    checksThenActs("rescue"),
  ],
  "rescues that read first, then release": [
    "outbox rescue: a rescue and the end of its send at once leave the state that was returned",
    checksThenActs("rescue"),
  ],
  "rescues that lose the result": [
    "outbox rescue: a stored result stays",
    before("rescue", () => (row) => withEffect(row, { result: null })),
  ],
  "rescues of claims that were rescued before": [
    "outbox rescue: an effect that has been claimed again since is left alone",
    outbox(({ outbox: inner, effects, now }) => {
      const known = new Set<string>();
      return {
        rescue(limit) {
          for (const { effect, leaseEndsAt } of effects.all()) {
            if (known.has(effect.id))
              alterEffect(effects, effect.id, (row) => ({ ...row, leaseEndsAt: now() }));
            if (leaseEndsAt !== null && now() >= leaseEndsAt) known.add(effect.id);
          }
          return inner.rescue(limit);
        },
      };
    }),
  ],

  "a list of every state": [
    "outbox list: the effects in one state, as they are stored",
    outbox(({ effects }) => ({ list: async () => effects.all().map(({ effect }) => effect) })),
  ],
  "a list of all tenants": [
    "outbox list: of one tenant, of one definition, or of both",
    outbox(({ outbox: inner }) => ({ list: (filter) => inner.list({ ...filter, tenant: null }) })),
  ],
  "a list newest first": [
    "outbox list: oldest first, page by page, none twice and none missing",
    outbox(({ outbox: inner }) => ({ list: async (filter) => [...(await inner.list(filter))].reverse() })),
  ],
  "a list whose pages continue by time only": [
    "outbox list: effects of the same time are ordered by their ids",
    outbox(({ outbox: inner }) => ({
      list: ({ after, ...filter }) => inner.list({ ...filter, after: after && { ...after, id: "~" } }),
    })),
  ],
  "effects of every life": [
    "outbox list: the effects of one life only, and none for a life that does not exist",
    outbox(({ effects }) => ({ ofRecord: async () => effects.all().map(({ effect }) => effect) })),
  ],
  "delivered effects listed last": [
    "outbox list: the effects of one life in the order of writing, in every state",
    outbox(({ outbox: inner }) => ({
      ofRecord: async (id) =>
        (await inner.ofRecord(id)).toSorted(
          (left, right) => Number(left.state === "delivered") - Number(right.state === "delivered"),
        ),
    })),
  ],
  "effects that are returned without a copy": [
    "outbox list: changing a value that was passed in or returned does not change the effect",
    { effects: () => new MemoryEffects((effect) => effect) },
  ],
  "effects that are removed with their record": [
    "outbox list: a delivered effect outlives its record for its retention",
    store(({ inner, effects, rows }) => ({
      async clean(limit) {
        const report = await inner.clean(limit);
        const records = new Set(rows.all().map(({ record }) => record.id));
        for (const { effect } of effects.all()) if (!records.has(effect.recordId)) effects.remove(effect.id);
        return report;
      },
    })),
  ],

  "confirmations that lose the result": [
    "outbox confirm: an effect that is pending becomes due with the result, and gets an audit row",
    outbox(({ outbox: inner, effects }) => ({
      async confirm(given, note) {
        const confirmed = await inner.confirm(given, note);
        if (confirmed) alterEffect(effects, given.id, (row) => withEffect(row, { result: null }));
        return confirmed;
      },
    })),
  ],
  "confirmations that leave dead effects dead": [
    "outbox confirm: an effect that is dead becomes due with the result, and gets an audit row",
    outbox(({ outbox: inner, effects }) => ({
      async confirm(given, note) {
        const was = effects.find(given.id)?.effect.state;
        const confirmed = await inner.confirm(given, note);
        if (was === "dead") alterEffect(effects, given.id, (row) => withEffect(row, { state: was }));
        return confirmed;
      },
    })),
  ],
  "confirmations that leave the claim": [
    "outbox confirm: an effect that is claimed becomes due with the result, and gets an audit row",
    outbox(({ outbox: inner, effects }) => ({
      async confirm(given, note) {
        const was = effects.find(given.id);
        const confirmed = await inner.confirm(given, note);
        if (confirmed && was?.effect.state === "claimed") effects.put(was);
        return confirmed;
      },
    })),
  ],
  "confirmations that take a send's claim": [
    "outbox confirm: an effect that is being sent keeps its claim; the result stays if the send ends in a retry",
    outbox(({ outbox: inner, effects }) => ({
      async confirm(given, note) {
        alterEffect(effects, given.id, (row) =>
          row.effect.state === "started" ? withEffect(row, { state: "claimed" }) : row,
        );
        return inner.confirm(given, note);
      },
    })),
  ],
  "confirmations that count a send's return once more": [
    "outbox confirm: an effect that is being sent and returns ends with its own result",
    outbox(({ outbox: inner, effects }) => ({
      async confirm(given, note) {
        const confirmed = await inner.confirm(given, note);
        alterEffect(effects, given.id, (row) => withEffect(row, { returns: row.effect.returns + 1 }));
        return confirmed;
      },
    })),
  ],
  "confirmations of every generation": [
    "outbox confirm: refused for an effect that is delivered, has a result, is of another generation or does not exist",
    outbox(({ outbox: inner, effects }) => ({
      confirm: ({ id, generation, result }, note) =>
        inner.confirm({ id, generation: effects.find(id)?.effect.generation ?? generation, result }, note),
    })),
  ],
  "confirmations that read first, then write": [
    "outbox confirm: of many confirmations at once exactly one is written",
    checksThenActs("confirm"),
  ],
  "ends that a decision makes the store forget": [
    "outbox decide: after discard, repeating the end before it returns the same and changes nothing",
    outbox(({ outbox: inner, effects }) => ({
      async decide(id, ...rest) {
        const decided = await inner.decide(id, ...rest);
        if (decided) alterEffect(effects, id, (row) => ({ ...row, endedBy: null }));
        return decided;
      },
    })),
  ],
  "a redrive that keeps its counts": [
    "outbox decide: a redriven effect is due at once, with its sends counted from zero, with or without the doubt",
    outbox(({ outbox: inner, effects }) => ({
      async decide(id, decision, note) {
        const there = effects.find(id)?.effect;
        const decided = await inner.decide(id, decision, note);
        if (decided && there !== undefined) {
          alterEffect(effects, id, (row) => withEffect(row, { sends: there.sends, returns: there.returns }));
        }
        return decided;
      },
    })),
  ],
  "a redrive that keeps the doubt": [
    "outbox decide: a redriven effect is due at once, with its sends counted from zero, with or without the doubt",
    outbox(({ outbox: inner }) => ({
      decide: (id, decision, note) =>
        inner.decide(id, decision.event === "redrive" ? { ...decision, doubt: "kept" } : decision, note),
    })),
  ],
  "a redrive that loses the result": [
    "outbox decide: a redriven effect keeps its result",
    outbox(({ outbox: inner, effects }) => ({
      async decide(id, ...rest) {
        const decided = await inner.decide(id, ...rest);
        if (decided) alterEffect(effects, id, (row) => withEffect(row, { result: null }));
        return decided;
      },
    })),
  ],
  "a discarded effect that is kept for ever": [
    "outbox decide: a discarded effect counts as delivered now, and is kept for its retention",
    outbox(({ outbox: inner }) => ({
      decide: (id, decision, note) =>
        inner.decide(id, decision.event === "discard" ? { ...decision, keepMs: Infinity } : decision, note),
    })),
  ],
  "decisions about effects that are not dead": [
    "outbox decide: refused for an effect that is delivered",
    outbox(({ outbox: inner, effects }) => ({
      decide(id, ...rest) {
        alterEffect(effects, id, (row) => withEffect(row, { state: "dead" }));
        return inner.decide(id, ...rest);
      },
    })),
  ],
  "decisions about any death": [
    "outbox decide: discard with its attempt, about an earlier death, is refused",
    outbox(({ outbox: inner, effects }) => ({
      decide(id, decision, note) {
        const attempt = effects.find(id)?.effect.fence.attempt ?? null;
        return inner.decide(id, { ...decision, attempt: decision.attempt && attempt }, note);
      },
    })),
  ],
  "decisions about any death, if none is named": [
    "outbox decide: redrive with the doubt without an attempt, about an earlier death, is refused",
    outbox(({ outbox: inner, effects }) => ({
      decide(id, decision, note) {
        const attempt = decision.attempt ?? effects.find(id)?.effect.fence.attempt ?? null;
        return inner.decide(id, { ...decision, attempt }, note);
      },
    })),
  ],
  "a first death of an effect that was confirmed while it was dead": [
    "outbox decide: without an attempt, a decision about an effect that a confirmation has revived since is refused",
    outbox(({ outbox: inner, effects, audit }) => ({
      decide(id, decision, note) {
        const redriven = audit.some(({ effectId, event }) => effectId === id && event !== "confirm");
        const attempt = decision.attempt ?? effects.find(id)?.effect.fence.attempt ?? null;
        return inner.decide(id, redriven ? decision : { ...decision, attempt }, note);
      },
    })),
  ],
  "a ledger by keys alone": [
    "outbox ledger: by downstream key, only effects that have the key now, in any state",
    outbox(({ effects }) => ({
      async byDownstreamKey(keys) {
        const wanted = new Set(keys.map(({ downstreamKey }) => downstreamKey));
        return effects
          .all()
          .map(({ effect }) => effect)
          .filter(({ downstreamKey }) => wanted.has(downstreamKey));
      },
    })),
  ],
  "a ledger without its second page": [
    "outbox ledger: the delivered effects of one definition, from the first time, inclusive, to the second, exclusive, page by page",
    outbox(({ outbox: inner }) => ({
      finished: async (query) => (query.after === null ? ((await inner.finished?.(query)) ?? []) : []),
    })),
  ],
  "a ledger without discarded effects": [
    "outbox ledger: an effect that a person has discarded has no result",
    outbox(({ outbox: inner }) => ({
      finished: async (query) =>
        ((await inner.finished?.(query)) ?? []).filter(({ result }) => result !== null),
    })),
  ],
  "decisions about effects that do not exist": [
    "outbox decide: refused for an effect that does not exist",
    outbox(({ outbox: inner, effects }) => ({
      decide: async (id, ...rest) => effects.find(id) === null || inner.decide(id, ...rest),
    })),
  ],
  "decisions that return true only once": [
    "outbox decide: repeating discard, as after a lost reply, is true and changes nothing",
    outbox(({ outbox: inner }) => ({
      decide: (id, decision, note) => inner.decide(id, decision, { ...note, id: newId() }),
    })),
  ],
  "decisions that are applied again": [
    "outbox decide: a repetition does not redrive an effect that has died again since",
    outbox(({ outbox: inner, audit }) => ({
      async decide(id, decision, note) {
        const known = audit.some((entry) => entry.id === note.id);
        return (await inner.decide(id, decision, { ...note, id: newId() })) || known;
      },
    })),
  ],
  "decisions by the audit id alone": [
    "outbox decide: the audit id of a decision about another effect decides nothing",
    outbox(({ outbox: inner, audit }) => ({
      async decide(id, decision, note) {
        const known = audit.some((entry) => entry.id === note.id);
        return known || inner.decide(id, decision, note);
      },
    })),
  ],
  "decisions without an audit row": [
    "outbox decide: its audit row records the decision and the effect",
    settlement(({ inner }) => ({
      audit: async (key) => (await inner.settlement.audit(key)).filter(({ effectId }) => effectId === null),
    })),
  ],
  "decisions that read first, then write": [
    "outbox decide: of many decisions at once exactly one is written",
    checksThenActs("decide"),
  ],
  "decisions that need a reason": [
    "outbox decide: with and without a reason",
    outbox(({ outbox: inner }) => ({
      decide: async (id, decision, note) => Boolean(note.reason) && inner.decide(id, decision, note),
    })),
  ],

  "delivered effects that stay for ever": [
    "outbox cleaning: a delivered effect goes when its retention is over, and not before",
    cleaningSeeing(() => (row) => ({ ...row, removeAt: row.removeAt && Infinity })),
  ],
  "delivered effects that go at once": [
    "outbox cleaning: a delivered effect goes when its retention is over, and not before",
    cleaningSeeing(() => (row) => ({ ...row, removeAt: row.removeAt && 0 })),
  ],
  "delivered effects that go a millisecond early": [
    "outbox cleaning: at the end of its retention, not a millisecond earlier",
    cleaningSeeing(() => (row) => ({ ...row, removeAt: row.removeAt && row.removeAt - 1 })),
  ],
  "deliveries that are kept longer each time": [
    "outbox cleaning: repeating a delivery does not keep the effect longer",
    outbox(({ outbox: inner, effects, now }) => ({
      async end(ends) {
        const ended = await inner.end(ends);
        for (const end of ends) {
          if (end.event === "deliver")
            alterEffect(effects, end.id, (row) => ({ ...row, removeAt: now() + end.keepMs }));
        }
        return ended;
      },
    })),
  ],
  "cleaning that forgets records of pending effects": [
    "outbox cleaning: a record with an effect that is pending is not forgotten, and the effect stays, however old they are",
    forgetting("pending"),
  ],
  "cleaning that forgets records of claimed effects": [
    "outbox cleaning: a record with an effect that is claimed is not forgotten, and the effect stays, however old they are",
    forgetting("claimed"),
  ],
  "cleaning that forgets records of started effects": [
    "outbox cleaning: a record with an effect that is started is not forgotten, and the effect stays, however old they are",
    forgetting("started"),
  ],
  "cleaning that forgets records of dead effects": [
    "outbox cleaning: a record with an effect that is dead is not forgotten, and the effect stays, however old they are",
    forgetting("dead"),
  ],
  "answers that wait with their key": [
    "outbox cleaning: an answer whose retention ends with the key's is purged while the key waits for an effect",
    store(({ inner, rows }) => ({
      async clean(limit) {
        const there = rows.all();
        const report = await inner.clean(limit);
        for (const row of there) {
          const goesWithKey = "expiresAt" in row.record && "forgetAt" in row.record;
          if (!goesWithKey || row.record.expiresAt !== row.record.forgetAt) continue;
          if (rows.find(row.record)?.record.state === "expired") rows.put(row.record, restored(row));
        }
        return report;
      },
    })),
  ],
  "records that wait for delivered effects to be removed": [
    "outbox cleaning: a record is forgotten once its last effect is delivered or discarded",
    cleaningSeeing(
      () => (row) => (row.effect.state === "delivered" ? withEffect(row, { state: "dead" }) : row),
    ),
  ],
  "waiting records that count towards the limit": [
    "outbox cleaning: records that wait for their effects do not block others",
    store(({ inner, rows, effects, now }) => ({
      async clean(limit) {
        const held = rows.all().filter(({ record }) => {
          const over = "forgetAt" in record && now() >= record.forgetAt;
          return (
            over &&
            effects.all().some(({ effect }) => effect.recordId === record.id && effect.state !== "delivered")
          );
        });
        const there = rows.all();
        const report = await inner.clean(limit);
        if (held.length < limit) return report;
        for (const row of there) if (rows.find(row.record) === null) rows.put(row.record, restored(row));
        return { ...report, forgotten: 0 };
      },
    })),
  ],
  "cleaning of effects without a limit": [
    "outbox cleaning: at most `limit` effects at a time",
    store(({ inner }) => ({
      async clean(limit) {
        const report = await inner.clean(limit);
        let { effects } = report;
        for (let more = effects; more > 0; effects += more) more = (await inner.clean(limit)).effects;
        return { ...report, effects };
      },
    })),
  ],
  "cleaners that count what they read": [
    "outbox cleaning: many cleaners at once count each effect once",
    store(({ inner, effects, now }) => ({
      async clean(limit) {
        const over = effects.all().filter(({ removeAt }) => removeAt !== null && now() >= removeAt);
        await otherTurn();
        return { ...(await inner.clean(limit)), effects: over.length };
      },
    })),
  ],
  "records that are removed with their effects": [
    "outbox cleaning: a record whose retention is not over stays when its effects go",
    store(({ inner, effects, rows }) => ({
      async clean(limit) {
        const there = new Set(effects.all().map(({ effect }) => effect.recordId));
        const report = await inner.clean(limit);
        const left = new Set(effects.all().map(({ effect }) => effect.recordId));
        for (const { record } of rows.all())
          if (there.has(record.id) && !left.has(record.id)) rows.remove(record);
        return report;
      },
    })),
  ],
  "effects that a new life replaces": [
    "outbox cleaning: an effect is delivered even if a new life has replaced its record",
    store(({ inner, effects }) => ({
      create(life, replaces, terms) {
        for (const { effect } of effects.all())
          if (effect.recordId === replaces?.id) effects.remove(effect.id);
        return inner.create(life, replaces, terms);
      },
    })),
  ],
  "records blocked by another tenant's effects": [
    "outbox cleaning: effects of other records block nothing, not even those of the same key in another tenant",
    store(({ inner, effects, rows }) => ({
      async clean(limit) {
        const there = rows.all();
        const report = await inner.clean(limit);
        const held = new Set(
          effects.all().flatMap(({ effect }) => (effect.state === "delivered" ? [] : [effect.key])),
        );
        let { forgotten } = report;
        for (const row of there) {
          if (rows.find(row.record) !== null || !held.has(row.record.key)) continue;
          rows.put(row.record, restored(row));
          forgotten -= 1;
        }
        return { ...report, forgotten };
      },
    })),
  ],

  "bytes that are cut": [
    "effect bytes: an input and a result of no bytes come back unchanged",
    {
      ...committing("run", (effects) => effects.map((effect) => ({ ...effect, input: utf8(effect.input) }))),
    },
  ],
  "texts that are cut": [
    "effect bytes: SQL in names, keys and codes come back unchanged",
    endsAs((end) => (end.event === "retry" ? { ...end, errorCode: `${end.errorCode} ` } : end)),
  ],
  "no aggregate in place of an empty one": [
    "effect bytes: no aggregate and an empty one are different",
    storedAs((effect) => ({ ...effect, aggregate: effect.aggregate || null })),
  ],
  "tokens that are compared as numbers": [
    "effect bytes: tokens that differ in one digit are different, even beyond the precision of a number",
    endsBy((given, there) => (Number(`0x${given.token}`) === Number(`0x${there.token}`) ? there : given)),
  ],

  "deliveries that are not written": [
    "deliver: commits its rows, and the delivery with the result that was stored",
    afterDelivery(({ effects }, _, __, there) => {
      if (there !== null) effects.put(there);
    }),
  ],
  "deliveries without the result": [
    "deliver: commits its rows, and the delivery with the result that was stored",
    afterDelivery(({ effects }, { claim }, kind) => {
      if (kind === "committed") alterEffect(effects, claim.id, (row) => withEffect(row, { result: null }));
    }),
  ],
  "deliveries that count a return": [
    "deliver: an effect whose result was stored under an earlier claim needs no send",
    afterDelivery(({ effects }, { claim }, kind) => {
      if (kind === "committed") {
        alterEffect(effects, claim.id, (row) => withEffect(row, { returns: row.effect.returns + 1 }));
      }
    }),
  ],
  "deliveries that always commit": [
    "deliver: rollback leaves neither rows nor a delivery",
    delivering((work) =>
      work.end === "commit" ? work : { end: "commit", value: work.value, answers: null },
    ),
  ],
  "abandoned deliveries that roll back": [
    "deliver: abandon leaves neither rows nor a delivery",
    afterDelivery(({ effects }, { claim }, kind) => {
      if (kind === "rolled_back") {
        alterEffect(effects, claim.id, (row) => ({
          ...withEffect(row, { state: "pending" }),
          leaseEndsAt: null,
        }));
      }
    }),
  ],
  "failures that deliver": [
    "deliver: rethrows the work's error, after everything was rolled back",
    {
      transactions: ({ support, tables }) => ({
        deliver: (request, work) =>
          support.deliver(request, (open) =>
            work(open).catch(async (error) => {
              for (const row of await open.tx.rows("rows")) tables.add([{ table: "rows", row }]);
              throw error;
            }),
          ),
      }),
    },
  ],
  "deliveries by the id alone": [
    "deliver: lost to anyone but the claim, and leaves no row",
    delivering(
      (work) => work,
      (request, { effects }) => ({ ...request, claim: refenced(effects, request.claim, anyFence) }),
    ),
  ],
  "deliveries by the number alone": [
    "deliver: lost to anyone but the claim, and leaves no row",
    delivering(
      (work) => work,
      (request, { effects }) => ({ ...request, claim: refenced(effects, request.claim, anyToken) }),
    ),
  ],
  "deliveries after any end": [
    "deliver: a second time is lost, and leaves no row",
    reviving(({ endedBy }) => endedBy !== null),
  ],
  "deliveries after a rescue": [
    "deliver: a delivery whose claim is rescued while it is open is lost, and leaves no row",
    reviving(
      ({ endedBy, leaseEndsAt, effect }) =>
        effect.state === "pending" && endedBy === null && leaseEndsAt === null,
    ),
  ],
  "deliveries that insist on the lease": [
    "deliver: accepted after the lease has ended, until the claim is rescued",
    delivering(
      (work) => work,
      (request, { effects, now }) => {
        const ended = now() >= (effects.find(request.claim.id)?.leaseEndsAt ?? Infinity);
        return ended ? { ...request, claim: { ...request.claim, id: newId() } } : request;
      },
    ),
  ],
  "deliveries that must use the transaction": [
    "deliver: work that never used `tx` commits the delivery",
    {
      transactions: ({ support }) => ({
        deliver: (request, work) =>
          support.deliver(request, async (open) => {
            const end = await work(open);
            return open.used() ? end : { end: "rollback", value: end.value };
          }),
      }),
    },
  ],
  "deliveries that block the next": [
    "deliver: the next effect of an ordered aggregate is due once it has committed",
    seenAs(({ effect }) => effect.state === "delivered" && effect.result !== null, { state: "dead" }),
  ],
  "deliveries that are kept for ever": [
    "deliver: the delivered effect is kept for its retention",
    delivering(
      (work) => work,
      (request) => ({ ...request, keepMs: Infinity }),
    ),
  ],
  "deliveries whose rows are visible before the commit": [
    "deliver: others see nothing of it before its commit, and reading does not wait",
    {
      transactions: ({ support, tables }) => ({
        deliver: (request, work) =>
          support.deliver(request, (open) =>
            work({
              ...open,
              tx: {
                ...open.tx,
                async insert(table, row) {
                  tables.add([{ table, row }]);
                },
              },
            }),
          ),
      }),
    },
  ],
  "deliveries that never end": [
    "deliver: of many under one claim, all open at once, exactly one commits",
    reviving(({ endedBy }) => endedBy === "deliver"),
  ],
  "deliveries decided by an outdated reading": [
    "deliver: a rescue and a delivery at once leave the state that was returned",
    {
      transactions: ({ support, tables }) => ({
        deliver: (request, work) =>
          support.deliver(request, async (open) => {
            const end = await work(open);
            await otherTurn();
            for (const row of await open.tx.rows("rows")) tables.add([{ table: "rows", row }]);
            return end;
          }),
      }),
    },
  ],
  "answers that are not written": [
    "deliver: the answer of a retryable record completes it in the same commit",
    delivering((work) => (work.end === "commit" ? { ...work, answers: null } : work)),
  ],
  "answers where none were given": [
    "deliver: without an answer, leaves its record unchanged",
    afterDelivery(({ effects, rows }, { claim }) => {
      const effect = effects.find(claim.id)?.effect;
      if (effect !== undefined) alter(rows, effect, (record) => ({ ...record, principal: null }));
    }),
  ],
  "answers by the id alone": [
    "deliver: an answer for another version of the record is lost, with its rows and the delivery",
    answeringAnyway((record, id) => record.id === id && record.state === "retryable"),
  ],
  "answers for any record": [
    "deliver: an answer for a record that is unknown is lost, with its rows and the delivery",
    answeringAnyway((record) => record.state !== "retryable"),
  ],
  "answers for no record": [
    "deliver: an answer for a record that is gone is lost, with its rows and the delivery",
    delivering((work, _, { rows }) =>
      work.end === "commit" && work.answers !== null && rows.find(work.answers.key) === null
        ? { ...work, answers: null }
        : work,
    ),
  ],
  "answers for an attempt that has continued": [
    "deliver: an answer that arrives after another attempt has begun is lost",
    answeringAnyway((record, id) => record.id === id),
  ],

  "deferred work under the request's token": [
    "claim pending: the worker owns the record, its input and its steps, and the request's fence is no longer valid",
    store(({ inner, rows }) => ({
      async claimPending(wants) {
        const fences = new Map(rows.all().map(({ record }) => [record.id, record.fence]));
        const claimed = await inner.claimPending(wants);
        for (const record of claimed) {
          alter(rows, record, (there) => ({ ...there, fence: fences.get(there.id) ?? there.fence }));
        }
        return claimed;
      },
    })),
  ],
  "deferred work with attempt 2": [
    "claim pending: starts attempt 1 under the worker's token and lease, and changes nothing else",
    claimedAs((record) => ({ ...record, fence: { ...record.fence, attempt: 2 } })),
  ],
  "deferred work whose life starts with its claim": [
    "claim pending: starts attempt 1 under the worker's token and lease, and changes nothing else",
    claimedAs((record, { now }) => ({ ...record, createdAt: now() })),
  ],
  "deferred work under one token": [
    "claim pending: of each operation at most as many records as it has tokens, each under its own token",
    store(({ inner }) => ({
      claimPending: (wants) =>
        inner.claimPending(
          wants.map((want) => ({ ...want, tokens: want.tokens.map(() => want.tokens[0] ?? "") })),
        ),
    })),
  ],
  "deferred work, newest first": [
    "claim pending: the records that have waited longest come first",
    store(({ inner, rows }) => ({
      async claimPending(wants) {
        const created = new Map(rows.all().map(({ record }) => [record.id, record.createdAt]));
        for (const { record } of rows.all())
          alter(rows, record, (there) => ({ ...there, createdAt: -there.createdAt }));
        const claimed = await inner.claimPending(wants);
        for (const { record } of rows.all()) {
          alter(rows, record, (there) => ({ ...there, createdAt: created.get(there.id) ?? 0 }));
        }
        return claimed;
      },
    })),
  ],
  "deferred work of every operation": [
    "claim pending: claims nothing if nothing is wanted",
    store(({ inner, rows }) => ({
      claimPending(wants) {
        const [waiting] = rows.all().filter(({ record }) => record.state === "pending");
        const operation = waiting?.record.operation ?? "";
        return inner.claimPending(wants.map((want) => ({ ...want, operation })));
      },
    })),
  ],
  "deferred work by the scope": [
    "claim pending: selects by operation, even if keys are unique per tenant",
    store(({ inner, rows }) => ({
      claimPending: (wants) =>
        inner.claimPending(
          wants.map((want) => ({
            ...want,
            operation:
              rows.all().find(({ record }) => record.scope === want.operation)?.record.operation ?? "none",
          })),
        ),
    })),
  ],
  "deferred work past its expiry": [
    "claim pending: never past the record's expiry, which is the record-cleaner's part",
    pendingAs((record) => (record.state === "pending" ? { ...record, expiresAt: Infinity } : record)),
  ],
  "deferred work at its expiry": [
    "claim pending: possible until the record's expiry, not at it",
    pendingAs((record) =>
      record.state === "pending" ? { ...record, expiresAt: record.expiresAt + 1 } : record,
    ),
  ],
  "deferred work that is retryable": [
    "claim pending: never a record in another state",
    store(({ inner, rows, now }) => ({
      claimPending(wants) {
        for (const { record } of rows.all()) {
          alter(rows, record, (there) => {
            if (there.state !== "retryable") return there;
            const { lastErrorCode: _, ...life } = there;
            return { ...life, state: "pending", expiresAt: now() + 1 };
          });
        }
        return inner.claimPending(wants);
      },
    })),
  ],
  "deferred work that two callers may read at once": [
    "claim pending: many at once claim each record once",
    store(({ inner, rows }) => ({
      async claimPending(wants) {
        const seen = rows.all();
        await otherTurn();
        for (const row of seen) rows.put(row.record, restored(row));
        return inner.claimPending(wants);
      },
    })),
  ],
  "deferred work without its terms": [
    "claim pending: a claim whose reply is lost ends with its lease",
    {
      rows: () =>
        new LossyRows((record) =>
          record.state === "in_progress" ? { terms: { leaseEnd: "rerun", attemptsMax: 99 } } : {},
        ),
    },
  ],
  "deferred work with its own limit of attempts": [
    "claim pending: a record whose attempts are spent is left to the lease-rescuer",
    store(({ inner }) => ({
      claimPending: (wants) =>
        inner.claimPending(wants.map((want) => ({ ...want, terms: { ...want.terms, attemptsMax: 9 } }))),
    })),
  ],
  "deferred work without its input": [
    "claim pending: the worker owns the record, its input and its steps, and the request's fence is no longer valid",
    { rows: () => new LossyRows((record) => (record.state === "in_progress" ? { input: null } : {})) },
  ],
  "deferred work that is removed by the cleaner": [
    "claim pending: a cleaner and a worker at once leave the state that was returned",
    store(({ inner, rows }) => ({
      async clean(limit) {
        const report = await inner.clean(limit);
        for (const { record } of rows.all()) {
          if (record.state === "in_progress") rows.remove(record);
        }
        return report;
      },
    })),
  ],

  "ids of every life": [
    "lookup by id: a life that is not addressable is not found",
    foundBy((record, tenant, id) => record.id === id && record.tenant === tenant),
  ],
  "ids of all tenants": [
    "lookup by id: found only with its own tenant, and only by its own id",
    foundBy((record, _, id, addressable) => addressable && record.id === id),
  ],
  "ids of what was created": [
    "lookup by id: an addressable life is found as it is stored, in every later state",
    foundBy(
      (record, tenant, id, addressable) =>
        addressable && record.id === id && record.tenant === tenant && record.state !== "expired",
    ),
  ],
  "ids of pending requests": [
    "lookup by id: a life that timed out while it waited is also found",
    foundBy(
      (record, tenant, id, addressable) =>
        addressable && record.id === id && record.tenant === tenant && record.state === "pending",
    ),
  ],
  "ids that belong to the key": [
    "lookup by id: a life that another has replaced is not found",
    store(({ inner, rows, now }) => {
      const keys = new Map<string, LatchkeyRecord>();
      return {
        async create(life, ...rest) {
          const created = await inner.create(life, ...rest);
          if (created !== null) keys.set(`${created.tenant} ${created.id}`, created);
          return created;
        },
        async readById(tenant, id) {
          const key = keys.get(`${tenant} ${id}`);
          const row = key === undefined ? null : rows.find(key);
          return row === null ? inner.readById(tenant, id) : { record: row.record, now: now() };
        },
      };
    }),
  ],
  "ids that stay after a release": [
    "lookup by id: a life that was released is not found",
    store(({ inner, now }) => {
      const known = new Map<string, LatchkeyRecord>();
      return {
        async create(life, ...rest) {
          const created = await inner.create(life, ...rest);
          if (created !== null) known.set(`${created.tenant} ${created.id}`, created);
          return created;
        },
        readById: async (tenant, id) => ({ record: known.get(`${tenant} ${id}`) ?? null, now: now() }),
      };
    }),
  ],

  "hints of one kind": [
    "hints: kinds are kept apart, and many sent at once all arrive",
    hints(({ hints: inner }) => ({
      send(hint) {
        inner.send(hint);
        inner.send(hint === "effects" ? "pending" : "effects");
      },
    })),
  ],
  "listeners that cannot unsubscribe": [
    "hints: a listener that has unsubscribed receives no more",
    hints(({ hints: inner }) => ({
      async listen(listener) {
        await inner.listen(listener);
        return async () => {};
      },
    })),
  ],
  "listeners identified by their function": [
    "hints: the same function may subscribe twice, each time until it unsubscribes",
    hints(() => {
      const listeners = new Set<(hint: Hint) => void>();
      return {
        send: (hint) => {
          for (const listener of listeners) listener(hint);
        },
        async listen(listener) {
          listeners.add(listener);
          return async () => {
            listeners.delete(listener);
          };
        },
      };
    }),
  ],
  "hints for the last listener only": [
    "hints: every listener receives them, in the same process and in others",
    hints(() => {
      let last: (hint: Hint) => void = () => {};
      return {
        send: (hint) => last(hint),
        async listen(listener) {
          last = listener;
          return async () => {};
        },
      };
    }),
  ],
  "hints that report failures": [
    "hints: sending neither throws nor waits, even without listeners",
    hints(({ hints: inner }) => ({
      send(hint) {
        inner.send(hint);
        return true;
      },
    })),
  ],
};

const newCasesOf = (mistake: Mistake) => casesOf(mistake).filter(([name]) => effectGroups.test(name));

/** A lost hint is awaited in real time. */
const slowMs = 60_000;

const results = new Map<string, ReadonlyMap<string, unknown>>();

async function resultOf(name: string): Promise<ReadonlyMap<string, unknown>> {
  const known = results.get(name);
  if (known !== undefined) return known;
  const [, mistake] = mistakes[name] ?? [];
  const failures = await failuresOf(newCasesOf(mistake ?? {}));
  results.set(name, failures);
  return failures;
}

test.each(sample(Object.entries(mistakes), 8))(
  "the suite catches: %s",
  async (name, [caughtBy]) => {
    const failures = await resultOf(name);
    expect([...failures.keys()]).toContain(caughtBy);
    expect(failures.get(caughtBy)).toBeInstanceOf(AssertionError);
  },
  slowMs,
);

describe("every case", () => {
  test("passes on the sound store that the broken ones are made from", async () => {
    expect([...(await failuresOf(newCasesOf({}))).keys()]).toEqual([]);
  });

  test.runIf(isThorough)(
    "catches some of the mistakes",
    async () => {
      const caught = new Set<string>();
      for (const name of Object.keys(mistakes)) {
        for (const [failed, error] of await resultOf(name))
          if (error instanceof AssertionError) caught.add(failed);
      }
      expect(
        newCasesOf({})
          .map(([name]) => name)
          .filter((name) => !caught.has(name)),
      ).toEqual([]);
    },
    slowMs,
  );
});
