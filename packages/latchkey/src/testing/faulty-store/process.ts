/** The process that calls a faulty store: it numbers its calls, and it can die. */
import type { RecordKey } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import {
  atOnce,
  type Fault,
  type FaultOutcome,
  type FaultPlan,
  outcomeOf,
  proceeds,
  type StorePort,
} from "./fault.ts";

export class FaultyProcess {
  readonly #plan: FaultPlan;
  /** Called when the process dies, for everything that it waits for. */
  readonly #waiting = new Set<() => void>();
  #dead = false;
  #calls = 0;

  constructor(plan: FaultPlan) {
    this.#plan = plan;
  }

  kill(): void {
    this.#dead = true;
    for (const notify of this.#waiting) notify();
    this.#waiting.clear();
  }

  get isDead(): boolean {
    return this.#dead;
  }

  /** Asks the plan about the next call. A process that has died by then gets no further. */
  outcomeOf(port: StorePort, key: RecordKey | null): FaultOutcome | Promise<FaultOutcome> {
    this.#calls += 1;
    const call = { number: this.#calls, port, key };
    const fault = this.#dead ? "crash_before" : this.#plan(call);
    return fault instanceof Promise
      ? fault.then((settled) => this.#outcomeOf(settled))
      : this.#outcomeOf(fault);
  }

  #outcomeOf(fault: Fault): FaultOutcome {
    return outcomeOf(this.#dead ? "crash_before" : fault);
  }

  /** The value of `task`, or null when the process dies first. Throws what `task` throws. */
  outlives<T>(task: Promise<T>): Promise<{ readonly value: T } | null> {
    return new Promise((resolve, reject) => {
      if (this.#dead) return resolve(null);
      const dies = () => resolve(null);
      this.#waiting.add(dies);
      task.then(
        (value) => {
          this.#waiting.delete(dies);
          resolve({ value });
        },
        (error: unknown) => {
          this.#waiting.delete(dies);
          reject(error);
        },
      );
    });
  }

  /** Waits until the reply has arrived. False if the process dies first. */
  async replied({ until }: FaultOutcome): Promise<boolean> {
    if (until === atOnce) return !this.#dead;
    return (await this.outlives(until)) !== null;
  }

  /** Never settles for a process that is dead or that this fault kills. */
  async stopIfDead(planned: FaultOutcome): Promise<void> {
    if (planned.callerGets === "nothing") this.kill();
    if (this.#dead) await never();
  }

  /** The reply; never settles for a process that has died in the meantime. */
  async #unlessDead<T>(reply: Promise<T>): Promise<T> {
    try {
      const value = await reply;
      return this.#dead ? await never() : value;
    } catch (error) {
      if (this.#dead) await never();
      throw error;
    }
  }

  /** Makes one call that either takes effect as a whole or not at all. */
  async call<T>(port: StorePort, key: RecordKey | null, act: () => Promise<T>): Promise<T> {
    const planned = await this.outcomeOf(port, key);
    if (planned === proceeds) return this.#unlessDead(act());
    if (planned.effect === "late") void planned.until.then(act).catch(() => {});
    const reply = planned.effect === "now" ? act() : null;
    // The caller may never get this reply, so its rejection must count as handled.
    await reply?.catch(() => {});
    if (planned.callerGets === "reply") await this.replied(planned);
    await this.stopIfDead(planned);
    if (planned.callerGets !== "reply" || reply === null) throw failureOf(port, planned);
    return reply;
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}

export function failureOf(port: StorePort, { callerGets }: FaultOutcome): StoreError {
  const certainty = callerGets === "not_sent" ? "not_sent" : "in_doubt";
  return new StoreError(certainty, { message: `Planned fault in ${port}: ${certainty}` });
}
