/** The stores side by side: sequences go through them one after the other. */
import { type Clock, systemPorts } from "../../../packages/latchkey/src/ports.ts";
import { within } from "../../support/until.ts";
import type { Bench, Place, StoreKind, Subject } from "./bench.ts";
import { type CallResult, observed, type Texts } from "./text.ts";

/** Of one step on one store; the slowest takes some milliseconds. */
const defaultLimitMs = 20_000;
/** For giving back what a store holds, which one that is stuck may never do. */
const closeLimitMs = 10_000;

export class Lane {
  readonly benches: readonly Bench[];
  readonly #limitMs: number;

  private constructor(benches: readonly Bench[], limitMs: number) {
    this.benches = benches;
    this.#limitMs = limitMs;
  }

  /** @param limitMs when a store that has not answered by then is taken to be stuck */
  static async open(kinds: readonly StoreKind[], place: Place, limitMs = defaultLimitMs): Promise<Lane> {
    const benches = await Promise.all(kinds.map((kind) => kind.open(place)));
    return new Lane(
      benches.filter((bench) => bench !== null),
      limitMs,
    );
  }

  async begin(clock: Clock): Promise<Side> {
    const subjects = await Promise.all(this.benches.map((bench) => bench.begin(clock)));
    return { subjects, limitMs: this.#limitMs };
  }

  async close(): Promise<void> {
    await inTime(this.benches.map((bench) => bench.close()));
  }
}

/** The stores of one sequence. */
export interface Side {
  readonly subjects: readonly Subject[];
  readonly limitMs: number;
}

export async function endAll({ subjects }: Side): Promise<void> {
  await inTime(subjects.map((on) => on.end()));
}

/** Who is late is left behind. */
async function inTime(closing: readonly Promise<void>[]): Promise<void> {
  await within(Promise.allSettled(closing), "everything is given back", closeLimitMs).catch(() => {});
}

/** Timers run as they do; the time that it shows stands still until it is moved. */
export function standingClock(nowMs: () => number): Clock {
  return { ...systemPorts.clock, monotonicMs: nowMs, wallMs: nowMs };
}

export class Difference extends Error {
  /** Whether a store has not answered: it may never do so again. */
  readonly isStuck: boolean;

  constructor(message: string, options: ErrorOptions & { readonly isStuck?: boolean } = {}) {
    super(message, options);
    this.isStuck = options.isStuck ?? false;
  }
}

/**
 * Makes the same call on every subject at once. Returns the reply of the first.
 *
 * @throws {Difference} when another replies something else, or nothing
 */
export async function everywhere(
  { subjects, limitMs }: Side,
  what: string,
  make: (on: Subject) => Promise<unknown>,
  texts: (on: Subject) => Texts,
): Promise<CallResult> {
  const all = await Promise.all(
    subjects.map(async (on) => {
      const reply = within(
        observed(() => make(on), texts(on)),
        what,
        limitMs,
      );
      return reply.catch((error: unknown): CallResult => {
        throw new Difference(`${what}: ${on.name} does not come to an end`, { cause: error, isStuck: true });
      });
    }),
  );
  const [first, ...others] = all;
  if (first === undefined) throw new TypeError("There is no store");
  if (others.every(({ text }) => text === first.text)) return first;
  const lines = all.map(({ text }, index) => `  ${subjects[index]?.name}: ${text}`);
  throw new Difference([what, ...lines].join("\n"));
}
