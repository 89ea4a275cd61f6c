/**
 * Effects that were being sent when their process died. A process sends only one of them at a time, across all definitions,
 * so a crash never marks an innocent effect as suspect twice. The others are given back for a while.
 */
import type { Clock } from "../ports.ts";
import type { OutboxEffect } from "../stores/outbox.ts";

/** Whether a process died during one of its sends, which may have killed it. */
export function isSuspect({
  sends,
  returns,
  result,
}: Pick<OutboxEffect, "sends" | "returns" | "result">): boolean {
  return result === null && sends > returns;
}

export interface CrashSuspects {
  /** Takes the turn. Null: another suspect has it. */
  take(): (() => void) | null;
  /** How long to give back a suspect that did not get the turn; the times are staggered so that suspects return one by one. */
  nextTurnMs(): number;
  /** Registers a suspect that returns after `ms`. */
  waits(ms: number): void;
  /** How long until the next suspect returns; null if there is none. */
  untilBackMs(): number | null;
}

const stepMs = 20;
/** An upper limit, because this process may die and another may be free sooner. */
const waitMaxMs = 30_000;

const ofProcess = new WeakMap<object, CrashSuspects>();

/** @param owner all dispatchers with the same owner share the turn */
export function crashSuspectsOf(owner: object, clock: Clock): CrashSuspects {
  const suspects = ofProcess.get(owner) ?? createCrashSuspects(clock);
  ofProcess.set(owner, suspects);
  return suspects;
}

function createCrashSuspects(clock: Clock): CrashSuspects {
  /** When the turn was taken; null: it is free. */
  let sinceMs: number | null = null;
  let lastedMs = 0;
  let lastTurnAtMs = 0;
  let retryAtMs: number[] = [];
  return {
    take() {
      if (sinceMs !== null) return null;
      const tookAtMs = clock.monotonicMs();
      sinceMs = tookAtMs;
      return () => {
        sinceMs = null;
        lastedMs = clock.monotonicMs() - tookAtMs;
      };
    },
    nextTurnMs() {
      const now = clock.monotonicMs();
      // If the current send is slow, suspects wait longer each time they return during it.
      const lastsMs = Math.max(stepMs, lastedMs, now - (sinceMs ?? now));
      const next = Math.max(lastTurnAtMs, now) + lastsMs;
      // If the queue exceeds the limit, later suspects are placed between the others.
      lastTurnAtMs = next - now > waitMaxMs ? now + stepMs : next;
      return Math.round(lastTurnAtMs - now);
    },
    waits(ms) {
      retryAtMs.push(clock.monotonicMs() + ms);
    },
    untilBackMs() {
      const now = clock.monotonicMs();
      retryAtMs = retryAtMs.filter((at) => at > now);
      return retryAtMs.length === 0 ? null : Math.min(...retryAtMs) - now;
    },
  };
}
