/** Decides what happens to a claimed effect. Pure: from the row, the definition and the other service's answer. */

import { windowIsOver } from "../effects/dedupe-window.ts";
import type { LookedUpSend } from "../effects/look-up.ts";
import type { AnyEffect, Sent } from "../effects/run-effect.ts";
import type { OutboxEffect } from "../stores/outbox.ts";

type Settings = AnyEffect["settings"];

/** The part of the row that decides. */
export type DeliveryState = Pick<OutboxEffect, "fence" | "sends" | "returns" | "doubtfulSince" | "result">;

export type NextDelivery =
  /** It has happened and its result is stored: only the finish is missing. */
  | { readonly kind: "finish" }
  | { readonly kind: "look_up" }
  | { readonly kind: "send" }
  | { readonly kind: "die"; readonly errorCode: string };

/** The verdict after a send, after a look-up, or after a failure before either. */
export type DeliveryVerdict =
  | { readonly kind: "happened"; readonly value: unknown }
  /** `doubtful`: a send of this generation may have happened. */
  | { readonly kind: "retry"; readonly errorCode: string; readonly doubtful: boolean }
  | { readonly kind: "reopen" }
  | { readonly kind: "die"; readonly errorCode: string };

/** An effect that has killed so many processes is left to an operator. */
const lostSendsMax = 3;

/** @param now the store's time, or later; only used if something is in doubt */
export function nextDelivery(row: DeliveryState, settings: Settings, now: number): NextDelivery {
  if (row.result !== null) return { kind: "finish" };
  if (row.sends - row.returns >= lostSendsMax) return { kind: "die", errorCode: "kills-its-process" };
  if (row.doubtfulSince !== null) {
    const { deduplication } = settings;
    switch (deduplication) {
      case "none":
        return { kind: "die", errorCode: "call-in-doubt" };
      case "lookup":
        return { kind: "look_up" };
      case "provider":
        if (windowIsOver(row.doubtfulSince, { settings }, now)) {
          return { kind: "die", errorCode: "dedupe-window-over" };
        }
        break;
      default:
        return deduplication satisfies never;
    }
  }
  return row.sends >= settings.delivery.attemptsMax
    ? { kind: "die", errorCode: "attempts-spent" }
    : { kind: "send" };
}

/** @param row as claimed, before this send */
export function afterSend(row: DeliveryState, settings: Settings, sent: Sent): DeliveryVerdict {
  const spent = row.sends + 1 >= settings.delivery.attemptsMax;
  switch (sent.kind) {
    case "returned":
      return { kind: "happened", value: sent.value };
    case "refused":
      return { kind: "die", errorCode: "effect-refused" };
    case "not_executed":
      // It proves nothing about an earlier send.
      if (spent) return { kind: "die", errorCode: "attempts-spent" };
      return { kind: "retry", errorCode: "not-executed", doubtful: row.doubtfulSince !== null };
    case "in_doubt":
      return afterDoubt(settings, spent);
    default:
      return sent satisfies never;
  }
}

function afterDoubt({ deduplication }: Settings, spent: boolean): DeliveryVerdict {
  const retry = { kind: "retry", errorCode: "call-in-doubt", doubtful: true } as const;
  switch (deduplication) {
    case "none":
      return { kind: "die", errorCode: "call-in-doubt" };
    case "provider":
      return spent ? { kind: "die", errorCode: "attempts-spent" } : retry;
    case "lookup":
      return retry;
    default:
      return deduplication satisfies never;
  }
}

/** @param looked the other service's answer; `failed`: there was none */
export function afterLookUp(
  row: DeliveryState,
  settings: Settings,
  looked: LookedUpSend | { readonly kind: "failed" },
): DeliveryVerdict {
  switch (looked.kind) {
    case "happened":
      return looked;
    case "closed":
      return settings.reopen ? { kind: "reopen" } : { kind: "die", errorCode: "closed-downstream" };
    case "not_found":
    case "failed":
      return unsentTries(row) >= settings.delivery.attemptsMax
        ? { kind: "die", errorCode: "call-in-doubt" }
        : { kind: "retry", errorCode: "call-in-doubt", doubtful: true };
    default:
      return looked satisfies never;
  }
}

/**
 * Tries without a send are not counted separately: they are the claims that no send followed. A redrive resets the count of
 * sends but not that of claims, so a redriven effect may have only one such try.
 */
export function unsentTries({ fence, sends }: Pick<DeliveryState, "fence" | "sends">): number {
  return Math.max(1, fence.attempt - sends);
}
