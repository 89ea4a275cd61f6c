/** The one way in which a call to the store is repeated until its outcome is known or the time for it is over. */
import { StoreError } from "../errors.ts";
import { type Clock, type Ports, pause, type Random } from "../ports.ts";
import { type RetryPauses, retryPauseMs, storePauses } from "./retry-pause.ts";
import { withLimit } from "./time-limit.ts";

export interface RetryTerms {
  /** On the monotonic clock: no try begins after it, and one that is still running then is abandoned. */
  readonly untilMs: number;
  /** Default: `storePauses`. */
  readonly pauses?: RetryPauses;
  /** Default: no limit but the time. */
  readonly triesMax?: number;
  /** Ends it early: the running try is abandoned, and none follows. */
  readonly signal?: AbortSignal;
  /** Whether an error is worth another try; others are thrown at once. Default: every error is. */
  readonly isRetryable?: (error: unknown) => boolean;
}

export type Retried<T> =
  /** `tries` is more than 1 when earlier ones failed: what they asked for may have been done. */
  | { readonly kind: "returned"; readonly value: T; readonly tries: number }
  /** `error` of the last try; undefined when it did not settle in time. */
  | { readonly kind: "gave_up"; readonly error: unknown };

/**
 * Repeats `ask` until it returns. A try that never settles is bounded, too; otherwise its attempt would keep the heartbeat,
 * and with it the key, for as long as the process lives. `ask` must be safe to repeat, also while an abandoned try is still
 * running.
 *
 * @param ask called with the milliseconds that are left, at least 1
 * @throws what `isRetryable` rejects
 */
export async function retryUntil<T>(
  { clock, random }: { readonly clock: Clock; readonly random: Pick<Random, "fraction"> },
  { untilMs, pauses = storePauses, triesMax = Number.POSITIVE_INFINITY, signal, isRetryable }: RetryTerms,
  ask: (leftMs: number) => Promise<T>,
): Promise<Retried<T>> {
  for (let tries = 1; ; tries++) {
    const leftMs = Math.max(1, untilMs - clock.monotonicMs());
    const asked = await withLimit(clock, leftMs, () => ask(leftMs), signal);
    if (asked.kind === "returned") return { ...asked, tries };
    const error = asked.kind === "threw" ? asked.error : undefined;
    if (asked.kind === "threw" && isRetryable?.(error) === false) throw error;
    const pauseLeftMs = untilMs - clock.monotonicMs();
    if (signal?.aborted || tries >= triesMax || pauseLeftMs <= 0) return { kind: "gave_up", error };
    await pause(clock, Math.min(retryPauseMs(tries, random, pauses), pauseLeftMs), signal);
    if (signal?.aborted) return { kind: "gave_up", error };
  }
}

/** Four of them take at most three seconds. */
const callPauses: RetryPauses = { firstMs: 200, maxMs: 1_600 };

/** Five tries of Postgres by its default limits (20 seconds for a connection and a statement), and the pauses. */
const callLimitMs = 120_000;

/**
 * Makes up to five tries in two minutes. `run` must be safe to repeat, because a lost reply does not show whether it was done,
 * also while an abandoned try is still running.
 *
 * @throws {StoreError} of the last try, or of one that was `in_doubt`; `in_doubt` where the last one did not settle
 * @throws any other error of `run` at once
 */
export async function retryStoreCall<T>(ports: Ports, run: () => Promise<T>): Promise<T> {
  let doubt: unknown;
  const isRetryable = (error: unknown) => {
    if (!(error instanceof StoreError)) return false;
    if (error.certainty === "in_doubt") doubt = error;
    return true;
  };
  const untilMs = ports.clock.monotonicMs() + callLimitMs;
  const asked = await retryUntil(ports, { untilMs, pauses: callPauses, triesMax: 5, isRetryable }, run);
  if (asked.kind === "returned") return asked.value;
  throw doubt ?? asked.error ?? new StoreError("in_doubt", { message: "The store gave no reply" });
}
