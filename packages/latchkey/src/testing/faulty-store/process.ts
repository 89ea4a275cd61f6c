/** The process that calls a faulty store: it numbers its calls, and it can die. */
import type { RecordKey } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import {
  atOnce,
  type Course,
  courseOf,
  type Fault,
  type FaultPlan,
  proceeds,
  type StorePort,
} from "./fault.ts";

export class FaultyProcess {
  readonly #plan: FaultPlan;
  /** What is told of its death, while it waits for something. */
  readonly #waiting = new Set<() => void>();
  #dead = false;
  #calls = 0;

  constructor(plan: FaultPlan) {
    this.#plan = plan;
  }

  kill(): void {
    this.#dead = true;
    for (const tell of this.#waiting) tell();
    this.#waiting.clear();
  }

  get isDead(): boolean {
    return this.#dead;
  }

  /** Asks the plan about the next call. A process that has died by then gets no further. */
  courseOf(port: StorePort, key: RecordKey | null): Course | Promise<Course> {
    this.#calls += 1;
    const call = { number: this.#calls, port, key };
    const fault = this.#dead ? "crash_before" : this.#plan(call);
    return fault instanceof Promise ? fault.then((told) => this.#courseOf(told)) : this.#courseOf(fault);
  }

  #courseOf(fault: Fault): Course {
    return courseOf(this.#dead ? "crash_before" : fault);
  }

  /** What `task` brings, or null when the process dies first. Throws what `task` throws. */
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

  /** The reply is on its way. False: the process dies first. */
  async hears({ until }: Course): Promise<boolean> {
    if (until === atOnce) return !this.#dead;
    return (await this.outlives(until)) !== null;
  }

  /** Ends here for a process that is dead or, by this course, dies now. */
  async hearing(course: Course): Promise<void> {
    if (course.hears === "nothing") this.kill();
    if (this.#dead) await never();
  }

  /** A reply of which a process that has died meanwhile hears nothing. */
  async #heard<T>(reply: Promise<T>): Promise<T> {
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
    const course = await this.courseOf(port, key);
    if (course === proceeds) return this.#heard(act());
    if (course.effect === "late") void course.until.then(act).catch(() => {});
    const reply = course.effect === "now" ? act() : null;
    // What nobody hears may fail unheard.
    await reply?.catch(() => {});
    if (course.hears === "reply") await this.hears(course);
    await this.hearing(course);
    if (course.hears !== "reply" || reply === null) throw failureOf(port, course);
    return reply;
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}

export function failureOf(port: StorePort, { hears }: Course): StoreError {
  const certainty = hears === "not_sent" ? "not_sent" : "in_doubt";
  return new StoreError(certainty, { message: `Planned fault in ${port}: ${certainty}` });
}
