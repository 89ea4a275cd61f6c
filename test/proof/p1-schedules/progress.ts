/** What has been explored, over all sittings on the same code. */
import type { Coverage, Sitting, TierResult } from "../harness/tier.ts";
import { boundText } from "./bound.ts";
import type { Exploration } from "./explore.ts";
import { unitsOf } from "./units.ts";
import { type Unit, unitName } from "./work.ts";

type Explored = Omit<Exploration, "endTexts">;

interface Kept {
  /** Units that are exhausted, or too large to be. */
  readonly done: readonly string[];
  readonly tooLarge: readonly { readonly unit: string; readonly positions: number }[];
  readonly reached: Readonly<Record<string, number>>;
}

export class Progress {
  readonly #done: Set<string>;
  readonly #tooLarge: { readonly unit: string; readonly positions: number }[];
  /** Of this sitting. */
  readonly explored = new Map<string, Explored>();
  readonly reached: Record<string, number>;

  constructor({ done, tooLarge, reached }: Kept) {
    this.#done = new Set(done);
    this.#tooLarge = [...tooLarge];
    this.reached = { ...reached };
  }

  isDone(unit: Unit): boolean {
    return this.#done.has(unitName(unit));
  }

  add(unit: Unit, explored: Explored): void {
    const name = unitName(unit);
    this.#done.add(name);
    if (!explored.isWhole) this.#tooLarge.push({ unit: name, positions: explored.positions });
    this.explored.set(name, explored);
    for (const [what, count] of Object.entries(explored.reached)) {
      this.reached[what] = (this.reached[what] ?? 0) + count;
    }
  }

  get tooLarge(): Kept["tooLarge"] {
    return this.#tooLarge;
  }

  kept(): Kept {
    return { done: [...this.#done], tooLarge: this.#tooLarge, reached: this.reached };
  }
}

export function progressFrom(resume: unknown): Progress {
  const isKept = typeof resume === "object" && resume !== null && "done" in resume;
  return new Progress(isKept ? (resume as Kept) : { done: [], tooLarge: [], reached: {} });
}

export function resultOf(volume: Sitting["volume"], progress: Progress): TierResult {
  const units = unitsOf(volume);
  const isAll = units.every((unit) => progress.isDone(unit));
  const explored = [...progress.explored.values()];
  const reached: Record<string, number> = {};
  for (const one of explored) {
    for (const [what, count] of Object.entries(one.reached)) reached[what] = (reached[what] ?? 0) + count;
  }
  return {
    covered: units.map((unit) => coverageOf(unit, progress)),
    reached,
    faults: {},
    versions: { node: process.versions.node },
    notRun: progress.tooLarge.map(({ unit, positions }) => ({
      what: `all of ${unit}`,
      reason: `stopped at ${positions.toLocaleString("en-US")} positions; nothing wrong was seen in these`,
    })),
    resume: isAll ? null : progress.kept(),
  };
}

function coverageOf(unit: Unit, progress: Progress): Coverage {
  const explored = progress.explored.get(unitName(unit));
  const isTooLarge = progress.tooLarge.some((one) => one.unit === unitName(unit));
  const count = unit.counts ? explored?.schedules : explored?.positions;
  return {
    what: `${unit.counts ? "schedules" : "positions"}, ${unit.configuration}`,
    bound: boundText(unit.bound, unit.losses),
    count: count ?? 0,
    of: "all",
    complete: progress.isDone(unit) && !isTooLarge,
  };
}
