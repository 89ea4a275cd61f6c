/** One configuration inside one bound, explored in a thread of its own. */

import { plants } from "../harness/store-plants.ts";
import { type Bound, boundText, type Losses } from "./bound.ts";
import { type Configuration, configurations } from "./configurations.ts";
import { type Exploration, Explorer, Violation } from "./explore.ts";

export interface Unit {
  readonly configuration: string;
  readonly bound: Bound;
  readonly losses: Losses;
  /** More positions than this do not fit into memory. */
  readonly positionsMax: number;
  /** Schedules are counted, which takes thrice the memory. */
  readonly counts: boolean;
  /** So many milliseconds at most. */
  readonly limitMs: number;
  /** Name of a planted mistake. */
  readonly plant: string | null;
}

export interface UnitResult {
  /** Null: something must not be. */
  readonly explored: Omit<Exploration, "endTexts"> | null;
  readonly failure: Failure | null;
}

export interface Failure {
  readonly what: string;
  /** What `--only` takes. */
  readonly only: string;
  readonly names: readonly string[];
  readonly after: number;
}

export function configurationNamed(name: string, plant: string | null = null): Configuration {
  const configuration = configurations.find((one) => one.name === name);
  if (configuration === undefined) throw new TypeError(`There is no configuration "${name}"`);
  const planted = plant === null ? configuration.plant : plants[plant];
  if (planted === undefined) throw new TypeError(`There is no plant "${plant}"`);
  return { ...configuration, plant: planted };
}

export function unitName({ configuration, bound, losses }: Unit): string {
  return `${configuration}, ${boundText(bound, losses)}`;
}

/** Whether it is to go on is asked now and then. */
const roomBeside = 1_000_000;

export async function runUnit(unit: Unit): Promise<UnitResult> {
  const beganMs = performance.now();
  const explorer = new Explorer(
    { ...configurationNamed(unit.configuration, unit.plant), losses: unit.losses },
    unit.bound,
    { uncounted: unit.counts ? null : unit.positionsMax + roomBeside },
  );
  const mayGoOn = (positions: number) =>
    positions < unit.positionsMax && performance.now() - beganMs < unit.limitMs;
  try {
    const { endTexts: _, ...explored } = await explorer.run(mayGoOn);
    return { explored, failure: null };
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    return { explored: null, failure: failureOf(unit, error) };
  }
}

/** As `--only` names them, behind the bound. */
const lossesIn = { late: "", lost: "-", replies: "=" } as const;

function failureOf(
  { configuration, bound, losses }: Unit,
  { message, names, choices, after }: Violation,
): Failure {
  const { switches, crashes, leaseEnds, lost } = bound;
  const only = `${configuration}:${switches}${crashes}${leaseEnds}${lost}${lossesIn[losses]}:${choices.join(".")}`;
  return { what: message, only, names, after };
}

/** One schedule again, named as a failure names it. Answers what happened; and what must not be, if it did again. */
export async function runOnly(only: string): Promise<{
  readonly names: readonly string[];
  readonly failure: Failure | null;
}> {
  const [configuration = "", digits = "", choices = ""] = only.split(":");
  const [switches = 0, crashes = 0, leaseEnds = 0, lost = 0] = [...digits].map(Number);
  const bound = { switches, crashes, leaseEnds, lost };
  const losses = digits.endsWith("-") ? "lost" : digits.endsWith("=") ? "replies" : "late";
  const explorer = new Explorer({ ...configurationNamed(configuration), losses }, bound);
  try {
    const names = await explorer.again(choices === "" ? [] : choices.split(".").map(Number));
    return { names, failure: null };
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    return { names: error.names, failure: { what: error.message, only, names: error.names, after: 1 } };
  }
}
