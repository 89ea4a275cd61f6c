/** What a sitting has run, and what is left for the next. */
import type { Moment } from "./course.ts";
import type { Death, Died } from "./deaths.ts";
import type { Mode } from "./modes.ts";
import { addCounts, type Counts } from "./reach.ts";

/** As JSON: the points before this one are done; counters of the mode that is not. */
interface Left {
  readonly next: number;
  readonly reached: Readonly<Record<string, Counts>>;
}

const faultNames: Readonly<Record<Moment, string>> = {
  before: "SIGKILL before a call",
  flight: "SIGKILL with a call in flight",
  late: "SIGKILL with a call that arrives late",
  after: "SIGKILL after a reply",
};

export class Tally {
  /** How many points earlier sittings have done. */
  readonly before: number;
  count = 0;
  reached: Counts = {};
  faults: Counts = {};
  readonly #deaths: readonly Death[];
  readonly #byMode = new Map<string, Counts>();
  readonly #died = new Map<Mode, number>();

  /** @param resume what an earlier sitting has left */
  constructor(resume: unknown, deaths: readonly Death[]) {
    const { next, reached } = isLeft(resume) ? resume : { next: 0, reached: {} };
    this.before = next;
    this.#deaths = deaths;
    for (const [mode, counts] of Object.entries(reached)) this.#byMode.set(mode, counts);
  }

  add({ death: { mode, point }, reached }: Died): void {
    this.count += 1;
    this.reached = addCounts(this.reached, reached);
    this.faults = addCounts(this.faults, { [faultNames[point.moment]]: 1 });
    this.#byMode.set(mode.name, addCounts(this.reachedIn(mode), reached));
    this.#died.set(mode, (this.#died.get(mode) ?? 0) + 1);
  }

  reachedIn({ name }: Mode): Counts {
    return this.#byMode.get(name) ?? {};
  }

  get isComplete(): boolean {
    return this.#done === this.#deaths.length;
  }

  /** All that is begun is brought to its end, in order. */
  get #done(): number {
    return this.before + this.count;
  }

  /** Modes whose last point was in this sitting. */
  get finished(): readonly Mode[] {
    const left = new Set(this.#deaths.slice(this.#done).map(({ mode }) => mode));
    return [...this.#died.keys()].filter((mode) => !left.has(mode));
  }

  coverageOf(those: readonly Mode[]): { readonly count: number; readonly isComplete: boolean } {
    const count = those.reduce((sum, mode) => sum + (this.#died.get(mode) ?? 0), 0);
    const isComplete = !this.#deaths.slice(this.#done).some(({ mode }) => those.includes(mode));
    return { count, isComplete };
  }

  get left(): Left {
    const open = new Set(this.#deaths.slice(this.#done).map(({ mode }) => mode.name));
    return {
      next: this.#done,
      reached: Object.fromEntries([...this.#byMode].filter(([name]) => open.has(name))),
    };
  }
}

function isLeft(resume: unknown): resume is Left {
  return typeof resume === "object" && resume !== null && "next" in resume && "reached" in resume;
}
