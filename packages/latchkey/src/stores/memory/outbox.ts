/** The outbox of the memory store, each write one step on its effects. An effect whose id is not returned was not changed. */

import { compareCodeUnits } from "../../fingerprint/code-units.ts";
import type { FinishedCallsQuery } from "../journal.ts";
import type {
  DeadDecision,
  DeadNote,
  EffectClaim,
  EffectConfirmation,
  EffectFilter,
  EffectKey,
  EffectWant,
  OutboxEffect,
  OutboxRescue,
  OutboxSupport,
} from "../outbox.ts";
import type { AuditEntry, AuditNote } from "../settlement.ts";
import type { EffectRow, MemoryEffects } from "./effects.ts";
import { keyOf } from "./life.ts";
import { claimedRow, endClaim } from "./outbox-ends.ts";

/** @param audit the audit rows, oldest first */
export function memoryOutbox(effects: MemoryEffects, audit: AuditEntry[], now: () => number): OutboxSupport {
  return {
    claim: async (wants, token, leaseMs) => claim(effects, now(), wants, token, leaseMs),
    start: async (claims, leaseMs) => {
      const started = claims.filter((one) => start(effects, now(), one, leaseMs));
      return started.map(({ id }) => id);
    },
    end: async (ends) => ends.filter((end) => endClaim(effects, now(), end)).map(({ id }) => id),
    rescue: async (limit) => rescue(effects, now(), limit),
    list: async (filter) => list(effects, filter),
    ofRecord: async (recordId) =>
      effects
        .all()
        .map(({ effect }) => effect)
        .filter((effect) => effect.recordId === recordId),
    byDownstreamKey: async (keys) => {
      const wanted = new Set(keys.map(nameOf));
      return effects
        .all()
        .map(({ effect }) => effect)
        .filter((effect) => wanted.has(nameOf(effect)));
    },
    finished: async (query) => finished(effects, query),
    confirm: async (confirmation, note) => confirm(effects, audit, now(), confirmation, note),
    decide: async (id, decision, note) => decide(effects, audit, now(), id, decision, note),
  };
}

function nameOf({ recordId, downstreamKey }: EffectKey): string {
  return `${recordId} ${downstreamKey}`;
}

function finished(
  effects: MemoryEffects,
  { effect: name, from, to, limit, after }: FinishedCallsQuery,
): readonly OutboxEffect[] {
  return effects
    .all()
    .map(({ effect }) => ({ effect, at: effect.finishedAt ?? Number.NaN }))
    .filter(
      ({ effect, at }) => effect.effect === name && effect.state === "delivered" && at >= from && at < to,
    )
    .sort((left, right) => left.at - right.at || byKey(left.effect, right.effect))
    .filter(
      ({ effect, at }) =>
        after === null || at > after.finishedAt || (at === after.finishedAt && byKey(effect, after) > 0),
    )
    .slice(0, limit)
    .map(({ effect }) => effect);
}

function byKey(left: { readonly downstreamKey: string }, right: { readonly downstreamKey: string }): number {
  return compareCodeUnits(left.downstreamKey, right.downstreamKey);
}

function claim(
  effects: MemoryEffects,
  now: number,
  wants: readonly EffectWant[],
  token: string,
  leaseMs: number,
): readonly OutboxEffect[] {
  return wants.flatMap(({ effect: name, limit, starts = false }) => {
    const due = dueOf(effects, now, name).slice(0, limit);
    return due.map((row) => {
      const fence = { attempt: row.effect.fence.attempt + 1, token };
      const claimed = { ...row.effect, state: "claimed", fence } as const;
      const effect = starts && mayStart(claimed) ? startedEffect(claimed, now) : claimed;
      return effects.put({ ...row, effect, leaseEndsAt: now + leaseMs, endedBy: null }).effect;
    });
  });
}

function mayStart({ doubtfulSince, result }: OutboxEffect): boolean {
  return doubtfulSince === null && result === null;
}

function startedEffect(effect: OutboxEffect, now: number): OutboxEffect {
  const doubtfulSince = effect.doubtfulSince ?? now;
  return { ...effect, state: "started", sends: effect.sends + 1, doubtfulSince };
}

/** The due effects in the order of their due times, and for equal times in the order in which they were written. */
function dueOf(effects: MemoryEffects, now: number, name: string): readonly EffectRow[] {
  const rows = effects.all().filter(({ effect }) => effect.effect === name);
  const heads = headsOf(rows);
  return rows
    .filter(({ effect, dueAt }) => effect.state === "pending" && now >= dueAt)
    .filter(({ effect }) => !effect.ordered || heads.has(effect.id))
    .sort((left, right) => left.dueAt - right.dueAt);
}

/** The ids of the first undelivered effect of each ordered aggregate. */
function headsOf(rows: readonly EffectRow[]): ReadonlySet<string> {
  const heads = new Map<string, string>();
  for (const { effect } of rows) {
    if (!effect.ordered || effect.state === "delivered") continue;
    const aggregate = `${effect.tenant.length}:${effect.tenant}${effect.aggregate}`;
    if (!heads.has(aggregate)) heads.set(aggregate, effect.id);
  }
  return new Set(heads.values());
}

