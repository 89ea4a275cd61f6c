/** How commands that run until they are stopped receive signals. */
import { constants } from "node:os";

/** A Ctrl-C under `npm` arrives twice: from the terminal, and passed on by npm. */
const sameSignalMs = 100;

/** The first signal asks to stop; a second one ends the process at once. */
export function stopSignals() {
  const first = Promise.withResolvers<NodeJS.Signals>();
  let heardAtMs: number | null = null;
  const hear = (signal: NodeJS.Signals) => {
    if (heardAtMs !== null && performance.now() - heardAtMs > sameSignalMs) {
      process.exit(128 + constants.signals[signal]);
    }
    heardAtMs ??= performance.now();
    first.resolve(signal);
  };
  process.on("SIGTERM", hear).on("SIGINT", hear);
  return { first: first.promise, forget: () => process.off("SIGTERM", hear).off("SIGINT", hear) };
}
