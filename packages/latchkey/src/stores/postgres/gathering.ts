/**
 * Calls that are sent together, as one statement: those of one turn of the event loop, for example, so that no call waits for
 * the network. While as many are under way as may be, the next ones wait until one of them ends, and are then sent together.
 * No call joins a statement that has been sent.
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
  /** While so many calls or statements are under way, the next calls wait. */
  readonly sentMax: number;
  readonly counted: "calls" | "statements";
  /** How long calls wait. Null: however long a statement takes, since all of them have one connection. */
  readonly patienceMs: number | null;
  /** Runs `send` once the calls that are made together with the first one have been made. */
  readonly together: (send: () => void) => void;
  /** Sends the calls as one statement and settles them. Never rejects. */
  send(batch: readonly Call[]): Promise<void>;
}

export class Gathering<Result, Call extends GatheredCall<Result>> {
  readonly #parts: GatheringParts<Call>;
  #waiting: Call[] = [];
  /** How many are under way, without those that nobody waits for any more. */
  #sent = 0;
  /** Counts how often calls stopped waiting for those under way. */
  #losses = 0;
  #cancelPatience: CancelTimer | null = null;
  #isGathering = false;

  constructor(parts: GatheringParts<Call>) {
    this.#parts = parts;
  }

  add(call: Call): Promise<Result> {
    this.#waiting.push(call);
    if (!this.#isGathering) {
      this.#isGathering = true;
      this.#parts.together(() => {
        this.#isGathering = false;
        this.#sendWaiting();
      });
    }
    return call.result.promise;
  }

  #sendWaiting(): void {
    while (this.#sent < this.#parts.sentMax && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, callsMax);
      const end = this.#begin(this.#parts.counted === "calls" ? batch.length : 1);
      void batch[0]?.caller.runInAsyncScope(() => this.#parts.send(batch)).finally(end);
    }
    if (this.#waiting.length > 0) this.#startPatience();
    else this.#endPatience();
  }

  /** Counts them as under way until the returned function is called, which must happen once. */
  #begin(count: number): () => void {
    const losses = this.#losses;
    this.#sent += count;
    return () => {
      if (losses !== this.#losses) return;
      this.#sent -= count;
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

/** Node's own, also where a test has replaced it since. Edge workers may lack it. */
const setRealImmediate = typeof setImmediate === "function" ? setImmediate : queueMicrotask;

/** For calls of callers that do not know of each other: until all that has arrived is read. */
export function inOneTurn(send: () => void): void {
  setRealImmediate(send);
}

/** For calls that follow the same reply: until all who waited for it have continued. */
export function inOneBurst(send: () => void): void {
  queueMicrotask(send);
}

export function gatheredCall<Result>(name: string): GatheredCall<Result> {
  return { caller: new AsyncResource(name), result: Promise.withResolvers<Result>() };
}
