/** The parts of this tier. */
import { drawFrom, seedOf } from "../harness/seeded.ts";
import { callSize, playCalls } from "./calls/play.ts";
import { always as callsAlways, often as callsOften } from "./calls/required.ts";
import type { Lane } from "./lane.ts";
import { operationSize, playOperations } from "./operations/play.ts";
import { always as operationsAlways, often as operationsOften } from "./operations/required.ts";
import { drawSequence, type Played, type Sequence, type Size } from "./sequence.ts";

export interface Part {
  readonly name: "calls" | "operations";
  /** In words, for the report. */
  readonly bound: string;
  readonly size: Size;
  readonly volumes: { readonly small: number; readonly full: number };
  /** What any sitting must have reached, and what one of thousands must have. */
  readonly always: readonly string[];
  readonly often: readonly string[];
  play(lane: Lane, sequence: Sequence): Promise<Played>;
}

export const parts: readonly Part[] = [
  {
    name: "calls",
    bound:
      "15 to 55 calls of the whole contract on 1 to 5 keys of 2 tenants, with valid, stale and foreign fences and guards; each reply, and everything at the end",
    size: callSize,
    volumes: { small: 30, full: 10_000 },
    always: callsAlways,
    often: callsOften,
    play: playCalls,
  },
  {
    name: "operations",
    bound:
      "10 to 40 requests, rounds of the services, decisions of a person and leaps of time, for 1 or 2 of 6 operations on 1 to 3 keys of 2 tenants; handlers that fail, processes that die, lost replies; each outcome, and everything at the end",
    size: operationSize,
    volumes: { small: 20, full: 10_000 },
    always: operationsAlways,
    often: operationsOften,
    play: playOperations,
  },
];

export type PartName = Part["name"];

export function partNamed(name: string): Part {
  const part = parts.find((one) => one.name === name);
  if (part === undefined) throw new TypeError(`There is no part ${name}`);
  return part;
}

/** Each part draws its own, from one seed. */
export function sequenceOf({ name, size }: Part, seed: bigint, run: number): Sequence {
  const place = parts.findIndex((part) => part.name === name);
  return drawSequence(drawFrom(seedOf(seedOf(seed, place), run)), size);
}
