import type { Runtime } from "../execution/runtime.ts";
import { pause } from "../ports.ts";
import type { Hint, HintSupport } from "../stores/hints.ts";

const retryMs = 10_000;

/** Subscribes to hints of this process and, if the store supports them, of others. Returns the function that unsubscribes. */
export function subscribeToHints<Tx>(
  runtime: Runtime<Tx>,
  service: string,
  onHint: (hint: Hint) => void,
): () => Promise<void> {
  const unsubscribe = runtime.hints.listen(onHint);
  const stop = new AbortController();
  const support = runtime.store.hints;
  const others =
    support === null ? Promise.resolve() : subscribeToOthers(runtime, service, support, onHint, stop.signal);
  return async () => {
    unsubscribe();
    stop.abort();
    await others;
  };
}

/** Retries if the store cannot subscribe now; until then services poll. */
async function subscribeToOthers<Tx>(
  { ports, emit }: Runtime<Tx>,
  service: string,
  support: HintSupport,
  onHint: (hint: Hint) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const unsubscribe = await support.listen(onHint);
      await aborted(signal);
      return await unsubscribe();
    } catch (error) {
      emit({ type: "service_error", service, error });
      await pause(ports.clock, retryMs, signal, "background");
    }
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
