/**
 * Effects of which a send ended with its process. A process sends one of them at a time, of all definitions together, so a
 * crash never marks an innocent effect as suspect twice. The others are given back for a while.
 */
import type { Clock } from "../ports.ts";
import type { OutboxEffect } from "../stores/outbox.ts";

/** Whether a send of it ended with its process, which it may have killed. */
export function isSuspect({
  sends,
  returns,
  result,
}: Pick<OutboxEffect, "sends" | "returns" | "result">): boolean {
  return result === null && sends > returns;
}

export interface CrashSuspects {
  /** Null: another one has the turn. */
  take(): (() => void) | null;
  /** For how long one that has no turn is given back: they are to come back one after the other. */
  nextTurnMs(): number;
  /** One comes back after so long. */
  waits(ms: number): void;
  /** How long until one comes back; null: none does. */
  untilBackMs(): number | null;
}

const stepMs = 20;
/** Another process may take them sooner, and this one may die. */
const waitMaxMs = 30_000;

const ofProcess = new WeakMap<object, CrashSuspects>();

/** @param owner all dispatchers of one owner share the turn */
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
  let comeBackAtMs: number[] = [];
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
      // One that takes long already: each time they come back to it they stay away for longer.
      const lastsMs = Math.max(stepMs, lastedMs, now - (sinceMs ?? now));
      const next = Math.max(lastTurnAtMs, now) + lastsMs;
      // Where there are more than fit, they come in between the others.
      lastTurnAtMs = next - now > waitMaxMs ? now + stepMs : next;
      return Math.round(lastTurnAtMs - now);
    },
    waits(ms) {
      comeBackAtMs.push(clock.monotonicMs() + ms);
    },
    untilBackMs() {
      const now = clock.monotonicMs();
      comeBackAtMs = comeBackAtMs.filter((at) => at > now);
      return comeBackAtMs.length === 0 ? null : Math.min(...comeBackAtMs) - now;
    },
  };
}
