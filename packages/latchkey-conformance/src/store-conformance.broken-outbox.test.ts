/** The cases about effects, deferred work and hints can fail: every one of them catches some of these mistakes. */

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

/** Puts other versions of all effects in their places. */
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

/** Of `now`, what `act` has written, and else what was there before. */
function unseen<T extends object>(before: T, seen: T, now: T): T {
  const restore = Object.entries(before).filter(([name, value]) => {
    const [there, was] = [Reflect.get(now, name), Reflect.get(seen, name)];
    return was !== value && there === was && typeof value !== "object";
  });
  return { ...now, ...Object.fromEntries(restore) };
}

/** Runs one step of the sound store while it sees other effects than there are. */
async function seeing<T>(
  effects: MemoryEffects,
  change: (row: EffectRow) => EffectRow,
  act: () => Promise<T>,
): Promise<T> {
  const before = effects.all();
  alterAll(effects, change);
  // It is over when this returns, before any other call.
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

/** Claims that see other effects than there are. */
const claimsSeeing = (change: (parts: Parts) => (row: EffectRow) => EffectRow): Mistake =>
  outbox((parts) => ({
    claim: (...given) => seeing(parts.effects, change(parts), () => parts.outbox.claim(...given)),
  }));

const seenAs = (is: (row: EffectRow) => boolean, change: Partial<OutboxEffect>) =>
  claimsSeeing(() => (row) => (is(row) ? withEffect(row, change) : row));

/** Looks first, and writes on what it saw. */
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

/** Something done to the effects before each call of `write`. */
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

/** Claims that start, after themselves, some of what they should not. */
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

/** After an end that was written, one more change. */
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

/** Ends that say something else than they were given. */
const endsAs = (change: (end: DeliveryEnd, parts: Parts) => DeliveryEnd): Mistake =>
  outbox((parts) => ({ end: (ends) => parts.outbox.end(ends.map((end) => change(end, parts))) }));

/** Effects that are stored as `lose` says. */
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

/** An effect of a transaction or a phase that has come to nothing. */
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

/** A delivery that ends otherwise than its work says. */
const delivering = (
  change: AnyDelivery,
  requested: (request: DeliveryRequest, parts: Parts) => DeliveryRequest = (request) => request,
): Mistake => ({
  transactions: (parts) => ({
    deliver: (request, work) => {
      // Judged when the delivery ends, as the sound store does.
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

/** After the sound store's delivery, whatever came of it, one more step. */
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

/** The claim of a delivery as one that holds again. */
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

/** Answers of deliveries whose guard is made to hold. */
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

/** A cleaner that sees other effects than there are. */
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

/** Records that wait, seen otherwise by those who claim them. */
const pendingAs = (change: (record: LatchkeyRecord, parts: Parts) => LatchkeyRecord): Mistake =>
  store((parts) => ({
    claimPending(wants) {
      for (const { record } of parts.rows.all()) {
        if (record.state === "pending") alter(parts.rows, record, (there) => change(there, parts));
      }
      return parts.inner.claimPending(wants);
    },
  }));

/** Attempts that were claimed, with one more change. */
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
    "enqueue: a transaction that is repeated with its effects has lost, and they are there once",
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
    "enqueue: an effect of a phase is there with its record's identity, once the phase has committed",
    committing("phase", () => []),
  ],
  "effects of the last phase that are not written": [
    "enqueue: the last phase writes its effects and completes the attempt",
    committing("last phase", () => []),
  ],
  "effects of transactions that are not written": [
    "enqueue: an effect of a transaction is there, whole and new, once it has committed",
    committing("run", () => []),
  ],
  "the first of many effects alone": [
    "enqueue: many effects of one transaction are all there",
    committing("run", (effects) => effects.slice(0, 1)),
  ],
  "an effect where there is none": [
    "enqueue: a transaction without effects leaves nothing to deliver",
    committing("run", (effects) => (effects.length === 0 ? [newEffect()] : effects)),
  ],
  "effects of the scope": [
    "enqueue: the operation is the record's, also where keys are unique per tenant",
    storedAs((effect) => ({ ...effect, operation: effect.scope })),
  ],
  "effects with their time in seconds": [
    "enqueue: an effect of a transaction is there, whole and new, once it has committed",
    storedAs((effect) => ({ ...effect, createdAt: effect.createdAt / 1000 })),
  ],
  "effects in the order of their ids": [
    "enqueue: effects of one life come in the order in which they were written, whatever their ids",
    { effects: () => new ById() },
  ],
  "a cursor over the ids": [
    "enqueue: one whose transaction commits late is found like any other",
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
    "enqueue: an attempt that goes on or ends keeps what it has enqueued",
    store(({ inner, effects }) => ({
      end(key, id, ...rest) {
        for (const { effect } of effects.all()) if (effect.recordId === id) effects.remove(effect.id);
        return inner.end(key, id, ...rest);
      },
    })),
  ],

  "claims of what is claimed": [
    "outbox claim: hands out an effect under a fence of its own, changes nothing else, and hides it",
    before(
      "claim",
      () => (row) => (row.effect.state === "claimed" ? withEffect(row, { state: "pending" }) : row),
    ),
  ],
  "claims of dead leases": [
    "outbox claim: not what is claimed, also after its lease, until it is rescued",
    before(
      "claim",
      ({ now }) =>
        (row) =>
          row.leaseEndsAt !== null && now() >= row.leaseEndsAt ? withEffect(row, { state: "pending" }) : row,
    ),
  ],
  "claims of what is dead": [
    "outbox claim: not what is started, delivered or dead",
    before(
      "claim",
      () => (row) => (row.effect.state === "dead" ? withEffect(row, { state: "pending" }) : row),
    ),
  ],
  "claims of everything where nothing is wanted": [
    "outbox claim: nothing where nothing is wanted or due",
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
    "outbox claim: of each definition at most its own limit",
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
    "outbox claim: those due first come first, whatever the order in which they were written",
    claimsSeeing(
      ({ now }) =>
        (row) =>
          now() >= row.dueAt ? { ...row, dueAt: 0 } : row,
    ),
  ],
  "claims ahead of time": [
    "outbox claim: none before it is due",
    claimsSeeing(() => (row) => ({ ...row, dueAt: 0 })),
  ],
  "claims a millisecond early": [
    "outbox claim: at the time that it is due, not a millisecond earlier",
    claimsSeeing(() => (row) => ({ ...row, dueAt: row.dueAt - 1 })),
  ],
  "claims that raise no attempt": [
    "outbox claim: each raises the attempt, under its own token",
    storedAs((effect) => ({
      ...effect,
      fence: { ...effect.fence, attempt: Math.min(1, effect.fence.attempt) },
    })),
  ],
  "claims that look, then take": [
    "outbox claim: many at once take each effect once",
    checksThenActs("claim"),
  ],
  "claims of the first tenant": [
    "outbox claim: of all tenants, and one that is behind another's effects gets its turn",
    claimsSeeing(({ effects }) => {
      const first = effects.all()[0]?.effect.tenant;
      return (row) => (row.effect.tenant === first ? row : { ...row, dueAt: Infinity });
    }),
  ],
  "leases counted from when it was due": [
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
    "outbox claim: a result that was kept comes with the next claim",
    before("claim", () => (row) => withEffect(row, { result: null })),
  ],

  "claims that never start": [
    "outbox claim: one that starts counts a send, in doubt from now, and changes nothing else",
    outbox(({ outbox: inner }) => ({
      claim: (wants, ...rest) =>
        inner.claim(
          wants.map((want) => ({ ...want, starts: false })),
          ...rest,
        ),
    })),
  ],
  "claims that start what is in doubt": [
    "outbox claim: one that starts leaves what is in doubt to a start of its own",
    claimsStarting(({ result }) => result === null),
  ],
  "claims that start what has its result": [
    "outbox claim: one that starts leaves what has its result",
    claimsStarting(({ doubtfulSince }) => doubtfulSince === null),
  ],
  "claims that start everything": [
    "outbox claim: it starts only what it is told to",
    outbox(({ outbox: inner }) => ({
      claim: (wants, ...rest) =>
        inner.claim(
          wants.map((want) => ({ ...want, starts: wants.some(({ starts }) => starts) })),
          ...rest,
        ),
    })),
  ],

  "no order at all": [
    "outbox order: of an aggregate only the first is handed out, until it is delivered",
    seenAs(() => true, { ordered: false }),
  ],
  "an order of ids": [
    "outbox order: by the order of writing within one transaction, whatever their ids",
    { effects: () => new ById() },
  ],
  "an order of those that are due": [
    "outbox order: one that is not due yet holds up those behind it",
    claimsSeeing(
      ({ now }) =>
        (row) =>
          row.effect.state === "pending" && now() < row.dueAt ? withEffect(row, { ordered: false }) : row,
    ),
  ],
  "an order that what was retried has lost": [
    "outbox order: one that waits to be retried holds up those behind it",
    seenAs(({ effect }) => effect.lastErrorCode !== null, { ordered: false }),
  ],
  "those that come back go to the end": [
    "outbox order: one that was rescued after its send was begun stays ahead of those behind it",
    { effects: () => new ReturningLast() },
  ],
  "an order that skips the dead": [
    "outbox order: one that is dead holds up those behind it, and goes on when it is redriven",
    seenAs(({ effect }) => effect.state === "dead", { ordered: false }),
  ],
  "an order that the discarded hold up": [
    "outbox order: one that is dead holds up nobody after it is discarded",
    seenAs(({ effect }) => effect.state === "delivered" && effect.lastErrorCode !== null, { state: "dead" }),
  ],
  "one order for all aggregates": [
    "outbox order: different aggregates do not hold each other up",
    seenAs(() => true, { aggregate: "x" }),
  ],
  "an order without case": [
    "outbox order: different aggregates that differ in case do not hold each other up",
    claimsSeeing(() => (row) => withEffect(row, { aggregate: row.effect.aggregate?.toLowerCase() ?? null })),
  ],
  "an order without spaces": [
    "outbox order: different aggregates that differ in a space do not hold each other up",
    claimsSeeing(() => (row) => withEffect(row, { aggregate: row.effect.aggregate?.trim() ?? null })),
  ],
  "one order for all tenants": [
    "outbox order: different tenants do not hold each other up",
    seenAs(() => true, { tenant: "x" }),
  ],
  "an order of tenant and aggregate as one text": [
    "outbox order: different tenants and aggregates with separators do not hold each other up",
    claimsSeeing(
      () => (row) =>
        withEffect(row, { tenant: "x", aggregate: `${row.effect.tenant}:${row.effect.aggregate}` }),
    ),
  ],
  "one order for all definitions": [
    "outbox order: different definitions do not hold each other up",
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
  "an order that two may look at": [
    "outbox order: many claims at once never hand out two of one aggregate",
    checksThenActs("claim"),
  ],
  "an order that what is under way does not hold up": [
    "outbox order: many claims while the first is being delivered never hand out one behind the next",
    seenAs(({ leaseEndsAt }) => leaseEndsAt !== null, { ordered: false }),
  ],

  "sends that are not in doubt": [
    "outbox start: one more send, in doubt from now, and nothing else",
    storedAs((effect) => ({ ...effect, doubtfulSince: null })),
  ],
  "sends that are counted for each reply": [
    "outbox start: many times at once counts one send",
    before(
      "start",
      () => (row) =>
        row.effect.state === "started" ? withEffect(row, { sends: row.effect.sends + 1 }) : row,
    ),
  ],
  "starts that answer once": [
    "outbox start: again, as after a lost reply, answers the same and changes nothing",
    outbox(({ outbox: inner, effects }) => ({
      start: (claims, leaseMs) =>
        inner.start(
          claims.filter(({ id }) => effects.find(id)?.effect.state === "claimed"),
          leaseMs,
        ),
    })),
  ],
  "starts by the id alone": ["outbox start: not under the claim before", startsBy(anyFence)],
  "starts by the number alone": ["outbox start: only by the claim", startsBy(anyToken)],
  "starts by the token alone": ["outbox start: only by the claim", startsBy(anyNumber)],
  "starts of what nobody has claimed": [
    "outbox start: not one that nobody has claimed",
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
    "outbox start: not after the lease, whether or not it was rescued",
    before(
      "start",
      ({ now }) =>
        (row) =>
          row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: now() + 1 },
    ),
  ],
  "starts after the lease of a send": [
    "outbox start: not again after its own lease either",
    before(
      "start",
      ({ now }) =>
        (row) =>
          row.effect.state === "started" ? { ...row, leaseEndsAt: now() + 1 } : row,
    ),
  ],
  "starts at the end of the lease": [
    "outbox start: until the lease ends, and not at its end",
    before(
      "start",
      () => (row) => (row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: row.leaseEndsAt + 1 }),
    ),
  ],
  "starts that leave the lease": [
    "outbox start: the lease is counted anew",
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
    "outbox start: after sends that have not happened the doubt begins anew",
    endsAs((end) => (end.event === "retry" ? { ...end, doubtful: true } : end)),
  ],
  "starts after any end": [
    "outbox start: not after give_back",
    before(
      "start",
      ({ now }) =>
        (row) =>
          row.endedBy === null ? row : { ...withEffect(row, { state: "claimed" }), leaseEndsAt: now() + 1 },
    ),
  ],
  "starts all or none": [
    "outbox start: many claims in one call, each by itself",
    outbox(({ outbox: inner }) => ({
      async start(claims, leaseMs) {
        const started = await inner.start(claims, leaseMs);
        return started.length === claims.length ? started : [];
      },
    })),
  ],

  "ends that count a send": [
    "outbox end: give_back changes what it says, and nothing else",
    afterEnd(
      () => true,
      (row) => withEffect(row, { sends: row.effect.sends + 1 }),
    ),
  ],
  "deliveries without their results": [
    "outbox end: deliver changes what it says, and nothing else",
    endsAs((end) => (end.event === "deliver" ? { ...end, result: null } : end)),
  ],
  "a retry without its code": [
    "outbox end: retry changes what it says, and nothing else",
    afterEnd(isA("retry"), (row) => withEffect(row, { lastErrorCode: null })),
  ],
  "the same generation again": [
    "outbox end: what is opened again is due at once, and each time under another key and generation",
    afterEnd(isA("reopen"), (row) => withEffect(row, { generation: 1 })),
  ],
  "a death without its time": [
    "outbox end: die changes what it says, and nothing else",
    afterEnd(isA("die"), (row) => withEffect(row, { finishedAt: null })),
  ],
  "results that count a return each time": [
    "outbox end: keep_result again, as after a lost reply, answers the same and changes nothing",
    afterEnd(isA("keep_result"), (row, _, there) =>
      withEffect(row, { returns: (there?.effect.returns ?? 0) + 1 }),
    ),
  ],
  "ends that are answered once": [
    "outbox end: retry again, as after a lost reply, answers the same and changes nothing",
    outbox(({ outbox: inner, effects }) => ({
      end: (ends) => inner.end(ends.filter(({ id }) => effects.find(id)?.leaseEndsAt !== null)),
    })),
  ],
  "ends by the id alone": [
    "outbox end: deliver not where nobody has a claim, nor under the claim before",
    endsBy(anyFence),
  ],
  "ends by the number alone": ["outbox end: retry only by the claim", endsBy(anyToken)],
  "ends by the token alone": ["outbox end: die only by the claim", endsBy(anyNumber)],
  "ends that insist on the lease": [
    "outbox end: deliver after the lease, while nobody has rescued it, and not after that",
    outbox(({ outbox: inner, effects, now }) => ({
      end: (ends) => inner.end(ends.filter(({ id }) => now() < (effects.find(id)?.leaseEndsAt ?? Infinity))),
    })),
  ],
  "ends after a rescue": [
    "outbox end: retry after the lease, while nobody has rescued it, and not after that",
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
    "outbox end: die not after deliver",
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
  "returns whatever the end says": [
    "outbox end: retry counts a send as returned when it says so, and not otherwise",
    endsAs((end) => ("returned" in end ? { ...end, returned: true } : end)),
  ],
  "returns that are counted twice": [
    "outbox end: a send whose result was kept is counted as returned once",
    afterEnd(isA("deliver", "retry", "die"), (row, _, there) =>
      withEffect(row, { returns: (there?.effect.returns ?? 0) + 1 }),
    ),
  ],
  "returns of what was not sent": [
    "outbox end: what was found without a send counts no return",
    afterEnd(isA("deliver", "keep_result"), (row, _, there) =>
      withEffect(row, { returns: (there?.effect.returns ?? 0) + 1 }),
    ),
  ],
  "an empty result for none": [
    "outbox end: a delivery without a result has none",
    endsAs((end) => (end.event === "deliver" ? { ...end, result: end.result ?? new Uint8Array() } : end)),
  ],
  "no result for an empty one": [
    "outbox end: an empty result is a result",
    storedAs((effect) => ({ ...effect, result: effect.result?.length === 0 ? null : effect.result })),
  ],
  "a result that renews the lease": [
    "outbox end: keep_result leaves the claim and its lease as they are",
    afterEnd(isA("keep_result"), (row, { now }) => ({ ...row, leaseEndsAt: now() + hour })),
  ],
  "a retry at once": [
    "outbox end: a retry is due after its time, also when it is repeated",
    endsAs((end) => (end.event === "retry" ? { ...end, afterMs: 0 } : end)),
  ],
  "no doubt after a retry": [
    "outbox end: a retry keeps the doubt or proves that there is none",
    endsAs((end) => (end.event === "retry" ? { ...end, doubtful: false } : end)),
  ],
  "what is given back goes to the end": [
    "outbox end: what is given back is due as it was before",
    afterEnd(isA("give_back"), (row, { now }) => ({ ...row, dueAt: now() })),
  ],
  "sends that were not made and count": [
    "outbox end: what a claim has started and nobody has sent is given back as it was",
    afterEnd(isA("give_back"), (row, _, there) =>
      there?.effect.state === "started" ? withEffect(row, { sends: row.effect.sends + 1 }) : row,
    ),
  ],
  "a doubt that is lost with a send that was not made": [
    "outbox end: a start that no send followed is given back, with what was in doubt before it",
    endsAs((end) => (end.event === "give_back" ? { ...end, doubtful: false } : end)),
  ],
  "a doubt that a send leaves that was not made": [
    "outbox end: a start that no send followed is given back with nothing in doubt, where nothing was",
    endsAs((end) => (end.event === "give_back" ? { ...end, doubtful: true } : end)),
  ],
  "sends that are taken back by a give_back alone": [
    "outbox end: a send that a claim began and that was not made counts for nothing, however the claim ends",
    endsAs((end) => (end.event === "die" ? { ...end, unsent: false } : end)),
  ],
  "sends taken back that were not counted": [
    "outbox end: what was not started is given back as it was, whatever is said of a send",
    afterEnd(
      (end) => end.event === "give_back" && end.unsent === true,
      (row, _, there) =>
        there?.effect.state === "claimed" ? withEffect(row, { sends: row.effect.sends - 1 }) : row,
    ),
  ],
  "sends that are given back": [
    "outbox end: what was begun to be sent cannot be given back",
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
    "outbox end: many ends of all kinds in one call, each by itself",
    outbox(({ outbox: inner }) => ({
      async end(ends) {
        const [first, ...rest] = ends;
        const ended = first === undefined ? [] : await inner.end([first]);
        return ended.length === 0 ? [] : [...ended, ...(await inner.end(rest))];
      },
    })),
  ],
  "ends that look, then write": [
    "outbox end: of two different ends at once exactly one is written",
    checksThenActs("end"),
  ],
  "ends that give way to others": [
    "outbox end: one of effects of different claims at once writes both",
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
  "returns that each claim counts anew": [
    "outbox end: a further send after a retry is ended under its own claim",
    before("claim", () => (row) => withEffect(row, { returns: 0 })),
  ],

  "rescues of running claims": [
    "outbox rescue: a claim under which no send was begun is free again, as it was",
    before(
      "rescue",
      ({ now }) =>
        (row) =>
          row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: now() },
    ),
  ],
  "rescues that end the doubt": [
    "outbox rescue: one under which a send was begun is due at once, and in doubt",
    before("rescue", () => (row) => withEffect(row, { doubtfulSince: null })),
  ],
  "rescues a millisecond early": [
    "outbox rescue: at the end of the lease, not a millisecond earlier",
    before(
      "rescue",
      () => (row) => (row.leaseEndsAt === null ? row : { ...row, leaseEndsAt: row.leaseEndsAt - 1 }),
    ),
  ],
  "rescues of the dead": [
    "outbox rescue: nothing that has no claim, however old",
    before("rescue", () => (row) => (row.effect.state === "dead" ? { ...row, leaseEndsAt: 0 } : row)),
  ],
  "rescues without a limit": [
    "outbox rescue: at most as many as asked for, those that are oldest first",
    outbox(({ outbox: inner }) => ({ rescue: () => inner.rescue(1_000) })),
  ],
  "rescues of the newest": [
    "outbox rescue: at most as many as asked for, those that are oldest first",
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
    "outbox rescue: of every definition and of both kinds at once",
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
  "rescues that look, then count": [
    "outbox rescue: many at once free each claim once",
    checksThenActs("rescue"),
  ],
  "rescues that look, then free": [
    "outbox rescue: a rescue and the end of its send at once leave what was answered",
    checksThenActs("rescue"),
  ],
  "rescues that lose the result": [
    "outbox rescue: a result that was kept stays",
    before("rescue", () => (row) => withEffect(row, { result: null })),
  ],
  "rescues of what was once rescued": [
    "outbox rescue: what was claimed again since is left alone",
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
    "outbox list: the effects in one state, as they are",
    outbox(({ effects }) => ({ list: async () => effects.all().map(({ effect }) => effect) })),
  ],
  "a list of all tenants": [
    "outbox list: of one tenant, of one definition, or of both",
    outbox(({ outbox: inner }) => ({ list: (filter) => inner.list({ ...filter, tenant: null }) })),
  ],
  "a list newest first": [
    "outbox list: oldest first, page by page, none twice and none left out",
    outbox(({ outbox: inner }) => ({ list: async (filter) => [...(await inner.list(filter))].reverse() })),
  ],
  "a list whose pages go on by the time alone": [
    "outbox list: effects of the same time are ordered by their ids",
    outbox(({ outbox: inner }) => ({
      list: ({ after, ...filter }) => inner.list({ ...filter, after: after && { ...after, id: "~" } }),
    })),
  ],
  "effects of every life": [
    "outbox list: those of one life alone, and none of a life that is not there",
    outbox(({ effects }) => ({ ofRecord: async () => effects.all().map(({ effect }) => effect) })),
  ],
  "those that are delivered last": [
    "outbox list: those of one life in the order of writing, whatever has become of them",
    outbox(({ outbox: inner }) => ({
      ofRecord: async (id) =>
        (await inner.ofRecord(id)).toSorted(
          (left, right) => Number(left.state === "delivered") - Number(right.state === "delivered"),
        ),
    })),
  ],
  "effects that are handed out as they are": [
    "outbox list: changing what was handed in or out does not change the effect",
    { effects: () => new MemoryEffects((effect) => effect) },
  ],
  "effects that go with their record": [
    "outbox list: a delivered effect outlives its record, for as long as it is kept",
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
    "outbox confirm: what is pending is due with the result, and its audit row says so",
    outbox(({ outbox: inner, effects }) => ({
      async confirm(given, note) {
        const confirmed = await inner.confirm(given, note);
        if (confirmed) alterEffect(effects, given.id, (row) => withEffect(row, { result: null }));
        return confirmed;
      },
    })),
  ],
  "confirmations of dead ones that stay dead": [
    "outbox confirm: what is dead is due with the result, and its audit row says so",
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
    "outbox confirm: what is claimed is due with the result, and its audit row says so",
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
    "outbox confirm: what is being sent keeps its claim; the result stays when that ends in a retry",
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
    "outbox confirm: what is being sent and comes back ends with its own result",
    outbox(({ outbox: inner, effects }) => ({
      async confirm(given, note) {
        const confirmed = await inner.confirm(given, note);
        alterEffect(effects, given.id, (row) => withEffect(row, { returns: row.effect.returns + 1 }));
        return confirmed;
      },
    })),
  ],
  "confirmations of every generation": [
    "outbox confirm: nothing about what is delivered, has a result, is of another generation or is not there",
    outbox(({ outbox: inner, effects }) => ({
      confirm: ({ id, generation, result }, note) =>
        inner.confirm({ id, generation: effects.find(id)?.effect.generation ?? generation, result }, note),
    })),
  ],
  "confirmations that check first": [
    "outbox confirm: of many confirmations at once exactly one is written",
    checksThenActs("confirm"),
  ],
  "ends that a decision makes forgotten": [
    "outbox decide: after discard the end before it, again, answers the same and changes nothing",
    outbox(({ outbox: inner, effects }) => ({
      async decide(id, ...rest) {
        const decided = await inner.decide(id, ...rest);
        if (decided) alterEffect(effects, id, (row) => ({ ...row, endedBy: null }));
        return decided;
      },
    })),
  ],
  "a redrive that keeps its counts": [
    "outbox decide: what is redriven is due at once, its sends counted anew, with or without the doubt",
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
    "outbox decide: what is redriven is due at once, its sends counted anew, with or without the doubt",
    outbox(({ outbox: inner }) => ({
      decide: (id, decision, note) =>
        inner.decide(id, decision.event === "redrive" ? { ...decision, doubt: "kept" } : decision, note),
    })),
  ],
  "a redrive that loses the result": [
    "outbox decide: what is redriven keeps the result that it has",
    outbox(({ outbox: inner, effects }) => ({
      async decide(id, ...rest) {
        const decided = await inner.decide(id, ...rest);
        if (decided) alterEffect(effects, id, (row) => withEffect(row, { result: null }));
        return decided;
      },
    })),
  ],
  "a discard that is kept for ever": [
    "outbox decide: what is discarded counts as delivered from now, and is kept for its time",
    outbox(({ outbox: inner }) => ({
      decide: (id, decision, note) =>
        inner.decide(id, decision.event === "discard" ? { ...decision, keepMs: Infinity } : decision, note),
    })),
  ],
  "decisions about what is not dead": [
    "outbox decide: nothing about an effect that is delivered",
    outbox(({ outbox: inner, effects }) => ({
      decide(id, ...rest) {
        alterEffect(effects, id, (row) => withEffect(row, { state: "dead" }));
        return inner.decide(id, ...rest);
      },
    })),
  ],
  "decisions about whatever death there is": [
    "outbox decide: discard with its attempt, about the death before this one, is refused",
    outbox(({ outbox: inner, effects }) => ({
      decide(id, decision, note) {
        const attempt = effects.find(id)?.effect.fence.attempt ?? null;
        return inner.decide(id, { ...decision, attempt: decision.attempt && attempt }, note);
      },
    })),
  ],
  "decisions about whatever death there is, where none is named": [
    "outbox decide: redrive with the doubt without an attempt, about the death before this one, is refused",
    outbox(({ outbox: inner, effects }) => ({
      decide(id, decision, note) {
        const attempt = decision.attempt ?? effects.find(id)?.effect.fence.attempt ?? null;
        return inner.decide(id, { ...decision, attempt }, note);
      },
    })),
  ],
  "a first death of what was confirmed while it was dead": [
    "outbox decide: without an attempt, what a confirmation has revived since is refused",
    outbox(({ outbox: inner, effects, audit }) => ({
      decide(id, decision, note) {
        const redriven = audit.some(({ effectId, event }) => effectId === id && event !== "confirm");
        const attempt = decision.attempt ?? effects.find(id)?.effect.fence.attempt ?? null;
        return inner.decide(id, redriven ? decision : { ...decision, attempt }, note);
      },
    })),
  ],
  "a ledger by keys alone": [
    "outbox ledger: by downstream key those that have the key now, in any state, and no others",
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
    "outbox ledger: what was delivered of one definition from the first time on, before the second, page by page",
    outbox(({ outbox: inner }) => ({
      finished: async (query) => (query.after === null ? ((await inner.finished?.(query)) ?? []) : []),
    })),
  ],
  "a ledger without what was discarded": [
    "outbox ledger: what a person has discarded has no result",
    outbox(({ outbox: inner }) => ({
      finished: async (query) =>
        ((await inner.finished?.(query)) ?? []).filter(({ result }) => result !== null),
    })),
  ],
  "decisions about nothing": [
    "outbox decide: nothing about an effect that is not there",
    outbox(({ outbox: inner, effects }) => ({
      decide: async (id, ...rest) => effects.find(id) === null || inner.decide(id, ...rest),
    })),
  ],
  "decisions that are answered once": [
    "outbox decide: discard again, as after a lost reply, answers true and changes nothing",
    outbox(({ outbox: inner }) => ({
      decide: (id, decision, note) => inner.decide(id, decision, { ...note, id: newId() }),
    })),
  ],
  "decisions that are taken again": [
    "outbox decide: a repetition does not redrive what has died again since",
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
  "decisions that nobody reads": [
    "outbox decide: its audit row says what was decided about which effect",
    settlement(({ inner }) => ({
      audit: async (key) => (await inner.settlement.audit(key)).filter(({ effectId }) => effectId === null),
    })),
  ],
  "decisions that look, then write": [
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
    "outbox cleaning: a delivered effect goes when its time is over, and not before",
    cleaningSeeing(() => (row) => ({ ...row, removeAt: row.removeAt && Infinity })),
  ],
  "delivered effects that go at once": [
    "outbox cleaning: a delivered effect goes when its time is over, and not before",
    cleaningSeeing(() => (row) => ({ ...row, removeAt: row.removeAt && 0 })),
  ],
  "delivered effects that go a millisecond early": [
    "outbox cleaning: at the end of its time, not a millisecond earlier",
    cleaningSeeing(() => (row) => ({ ...row, removeAt: row.removeAt && row.removeAt - 1 })),
  ],
  "deliveries that are kept longer each time": [
    "outbox cleaning: a delivery that is repeated is not kept longer",
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
  "cleaning that forgets what waits": [
    "outbox cleaning: a record with an effect that is pending is not forgotten, and the effect stays, however old",
    forgetting("pending"),
  ],
  "cleaning that forgets what is claimed": [
    "outbox cleaning: a record with an effect that is claimed is not forgotten, and the effect stays, however old",
    forgetting("claimed"),
  ],
  "cleaning that forgets what is sent": [
    "outbox cleaning: a record with an effect that is started is not forgotten, and the effect stays, however old",
    forgetting("started"),
  ],
  "cleaning that forgets what is dead": [
    "outbox cleaning: a record with an effect that is dead is not forgotten, and the effect stays, however old",
    forgetting("dead"),
  ],
  "answers that wait with their key": [
    "outbox cleaning: an answer that was to go with its key goes alone while the key waits for an effect",
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
  "records that wait for delivered effects to go": [
    "outbox cleaning: a record is forgotten once its last effect is delivered or discarded",
    cleaningSeeing(
      () => (row) => (row.effect.state === "delivered" ? withEffect(row, { state: "dead" }) : row),
    ),
  ],
  "records that wait and count": [
    "outbox cleaning: records that wait for their effects are in nobody's way",
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
    "outbox cleaning: at most as many effects as asked for at a time",
    store(({ inner }) => ({
      async clean(limit) {
        const report = await inner.clean(limit);
        let { effects } = report;
        for (let more = effects; more > 0; effects += more) more = (await inner.clean(limit)).effects;
        return { ...report, effects };
      },
    })),
  ],
  "cleaners that count what they saw": [
    "outbox cleaning: many cleaners at once count each effect once",
    store(({ inner, effects, now }) => ({
      async clean(limit) {
        const over = effects.all().filter(({ removeAt }) => removeAt !== null && now() >= removeAt);
        await otherTurn();
        return { ...(await inner.clean(limit)), effects: over.length };
      },
    })),
  ],
  "records that go with their effects": [
    "outbox cleaning: a record that is not over stays when its effects go",
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
    "outbox cleaning: an effect is delivered although a new life has taken its record's place",
    store(({ inner, effects }) => ({
      create(life, replaces, terms) {
        for (const { effect } of effects.all())
          if (effect.recordId === replaces?.id) effects.remove(effect.id);
        return inner.create(life, replaces, terms);
      },
    })),
  ],
  "records that another tenant's effects hold up": [
    "outbox cleaning: effects of other records hold nobody up, of the same key in another tenant least of all",
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

  "bytes with an end of their own": [
    "effect bytes: an input and a result of no bytes come back as they were",
    {
      ...committing("run", (effects) => effects.map((effect) => ({ ...effect, input: utf8(effect.input) }))),
    },
  ],
  "texts with an end of their own": [
    "effect bytes: SQL in names, keys and codes come back as they were",
    endsAs((end) => (end.event === "retry" ? { ...end, errorCode: `${end.errorCode} ` } : end)),
  ],
  "no aggregate for an empty one": [
    "effect bytes: no aggregate and an empty one are different",
    storedAs((effect) => ({ ...effect, aggregate: effect.aggregate || null })),
  ],
  "tokens that are compared as numbers": [
    "effect bytes: tokens that differ in one digit are different, also beyond the precision of a number",
    endsBy((given, there) => (Number(`0x${given.token}`) === Number(`0x${there.token}`) ? there : given)),
  ],

  "deliveries that are not written": [
    "deliver: commits its rows and the delivery with the result that was kept",
    afterDelivery(({ effects }, _, __, there) => {
      if (there !== null) effects.put(there);
    }),
  ],
  "deliveries without the result": [
    "deliver: commits its rows and the delivery with the result that was kept",
    afterDelivery(({ effects }, { claim }, kind) => {
      if (kind === "committed") alterEffect(effects, claim.id, (row) => withEffect(row, { result: null }));
    }),
  ],
  "deliveries that count a return": [
    "deliver: one whose result was kept under an earlier claim needs no send",
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
  "deliveries that give up what was abandoned": [
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
    "deliver: what the work throws comes out, after everything was rolled back",
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
    "deliver: lost to everyone but the claim, and leaves no row",
    delivering(
      (work) => work,
      (request, { effects }) => ({ ...request, claim: refenced(effects, request.claim, anyFence) }),
    ),
  ],
  "deliveries by the number alone": [
    "deliver: lost to everyone but the claim, and leaves no row",
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
    "deliver: one whose claim is rescued while it is open is lost, and leaves no row",
    reviving(
      ({ endedBy, leaseEndsAt, effect }) =>
        effect.state === "pending" && endedBy === null && leaseEndsAt === null,
    ),
  ],
  "deliveries that insist on the lease": [
    "deliver: after the lease, while nobody has rescued the claim, and not after that",
    delivering(
      (work) => work,
      (request, { effects, now }) => {
        const ended = now() >= (effects.find(request.claim.id)?.leaseEndsAt ?? Infinity);
        return ended ? { ...request, claim: { ...request.claim, id: newId() } } : request;
      },
    ),
  ],
  "deliveries that must use the transaction": [
    "deliver: one that never used `tx` commits the delivery",
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
  "deliveries that hold up the next": [
    "deliver: the next of an ordered aggregate is due when it has committed",
    seenAs(({ effect }) => effect.state === "delivered" && effect.result !== null, { state: "dead" }),
  ],
  "deliveries that are kept for ever": [
    "deliver: the delivered effect is kept for its time",
    delivering(
      (work) => work,
      (request) => ({ ...request, keepMs: Infinity }),
    ),
  ],
  "deliveries whose rows are there before": [
    "deliver: others see nothing of it before its commit, and looking does not wait",
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
  "deliveries that are never over": [
    "deliver: of many under one claim, all open at once, exactly one commits",
    reviving(({ endedBy }) => endedBy === "deliver"),
  ],
  "deliveries judged by an old look": [
    "deliver: a rescue and a delivery at once leave what was answered",
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
  "answers where there are none": [
    "deliver: leaves its record as it is where it answers nothing",
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
  "answers for nobody": [
    "deliver: an answer for a record that is gone is lost, with its rows and the delivery",
    delivering((work, _, { rows }) =>
      work.end === "commit" && work.answers !== null && rows.find(work.answers.key) === null
        ? { ...work, answers: null }
        : work,
    ),
  ],
  "answers for an attempt that has gone on": [
    "deliver: an answer that another attempt has overtaken is lost",
    answeringAnyway((record, id) => record.id === id),
  ],

  "deferred work under the request's token": [
    "claim pending: the worker owns the record, its input and its steps, and the request's fence is worth nothing",
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
  "deferred work whose life begins with its claim": [
    "claim pending: starts attempt 1 under the worker's token and lease, and changes nothing else",
    claimedAs((record, { now }) => ({ ...record, createdAt: now() })),
  ],
  "deferred work under one token": [
    "claim pending: of each operation at most as many as it has tokens, each under another",
    store(({ inner }) => ({
      claimPending: (wants) =>
        inner.claimPending(
          wants.map((want) => ({ ...want, tokens: want.tokens.map(() => want.tokens[0] ?? "") })),
        ),
    })),
  ],
  "deferred work, newest first": [
    "claim pending: those that have waited longest first",
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
    "claim pending: nothing where nothing is wanted",
    store(({ inner, rows }) => ({
      claimPending(wants) {
        const [waiting] = rows.all().filter(({ record }) => record.state === "pending");
        const operation = waiting?.record.operation ?? "";
        return inner.claimPending(wants.map((want) => ({ ...want, operation })));
      },
    })),
  ],
  "deferred work by the scope": [
    "claim pending: by the operation, also where keys are unique per tenant",
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
    "claim pending: not past its expiry, which is the record-cleaner's",
    pendingAs((record) => (record.state === "pending" ? { ...record, expiresAt: Infinity } : record)),
  ],
  "deferred work at its expiry": [
    "claim pending: until its expiry, not at it",
    pendingAs((record) =>
      record.state === "pending" ? { ...record, expiresAt: record.expiresAt + 1 } : record,
    ),
  ],
  "deferred work that is retryable": [
    "claim pending: no record in another state",
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
  "deferred work that two may look at": [
    "claim pending: many at once take each record once",
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
  "deferred work with attempts of its own": [
    "claim pending: one whose attempts are spent is for the lease-rescuer",
    store(({ inner }) => ({
      claimPending: (wants) =>
        inner.claimPending(wants.map((want) => ({ ...want, terms: { ...want.terms, attemptsMax: 9 } }))),
    })),
  ],
  "deferred work without its input": [
    "claim pending: the worker owns the record, its input and its steps, and the request's fence is worth nothing",
    { rows: () => new LossyRows((record) => (record.state === "in_progress" ? { input: null } : {})) },
  ],
  "deferred work that is cleaned away": [
    "claim pending: a cleaner and a worker at once leave what was answered",
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
    "lookup by id: one that is not addressable is not found",
    foundBy((record, tenant, id) => record.id === id && record.tenant === tenant),
  ],
  "ids of all tenants": [
    "lookup by id: of its own tenant alone, and by its own id",
    foundBy((record, _, id, addressable) => addressable && record.id === id),
  ],
  "ids of what was created": [
    "lookup by id: a life that is addressable is found as it is, whatever becomes of it",
    foundBy(
      (record, tenant, id, addressable) =>
        addressable && record.id === id && record.tenant === tenant && record.state !== "expired",
    ),
  ],
  "ids of what waits": [
    "lookup by id: also one that timed out while it waited",
    foundBy(
      (record, tenant, id, addressable) =>
        addressable && record.id === id && record.tenant === tenant && record.state === "pending",
    ),
  ],
  "ids that belong to their key": [
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
  "ids that are remembered": [
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
    "hints: kinds are told apart, and many sent at once are all heard of",
    hints(({ hints: inner }) => ({
      send(hint) {
        inner.send(hint);
        inner.send(hint === "effects" ? "pending" : "effects");
      },
    })),
  ],
  "listeners that never leave": [
    "hints: who has stopped listening hears no more",
    hints(({ hints: inner }) => ({
      async listen(hear) {
        await inner.listen(hear);
        return async () => {};
      },
    })),
  ],
  "listeners that are functions": [
    "hints: the same function may listen twice, each until it stops",
    hints(() => {
      const listeners = new Set<(hint: Hint) => void>();
      return {
        send: (hint) => {
          for (const hear of listeners) hear(hint);
        },
        async listen(hear) {
          listeners.add(hear);
          return async () => {
            listeners.delete(hear);
          };
        },
      };
    }),
  ],
  "hints for the last who listens": [
    "hints: everybody who listens hears, in the same process and in others",
    hints(() => {
      let last: (hint: Hint) => void = () => {};
      return {
        send: (hint) => last(hint),
        async listen(hear) {
          last = hear;
          return async () => {};
        },
      };
    }),
  ],
  "hints that say how it went": [
    "hints: sending neither throws nor waits, also when nobody listens",
    hints(({ hints: inner }) => ({
      send(hint) {
        inner.send(hint);
        return true;
      },
    })),
  ],
};

const newCasesOf = (mistake: Mistake) => casesOf(mistake).filter(([name]) => effectGroups.test(name));

/** A hint that is lost is waited for in real time. */
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
