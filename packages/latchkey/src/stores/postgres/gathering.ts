/**
 * Calls that are sent together. While fewer than `sentMax` calls are under way, a call is sent at once. Otherwise calls wait,
 * and are sent as one statement as soon as fewer are under way again. So a few calls do not wait for each other, and of many
 * calls one statement is under way at a time. No call joins a statement that has been sent.
 */
import { AsyncResource } from "node:async_hooks";
import type { CancelTimer, Clock } from "../../ports.ts";

/** Bounds what one statement does, and what one reply holds. */
const callsMax = 100;

/** A statement that takes longer, for example on a dead connection, no longer keeps others waiting. */
export const patienceMs = 20;

export interface GatheredCall<Result> {
  /** Carries its caller's asynchronous context. Otherwise it would be sent in the context of a caller that has its answer already. */
  readonly caller: AsyncResource;
  readonly result: PromiseWithResolvers<Result>;
}

export interface GatheringParts<Call> {
  readonly clock: Pick<Clock, "startTimer">;
  readonly sentMax: number;
  /** Null: however long a statement takes, the others wait for it, since all of them have one connection. */
  readonly patienceMs: number | null;
  /**
   * Whether calls come in bursts, as after a batch of other calls. The first call of a burst then waits for the others: for one
   * microtask, in which all callers that waited for the same reply continue.
   */
  readonly inBursts: boolean;
  /** Sends the calls as one statement and settles them. Never rejects. */
  send(batch: readonly Call[]): Promise<void>;
}

export class Gathering<Result, Call extends GatheredCall<Result>> {
  readonly #parts: GatheringParts<Call>;
  #waiting: Call[] = [];
  #sent = 0;
  #isBurst = false;

  constructor(parts: GatheringParts<Call>) {
    this.#parts = parts;
  }

  add(call: Call): Promise<Result> {
    this.#waiting.push(call);
    if (!this.#parts.inBursts) this.#sendWaiting();
    else if (!this.#isBurst) this.#awaitBurst();
    return call.result.promise;
  }

  #awaitBurst(): void {
    this.#isBurst = true;
    queueMicrotask(() => {
      this.#isBurst = false;
      this.#sendWaiting();
    });
  }

  #sendWaiting(): void {
    while (this.#sent < this.#parts.sentMax && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, callsMax);
      void batch[0]?.caller.runInAsyncScope(() => this.#run(batch));
    }
  }

  async #run(batch: readonly Call[]): Promise<void> {
    this.#sent += batch.length;
    let isCounted = true;
    const next = () => {
      if (!isCounted) return;
      isCounted = false;
      this.#sent -= batch.length;
      this.#sendWaiting();
    };
    try {
      const cancel = this.#losePatience(next);
      await this.#parts.send(batch);
      cancel();
    } catch (error) {
      // The clock is the application's, and may throw.
      for (const { result } of batch) result.reject(error);
    } finally {
      next();
    }
  }

  #losePatience(next: () => void): CancelTimer {
    const { clock, patienceMs: limitMs } = this.#parts;
    // The statement has a time limit of its own, which keeps the process alive.
    return limitMs === null ? () => {} : clock.startTimer(limitMs, next, "background");
  }
}

export function gatheredCall<Result>(name: string): GatheredCall<Result> {
  return { caller: new AsyncResource(name), result: Promise.withResolvers<Result>() };
}
