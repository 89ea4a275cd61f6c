/**
 * Sends calls together that are made in one turn of the event loop, or in one burst, as one statement. While as many are under
 * way as may be, the next ones wait until one of them ends, and are then sent together. No call joins a statement that has been
 * sent.
 */
import { AsyncResource } from "node:async_hooks";
import type { CancelTimer, Clock } from "../../../ports.ts";

/** Bounds what one statement does, and what one reply holds. */
const callsMax = 100;

/** After so long without a reply, for example from a dead connection, the oldest statement no longer keeps others waiting. */
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
  /** How long calls wait for a reply. Null: however long a statement takes, since all of them have one connection. */
  readonly patienceMs: number | null;
  /** Runs `send` once the calls that are made together with the first one have been made. */
  readonly together: (send: () => void) => void;
  /** Sends the calls as one statement and settles them. Never rejects. */
  send(batch: readonly Call[]): Promise<void>;
}

export class Gathering<Result, Call extends GatheredCall<Result>> {
  readonly #parts: GatheringParts<Call>;
  #waiting: Call[] = [];
  /** What keeps others waiting, oldest first, and how much of `sentMax` it takes. */
  readonly #underWay = new Map<readonly Call[], number>();
  #sent = 0;
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
      const size = this.#parts.counted === "calls" ? batch.length : 1;
      this.#underWay.set(batch, size);
      this.#sent += size;
      void batch[0]?.caller.runInAsyncScope(this.#run, this, batch);
    }
    if (this.#waiting.length > 0) this.#startPatience();
  }

  async #run(batch: readonly Call[]): Promise<void> {
    try {
      await this.#parts.send(batch);
    } catch (error) {
      for (const { result } of batch) result.reject(error);
    }
    this.#end(batch);
  }

  /** From now on this batch keeps no other call waiting. */
  #end(batch: readonly Call[]): void {
    const size = this.#underWay.get(batch);
    if (size === undefined) return;
    this.#underWay.delete(batch);
    this.#sent -= size;
    if (this.#cancelPatience !== null) this.#endPatience(this.#cancelPatience);
    this.#sendWaiting();
  }

  #startPatience(): void {
    const { clock, patienceMs: limitMs } = this.#parts;
    if (limitMs === null || this.#cancelPatience !== null) return;
    const lose = () => {
      this.#cancelPatience = null;
      const [oldest] = this.#underWay.keys();
      if (oldest !== undefined) this.#end(oldest);
    };
    try {
      // The statement has a time limit of its own, which keeps the process alive.
      this.#cancelPatience = clock.startTimer(limitMs, lose, "background");
    } catch (error) {
      // The clock is the application's, and may throw.
      for (const { result } of this.#waiting.splice(0)) result.reject(error);
    }
  }

  #endPatience(cancel: CancelTimer): void {
    this.#cancelPatience = null;
    try {
      cancel();
    } catch {
      // As above. A timer that fires nevertheless only lets one more statement go.
    }
  }
}

/** For calls that follow the same reply: until all who waited for it have continued. */
export function inOneBurst(send: () => void): void {
  queueMicrotask(send);
}

export function gatheredCall<Result>(name: string): GatheredCall<Result> {
  return { caller: new AsyncResource(name), result: Promise.withResolvers<Result>() };
}
