import type { Clock, TimerKind } from "../ports.ts";

export type Limited<T> =
  | { readonly kind: "returned"; readonly value: T }
  | { readonly kind: "threw"; readonly error: unknown }
  | { readonly kind: "timed_out" };

/**
 * Runs `work` for at most `limitMs`, and no longer than until `signal` aborts. Never rejects; what a late `work` does
 * afterwards is ignored.
 */
export function withLimit<T>(
  clock: Clock,
  limitMs: number,
  work: () => Promise<T>,
  signal?: AbortSignal,
  timer: TimerKind = "awaited",
): Promise<Limited<T>> {
  return new Promise((resolve) => {
    const settle = (outcome: Limited<T>) => {
      cancel();
      signal?.removeEventListener("abort", timeOut);
      resolve(outcome);
    };
    const timeOut = () => settle({ kind: "timed_out" });
    const cancel = clock.startTimer(limitMs, timeOut, timer);
    signal?.addEventListener("abort", timeOut, { once: true });
    const fail = (error: unknown) => settle({ kind: "threw", error });
    try {
      // A thenable that user code returns need not be a native promise.
      Promise.resolve(work()).then((value) => settle({ kind: "returned", value }), fail);
    } catch (error) {
      fail(error);
    }
  });
}
