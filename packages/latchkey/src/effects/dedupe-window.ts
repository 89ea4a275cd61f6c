import type { AnyEffect } from "./run-effect.ts";

/**
 * Whether a send that begins at `now` could reach the other service after it has forgotten the key. It remembers a key from
 * the first send, which began at or after `since`; this send may take up to its time limit. Both times are the store's.
 */
export function windowIsOver(since: number, { settings }: Pick<AnyEffect, "settings">, now: number): boolean {
  return now - since + settings.limits.timeoutMs >= (settings.dedupeWindowMs ?? 0);
}
