/** How long an operation remembers its messages, and how long it must. */
import type { Operation } from "../operations/operation.ts";
import type { InboxSettings } from "./inbox-options.ts";

/** How long after its COMMIT a message is recognised as a duplicate. */
export function rememberedMs(operation: Operation): number {
  return operation.settings[rememberingOption(operation)];
}

/** The option of the operation that decides it. */
export function rememberingOption({ settings }: Operation): "retentionMs" | "forgetAfterMs" {
  return settings.reuse === "execute" ? "retentionMs" : "forgetAfterMs";
}

/**
 * Between two tries a message is held, and then paused. If a copy of it, or a first try that is in doubt, commits in the
 * meantime, the second try must still find its key.
 *
 * @throws {TypeError}
 */
export function checkRemembered<I>(operation: Operation, { holdMs, backoffMaxMs }: InboxSettings<I>): void {
  const knownMs = rememberedMs(operation);
  if (knownMs > holdMs + backoffMaxMs) return;
  throw new TypeError(
    `Operation ${operation.name} remembers a message for ${knownMs} ms, but its inbox may wait up to ` +
      `${holdMs + backoffMaxMs} ms (holdMs + backoffMaxMs) between two tries, and would then run the message twice. ` +
      `Raise ${rememberingOption(operation)}, or lower holdMs or backoffMaxMs`,
  );
}
