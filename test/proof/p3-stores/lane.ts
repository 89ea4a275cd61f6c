/** The stores side by side: sequences go through them one after the other. */
import { type Clock, systemPorts } from "../../../packages/latchkey/src/ports.ts";
import { within } from "../../support/until.ts";
import type { Bench, Place, StoreKind, Subject } from "./bench.ts";
import { observed, type Texts, type Told } from "./text.ts";

/** Of one step on one store; the slowest takes some milliseconds. */
const stepLimitMs = 20_000;

export class Lane {
  readonly benches: readonly Bench[];

  private constructor(benches: readonly Bench[]) {
    this.benches = benches;
  }

  static async open(kinds: readonly StoreKind[], place: Place): Promise<Lane> {
    const benches = await Promise.all(kinds.map((kind) => kind.open(place)));
    return new Lane(benches.filter((bench) => bench !== null));
  }

  async begin(clock: Clock): Promise<readonly Subject[]> {
    return Promise.all(this.benches.map((bench) => bench.begin(clock)));
  }

  async close(): Promise<void> {
    await Promise.all(this.benches.map((bench) => bench.close()));
  }
}

/** Timers run as they do; the time that is told stands still until it is moved. */
export function standingClock(nowMs: () => number): Clock {
  return { ...systemPorts.clock, monotonicMs: nowMs, wallMs: nowMs };
}

export class Difference extends Error {
  override readonly name = "Difference";
}

/**
 * The same on every subject at once; what the first is told.
 *
 * @throws {Difference} when another is told something else, or nothing
 */
export async function everywhere(
  subjects: readonly Subject[],
  what: string,
  make: (on: Subject) => Promise<unknown>,
  texts: (on: Subject) => Texts,
): Promise<Told> {
  const all = await Promise.all(
    subjects.map(async (on) => {
      const told = within(
        observed(() => make(on), texts(on)),
        what,
        stepLimitMs,
      );
      return told.catch((error: unknown): Told => {
        throw new Difference(`${what}: ${on.name} does not come to an end`, { cause: error });
      });
    }),
  );
  const [first, ...others] = all;
  if (first === undefined) throw new TypeError("There is no store");
  if (others.every(({ text }) => text === first.text)) return first;
  const lines = all.map(({ text }, index) => `  ${subjects[index]?.name}: ${text}`);
  throw new Difference([what, ...lines].join("\n"));
}
