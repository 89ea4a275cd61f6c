/** A sequence, as numbers: what is drawn from a seed, cut, lowered, and played. */
import type { Draw } from "../harness/seeded.ts";

export interface Sequence {
  /** What holds for all of it. */
  readonly head: readonly number[];
  /** One list for each step: any list is one, a number that is too large wraps, and where it ends the plainest happens. */
  readonly steps: readonly (readonly number[])[];
}

const numbersBelow = 65_536;

export interface Size {
  readonly stepsMin: number;
  readonly stepsMax: number;
  /** How many numbers a step may use before the plainest happens. */
  readonly numbers: number;
}

const headNumbers = 8;

export function drawSequence(draw: Draw, { stepsMin, stepsMax, numbers }: Size): Sequence {
  const list = (length: number) => Array.from({ length }, () => draw.below(numbersBelow));
  const length = stepsMin + draw.below(stepsMax - stepsMin + 1);
  return { head: list(headNumbers), steps: Array.from({ length }, () => list(numbers)) };
}

/** What playing a sequence has shown. */
export interface Played {
  /** What differs, or must not be; null: nothing. */
  readonly broken: string | null;
  /** Whether a store has not answered. */
  readonly isStuck: boolean;
  /** How many steps were begun. */
  readonly steps: number;
  /** Every step, to be read. */
  readonly lines: readonly string[];
  /** Of all replies and of the end. */
  readonly hash: string;
  readonly reached: ReadonlyMap<string, number>;
}

export type Play = (sequence: Sequence) => Promise<Played>;

/** The shortest sequence with the lowest numbers that still fails. */
export async function shortest(failing: Sequence, play: Play, triesMax: number): Promise<Sequence> {
  let best = failing;
  let tries = 0;
  const attempt = async (candidate: Sequence): Promise<boolean> => {
    if (tries >= triesMax) return false;
    tries += 1;
    const { broken, steps } = await play(candidate);
    if (broken === null) return false;
    // What comes after it does not matter.
    best = { ...candidate, steps: candidate.steps.slice(0, steps) };
    return true;
  };
  await attempt(failing);
  for (let before: Sequence | null = null; before !== best && tries < triesMax; ) {
    before = best;
    await withoutSteps(() => best, attempt);
    if (before === best) await withZeros(() => best, attempt);
  }
  return best;
}

type Attempt = (candidate: Sequence) => Promise<boolean>;

async function withoutSteps(best: () => Sequence, attempt: Attempt): Promise<void> {
  for (let size = best().steps.length; size >= 1; size = Math.floor(size / 2)) {
    for (let at = best().steps.length - size; at >= 0; at -= size) {
      const { head, steps } = best();
      await attempt({ head, steps: [...steps.slice(0, at), ...steps.slice(at + size)] });
    }
  }
}

/** The first number of a step says what it is: that one stays. */
async function withZeros(best: () => Sequence, attempt: Attempt): Promise<void> {
  for (let place = 0; place < best().head.length; place++) {
    const { head, steps } = best();
    if (head[place] !== 0) await attempt({ head: head.with(place, 0), steps });
  }
  for (let step = 0; step < best().steps.length; step++) {
    const { head, steps } = best();
    const shorter = withoutTail(steps[step] ?? []);
    for (const list of shorter) {
      if (await attempt({ head, steps: steps.with(step, list) })) break;
    }
  }
}

function withoutTail(list: readonly number[]): readonly (readonly number[])[] {
  return [1, 2, 3, 4, 6, 8].filter((length) => length < list.length).map((length) => list.slice(0, length));
}
