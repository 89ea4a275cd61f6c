/** The process that calls a faulty store: it numbers its calls, and it can die. */
import type { RecordKey } from "../../engine/record.ts";
import { StoreError } from "../../errors.ts";
import { type Course, courseOf, type FaultPlan, type StorePort } from "./fault.ts";

export class FaultyProcess {
  readonly #plan: FaultPlan;
  readonly #death = Promise.withResolvers<null>();
  #dead = false;
  #calls = 0;

  constructor(plan: FaultPlan) {
    this.#plan = plan;
  }

  kill(): void {
    this.#dead = true;
    this.#death.resolve(null);
  }

  get isDead(): boolean {
    return this.#dead;
  }

  /** Asks the plan about the next call. A process that has died by then gets no further. */
  async courseOf(port: StorePort, key: RecordKey | null): Promise<Course> {
    this.#calls += 1;
    const call = { number: this.#calls, port, key };
    const fault = this.#dead ? "crash_before" : await this.#plan(call);
    return courseOf(this.#dead ? "crash_before" : fault);
  }

  /** What `task` brings, or null when the process dies first. Throws what `task` throws. */
  outlives<T>(task: Promise<T>): Promise<{ readonly value: T } | null> {
    return Promise.race([task.then((value) => ({ value })), this.#death.promise]);
  }

  /** Ends here for a process that is dead or, by this course, dies now. */
  async hearing(course: Course): Promise<void> {
    if (course.hears === "nothing") this.kill();
    if (this.#dead) await new Promise(() => {});
  }

  /** Makes one call that either takes effect as a whole or not at all. */
  async call<T>(port: StorePort, key: RecordKey | null, act: () => Promise<T>): Promise<T> {
    const course = await this.courseOf(port, key);
    if (course.effect === "late") void course.until.then(act).catch(() => {});
    const reply = course.effect === "now" ? act() : null;
    // What nobody hears may fail unheard.
    await reply?.catch(() => {});
    if (course.hears === "reply") await this.outlives(course.until);
    await this.hearing(course);
    if (course.hears !== "reply" || reply === null) throw failureOf(port, course);
    return reply;
  }
}

export function failureOf(port: StorePort, { hears }: Course): StoreError {
  const certainty = hears === "not_sent" ? "not_sent" : "in_doubt";
  return new StoreError(certainty, { message: `Planned fault in ${port}: ${certainty}` });
}
