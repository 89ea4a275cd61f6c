import { parseArgs } from "node:util";
import type { TierId } from "./harness/tier.ts";

export interface ProveOptions {
  /** In the order of the tiers. */
  readonly tiers: readonly TierId[];
  /** For each tier; null: until its volume is reached. */
  readonly minutes: number | null;
  readonly volume: "small" | "full";
  /** Null: a new one for each sitting. */
  readonly seed: bigint | null;
  /** One run, schedule or case of one tier alone, as a failure names it. Nothing is written down. */
  readonly only: string | null;
  /** Begin from nothing, also where docs/proof.json has evidence on this code. */
  readonly anew: boolean;
  /** Write docs/proof.md from docs/proof.json, and run nothing. */
  readonly report: boolean;
  /** Print both digests of each tier's code, and run nothing. */
  readonly digests: boolean;
}

export const usage = `npm run prove -- [--tier P1,P2] [--minutes 60] [--seed 0x1234] [--volume small] [--only <what a failure named>]
    [--anew] [--report] [--digests]

Runs the tiers of docs/proof.md towards their full volumes, each for at most so many minutes, and goes on where the last
sitting on the same code ended; --anew begins each from nothing. Writes docs/proof.json, docs/proof-code.json and
docs/proof.md. --report only writes docs/proof.md; --digests only prints what each tier's evidence depends on.`;

export const tierIds = ["P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7"] as const satisfies readonly TierId[];

/** @throws {TypeError} when an option is unknown or out of range */
export function parseOptions(args: readonly string[]): ProveOptions {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      tier: text,
      minutes: text,
      volume: text,
      seed: text,
      only: text,
      anew: { type: "boolean" },
      report: { type: "boolean" },
      digests: { type: "boolean" },
    },
  });
  return {
    tiers: tiersOf(values.tier),
    minutes: values.minutes === undefined ? null : minutesOf(values.minutes),
    volume: volumeOf(values.volume ?? "full"),
    seed: values.seed === undefined ? null : seedFrom(values.seed),
    only: values.only ?? null,
    anew: values.anew ?? false,
    report: values.report ?? false,
    digests: values.digests ?? false,
  };
}

function tiersOf(list: string | undefined): readonly TierId[] {
  if (list === undefined) return tierIds;
  const wanted = list.split(",");
  const unknown = wanted.find((one) => !tierIds.some((id) => id === one));
  if (unknown !== undefined) throw new TypeError(`--tier: there is no tier ${unknown}`);
  return tierIds.filter((id) => wanted.includes(id));
}

function minutesOf(text: string): number {
  const minutes = Number(text);
  if (!(minutes > 0)) throw new TypeError("--minutes: a number above 0");
  return minutes;
}

function volumeOf(text: string): "small" | "full" {
  if (text !== "small" && text !== "full") throw new TypeError("--volume: small or full");
  return text;
}

function seedFrom(text: string): bigint {
  if (!/^(0x[0-9a-f]{1,16}|\d{1,20})$/i.test(text)) throw new TypeError("--seed: a whole number of 64 bits");
  return BigInt.asUintN(64, BigInt(text));
}
