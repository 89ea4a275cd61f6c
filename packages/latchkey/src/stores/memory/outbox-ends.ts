/** How claims on effects end, each end one step. */
import { sameFence } from "../../engine/record.ts";
import type { DeliveryEnd, EffectClaim, OutboxEffect } from "../outbox.ts";
import type { EffectRow, MemoryEffects } from "./effects.ts";

export interface ClaimedRow extends EffectRow {
  readonly leaseEndsAt: number;
}

/** The effect, if this claim on it holds; the caller judges the lease. */
export function claimedRow(effects: MemoryEffects, { id, fence }: EffectClaim): ClaimedRow | null {
  const row = effects.find(id);
  if (row === null || row.leaseEndsAt === null || !sameFence(row.effect.fence, fence)) return null;
  return { ...row, leaseEndsAt: row.leaseEndsAt };
}

/** Whether the claim held, or an earlier call has already ended it in this way. */
export function endClaim(effects: MemoryEffects, now: number, end: DeliveryEnd): boolean {
  const row = claimedRow(effects, end);
  if (row === null) return wasEndedSo(effects.find(end.id), end);
  const taken = "unsent" in end && end.unsent === true ? takenBack(row, end) : row;
  const next = ended(taken, end, now);
  if (next === null) return false;
  effects.put(next);
  return true;
}

function wasEndedSo(row: EffectRow | null, { fence, event }: DeliveryEnd): boolean {
  return row !== null && sameFence(row.effect.fence, fence) && row.endedBy === event;
}

/** Null if the state of the claim does not allow this end. */
function ended(row: ClaimedRow, end: DeliveryEnd, now: number): EffectRow | null {
  const { effect } = row;
  switch (end.event) {
    case "deliver":
      return deliveredRow(row, end.result ?? effect.result, end.keepMs, now);
    case "keep_result":
      return { ...row, effect: { ...effect, returns: returnsAfter(effect, true), result: end.result } };
    case "retry": {
      const doubtfulSince = end.doubtful ? (effect.doubtfulSince ?? now) : null;
      const returns = returnsAfter(effect, end.returned);
      const waiting = { ...effect, returns, doubtfulSince, lastErrorCode: end.errorCode };
      return pendingRow(row, end, waiting, now + end.afterMs);
    }
    case "reopen": {
      const { downstreamKey } = end;
      const generation = effect.generation + 1;
      return pendingRow(row, end, { ...effect, downstreamKey, generation, doubtfulSince: null }, now);
    }
    case "give_back":
      return effect.state === "claimed" ? pendingRow(row, end, effect, row.dueAt) : null;
    case "die": {
      const returns = returnsAfter(effect, end.returned);
      const dead = { ...effect, state: "dead", returns, lastErrorCode: end.errorCode } as const;
      return { ...row, effect: { ...dead, finishedAt: now }, leaseEndsAt: null, endedBy: end.event };
    }
    default:
      return end satisfies never;
  }
}

/** The row as the claim found it, because the started send was not made. */
function takenBack(row: ClaimedRow, end: DeliveryEnd): ClaimedRow {
  const { effect } = row;
  if (effect.state !== "started") return row;
  // A start does not change an earlier doubt.
  const doubtfulSince = "doubtful" in end && end.doubtful === true ? effect.doubtfulSince : null;
  return { ...row, effect: { ...effect, state: "claimed", sends: effect.sends - 1, doubtfulSince } };
}

/** A return is counted once for each send; if there is a result, `keep_result` has counted it. */
function returnsAfter({ state, result, returns }: OutboxEffect, returned: boolean): number {
  return returned && state === "started" && result === null ? returns + 1 : returns;
}

function pendingRow(row: EffectRow, { event }: DeliveryEnd, effect: OutboxEffect, dueAt: number): EffectRow {
  return { ...row, effect: { ...effect, state: "pending" }, dueAt, leaseEndsAt: null, endedBy: event };
}

export function deliveredRow(
  row: ClaimedRow,
  result: Uint8Array | null,
  keepMs: number,
  now: number,
): EffectRow {
  const returns = returnsAfter(row.effect, true);
  const effect = { ...row.effect, state: "delivered", result, returns, finishedAt: now } as const;
  return { ...row, effect, leaseEndsAt: null, endedBy: "deliver", removeAt: now + keepMs };
}
