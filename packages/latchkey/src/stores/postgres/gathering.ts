/**
 * Calls that are sent together. While fewer than `sentMax` calls are under way, a call is sent at once. Otherwise calls wait,
 * and are sent as one statement as soon as fewer are under way again. So a few calls do not wait for each other, and of many
 * calls one statement is under way at a time. No call joins a statement that has been sent.
 */
import { AsyncResource } from "node:async_hooks";
import type { CancelTimer, Clock } from "../../ports.ts";

/** Bounds what one statement does, and what one reply holds. */
const callsMax = 100;

/** No call waits longer than this for statements that do not end, for example on a dead connection. */
export const patienceMs = 20;

export interface GatheredCall<Result> {
  /** Carries its caller's asynchronous context. Otherwise it would be sent in the context of a caller that has its answer already. */
  readonly caller: AsyncResource;
  readonly result: PromiseWithResolvers<Result>;
}

export interface GatheringParts<Call> {
  readonly clock: Pick<Clock, "startTimer">;
  readonly sentMax: number;
  /** How long calls wait. Null: however long a statement takes, since all of them have one connection. */
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
  /** How many calls are under way, without those that nobody waits for any more. */
  #sent = 0;
  /** Counts how often calls stopped waiting for those under way. */
  #losses = 0;
  #cancelPatience: CancelTimer | null = null;
  #isBurst = false;

  constructor(parts: GatheringParts<Call>) {
    this.#parts = parts;
  }

  /** Runs a call by itself, at once. Null if it has to wait, so that it must be added. */
  alone(run: () => Promise<Result>): Promise<Result> | null {
    if (this.#waiting.length > 0 || this.#sent >= this.#parts.sentMax) return null;
    const end = this.#begin(1);
    const result = run();
    result.then(end, end);
    return result;
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
      const end = this.#begin(batch.length);
      void batch[0]?.caller.runInAsyncScope(() => this.#parts.send(batch)).finally(end);
    }
    if (this.#waiting.length > 0) this.#startPatience();
    else this.#endPatience();
  }

  /** Counts calls as under way until the returned function is called, which must happen once. */
  #begin(calls: number): () => void {
    const losses = this.#losses;
    this.#sent += calls;
    return () => {
      if (losses !== this.#losses) return;
      this.#sent -= calls;
      this.#sendWaiting();
    };
  }

  #startPatience(): void {
    const { clock, patienceMs: limitMs } = this.#parts;
    // The statement has a time limit of its own, which keeps the process alive.
    if (limitMs === null || this.#cancelPatience !== null) return;
    try {
      this.#cancelPatience = clock.startTimer(limitMs, () => this.#losePatience(), "background");
    } catch (error) {
      // The clock is the application's, and may throw.
      for (const { result } of this.#waiting.splice(0)) result.reject(error);
    }
  }

  #losePatience(): void {
    this.#cancelPatience = null;
    this.#losses += 1;
    this.#sent = 0;
    this.#sendWaiting();
  }

  #endPatience(): void {
    this.#cancelPatience?.();
    this.#cancelPatience = null;
  }
}

export function gatheredCall<Result>(name: string): GatheredCall<Result> {
  return { caller: new AsyncResource(name), result: Promise.withResolvers<Result>() };
}
