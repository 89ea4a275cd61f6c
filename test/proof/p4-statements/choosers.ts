/** Who decides what happens next. */
import type { Draw } from "../harness/seeded.ts";

export type OptionKind = "move" | "network" | "moment" | "fault";

export interface Option {
  /** The same in every repetition. */
  readonly label: string;
  readonly kind: OptionKind;
  /** Whose it is; -1: nobody's. */
  readonly session: number;
}

export interface Chooser {
  /** The index of one of them. */
  choose(options: readonly Option[]): number;
}

interface Fork {
  readonly labels: readonly string[];
  index: number;
}

/** Where a depth-first exploration is: the choices that led to the last end. JSON. */
export interface Path {
  readonly forks: readonly { readonly labels: readonly string[]; readonly index: number }[];
}

/** Every interleaving once: each run repeats the choices up to the last fork that has something left, and goes on. */
export class DepthFirst implements Chooser {
  #forks: Fork[];
  #at = 0;
  /** How often a repetition met other options than the first time. */
  diverged = 0;
  /** Where that was last. */
  lastDivergence: { readonly before: readonly string[]; readonly now: readonly string[] } | null = null;
  done = false;

  constructor(from: Path | null = null) {
    this.#forks = (from?.forks ?? []).map(({ labels, index }) => ({ labels, index }));
  }

  choose(options: readonly Option[]): number {
    const labels = options.map(({ label }) => label);
    const fork = this.#forks[this.#at];
    const known = fork !== undefined && fork.labels.join("\n") === labels.join("\n");
    if (fork !== undefined && !known) {
      this.diverged += 1;
      this.lastDivergence = { before: fork.labels, now: labels };
      this.#forks.length = this.#at;
    }
    const here = known ? fork : { labels, index: 0 };
    this.#forks[this.#at] = here;
    this.#at += 1;
    return here.index;
  }

  /** On to the next one. */
  advance(): void {
    this.#forks.length = this.#at;
    this.#at = 0;
    for (let last = this.#forks.at(-1); last !== undefined; last = this.#forks.at(-1)) {
      last.index += 1;
      if (last.index < last.labels.length) return;
      this.#forks.pop();
    }
    this.done = true;
  }

  get path(): Path {
    return { forks: this.#forks };
  }
}

/** Choices that were written down; after the last of them the first option. */
export class Given implements Chooser {
  readonly #picks: readonly number[];
  #at = 0;

  constructor(picks: readonly number[]) {
    this.#picks = picks;
  }

  choose(options: readonly Option[]): number {
    const pick = this.#picks[this.#at] ?? 0;
    this.#at += 1;
    return Math.min(pick, options.length - 1);
  }
}

/**
 * By chance, in one of two ways: any move is as likely as any other; or a session goes on until something stops it, three
 * times out of four.
 */
export class Drawn implements Chooser {
  readonly #draw: Draw;
  readonly #lazy: boolean;
  readonly #faultOneIn: number;
  #last = -1;

  constructor(draw: Draw) {
    this.#draw = draw;
    this.#lazy = draw.oneIn(2);
    this.#faultOneIn = draw.pick([4, 10, 30]);
  }

  choose(options: readonly Option[]): number {
    const draw = this.#draw;
    const index = (kinds: readonly OptionKind[]) => {
      const some = options.flatMap(({ kind }, at) => (kinds.includes(kind) ? [at] : []));
      return some.length === 0 ? null : draw.pick(some);
    };
    const fault = draw.oneIn(this.#faultOneIn) ? index(["fault"]) : null;
    const moment = fault ?? (draw.oneIn(6) ? index(["moment"]) : null);
    if (moment !== null) return moment;
    const same = options.findIndex(({ kind, session }) => kind === "move" && session === this.#last);
    const picked =
      this.#lazy && same >= 0 && !draw.oneIn(4)
        ? same
        : (index(["move", "network"]) ?? index(["moment", "fault"]));
    this.#last = options[picked ?? 0]?.session ?? -1;
    return picked ?? 0;
  }
}
