/** How long an operation knows its messages, and how long it must. */
import type { Operation } from "../operations/operation.ts";
import type { InboxSettings } from "./inbox-options.ts";

/** From its COMMIT on, a message is a duplicate for so long. */
export function rememberedMs({ settings }: Operation): number {
  return settings.reuse === "execute" ? settings.retentionMs : settings.forgetAfterMs;
}

/**
 * Between two tries a message is held, and then paused: what commits meanwhile (a copy of it, or a first try that is in
 * doubt) must still be known at the second.
 *
 * @throws {TypeError}
 */
export function checkRemembered<I>(operation: Operation, { holdMs, backoffMaxMs }: InboxSettings<I>): void {
  const knownMs = rememberedMs(operation);
  if (knownMs > holdMs + backoffMaxMs) return;
  throw new TypeError(
    `Operation ${operation.name} remembers a message for ${knownMs} ms: its inbox keeps one for holdMs and backoffMaxMs ` +
      `(${holdMs + backoffMaxMs} ms) between two tries, and would run it twice. Raise retentionMs, or lower those`,
  );
}
