/** How commands that run until they are stopped receive signals. */
import { constants } from "node:os";

/** A Ctrl-C under `npm` arrives twice: from the terminal, and passed on by npm. */
const sameSignalMs = 100;

/** The first signal asks to stop; a second one ends the process at once. */
export function stopSignals() {
  const first = Promise.withResolvers<NodeJS.Signals>();
  let receivedAtMs: number | null = null;
  const onSignal = (signal: NodeJS.Signals) => {
    if (receivedAtMs !== null && performance.now() - receivedAtMs > sameSignalMs) {
      process.exit(128 + constants.signals[signal]);
    }
    receivedAtMs ??= performance.now();
    first.resolve(signal);
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  return { first: first.promise, forget: () => process.off("SIGTERM", onSignal).off("SIGINT", onSignal) };
}
