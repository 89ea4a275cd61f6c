import type { AnyEffect } from "./run-effect.ts";

/**
 * Whether a send that begins at `now` could reach the other side when it has forgotten the key: keys are remembered from the
 * first send on, which began at or after `since`, and this one may take as long as its limit. Both times are the store's.
 */
export function windowIsOver(since: number, { settings }: Pick<AnyEffect, "settings">, now: number): boolean {
  return now - since + settings.limits.timeoutMs >= (settings.dedupeWindowMs ?? 0);
}