function start(effects: MemoryEffects, now: number, claim: EffectClaim, leaseMs: number): boolean {
  const row = claimedRow(effects, claim);
  if (row === null || now >= row.leaseEndsAt) return false;
  const { effect } = row;
  // Under one claim a send is begun once, so this call repeats an earlier one.
  if (effect.state === "started") return true;
  effects.put({ ...row, effect: startedEffect(effect, now), leaseEndsAt: now + leaseMs });
  return true;
}

function rescue(effects: MemoryEffects, now: number, limit: number): OutboxRescue {
  const ended = effects
    .all()
    .flatMap((row) => (row.leaseEndsAt === null ? [] : [{ ...row, leaseEndsAt: row.leaseEndsAt }]))
    .filter(({ leaseEndsAt }) => now >= leaseEndsAt)
    .sort((left, right) => left.leaseEndsAt - right.leaseEndsAt)
    .slice(0, limit);
  let started = 0;
  for (const row of ended) {
    const wasStarted = row.effect.state === "started";
    if (wasStarted) started += 1;
    const effect = { ...row.effect, state: "pending" } as const;
    effects.put({ ...row, effect, dueAt: wasStarted ? now : row.dueAt, leaseEndsAt: null });
  }
  return { unstarted: ended.length - started, started };
}

function list(
  effects: MemoryEffects,
  { state, effect: name, tenant, limit, after }: EffectFilter,
): readonly OutboxEffect[] {
  return effects
    .all()
    .map(({ effect }) => effect)
    .filter(
      (effect) =>
        effect.state === state &&
        (name === null || effect.effect === name) &&
        (tenant === null || effect.tenant === tenant) &&
        (after === null || inOrder(after, effect) < 0),
    )
    .sort(inOrder)
    .slice(0, limit);
}

type Listed = NonNullable<EffectFilter["after"]>;

function inOrder(left: Listed, right: Listed): number {
  return left.createdAt - right.createdAt || compareCodeUnits(left.id, right.id);
}

function decide(
  effects: MemoryEffects,
  audit: AuditEntry[],
  now: number,
  id: string,
  decision: DeadDecision,
  note: DeadNote,
): boolean {
  const known = audit.find((entry) => entry.id === note.id);
  if (known !== undefined) return known.effectId === id;
  const row = effects.find(id);
  if (row?.effect.state !== "dead" || !isNamed(audit, row.effect, decision)) return false;
  const after = effects.put(decided(row, decision, now)).effect;
  audit.push(entryOf({ ...note, proof: "operator" }, decision.event, now, row.effect, after));
  return true;
}

/** Whether the decision is about the effect's current death. */
function isNamed(
  audit: readonly AuditEntry[],
  { id, fence }: OutboxEffect,
  { attempt }: DeadDecision,
): boolean {
  if (attempt !== null) return attempt === fence.attempt;
  return !audit.some(({ effectId, from }) => effectId === id && from === "dead");
}

function entryOf(
  note: AuditNote,
  event: string,
  at: number,
  { state: from }: OutboxEffect,
  after: OutboxEffect,
): AuditEntry {
  const { id: effectId, recordId, state: to } = after;
  return { ...note, at, key: keyOf(after), recordId, effectId, event, from, to };
}

function confirm(
  effects: MemoryEffects,
  audit: AuditEntry[],
  now: number,
  { id, generation, result }: EffectConfirmation,
  note: AuditNote,
): boolean {
  const known = audit.find((entry) => entry.id === note.id);
  if (known !== undefined) return known.effectId === id;
  const row = effects.find(id);
  if (row === null || row.effect.generation !== generation) return false;
  const { effect } = row;
  if (effect.state === "delivered" || effect.result !== null) return false;
  const after = effects.put(confirmed(row, result, now)).effect;
  audit.push(entryOf(note, "confirm", now, effect, after));
  return true;
}

function confirmed(row: EffectRow, result: Uint8Array, now: number): EffectRow {
  const { effect } = row;
  if (effect.state === "started") {
    return { ...row, effect: { ...effect, result, returns: effect.returns + 1 } };
  }
  const counted = effect.state === "dead" ? { sends: 0, returns: 0 } : {};
  const pending = { ...effect, ...counted, state: "pending", result, finishedAt: null } as const;
  return { ...row, effect: pending, dueAt: now, leaseEndsAt: null };
}

function decided(row: EffectRow, decision: DeadDecision, now: number): EffectRow {
  const { effect } = row;
  switch (decision.event) {
    case "redrive": {
      const doubtfulSince = decision.doubt === "kept" ? effect.doubtfulSince : null;
      const counted = { sends: 0, returns: 0, finishedAt: null };
      return { ...row, effect: { ...effect, ...counted, state: "pending", doubtfulSince }, dueAt: now };
    }
    case "discard": {
      const delivered = { ...effect, state: "delivered", finishedAt: now } as const;
      return { ...row, effect: delivered, removeAt: now + decision.keepMs };
    }
    default:
      return decision satisfies never;
  }
}
