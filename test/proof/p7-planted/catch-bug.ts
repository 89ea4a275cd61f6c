/** Runs one tier's small volume on code with a bug in it, in a process of its own. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { seedOf } from "../harness/seeded.ts";
import type { TierId } from "../harness/tier.ts";
import type { Bug } from "./bug.ts";

const main = join(import.meta.dirname, "../main.ts");
const plant = join(import.meta.dirname, "plant.ts");
/** What such a tier does not draw in one small volume, it may in another one. */
const drawing: ReadonlySet<TierId> = new Set(["P2", "P3", "P4"]);
const seedsMax = 3;
/** A tier that has not found it by then has not found it. */
const limitMs = 240_000;
const outputMaxBytes = 64 * 1024 * 1024;

export interface Caught {
  /** Null: it was not found. */
  readonly after: number | null;
  /** The failure's first line, or the end of the output of a run that failed otherwise. */
  readonly message: string;
}

interface Asked extends Caught {
  /** How much of it has run without finding anything. */
  readonly covered: number;
}

/**
 * Null: there is no such tier yet. Tiers that draw their schedules are asked up to three times, each time with another seed.
 *
 * @throws when the tier could not run, or failed for another reason than what it found
 */
export async function catchBug({ name }: Bug, tier: TierId, seed: bigint): Promise<Caught | null> {
  let asked = await ask(name, tier, seed);
  let covered = 0;
  for (let tries = 1; asked?.after === null && drawing.has(tier) && tries < seedsMax; tries++) {
    covered += asked.covered;
    asked = await ask(name, tier, seedOf(seed, tries));
  }
  return asked?.after == null ? asked : { ...asked, after: covered + asked.after };
}

async function ask(name: string, tier: TierId, seed: bigint): Promise<Asked | null> {
  const options = `--conditions=latchkey-source --import ${plant}`;
  const args = [main, "--tier", tier, "--volume", "small", "--seed", `0x${seed.toString(16)}`];
  const env = { ...process.env, NODE_OPTIONS: options, LATCHKEY_PLANTED: name };
  const { failed, output } = await run(args, env);
  if (output.includes("not there yet")) return null;
  if (!failed) {
    const covered = Number(/^P\d: (\d+) .*\)$/m.exec(output)?.[1] ?? 0);
    return { after: null, message: output.slice(-500), covered };
  }
  if (!output.includes("ProofFailure")) throw new Error(`${tier} on "${name}" failed otherwise:\n${output}`);
  const [, message = ""] = /ProofFailure: (.*)/.exec(output) ?? [];
  return { after: Number(/found after (\d+)/.exec(output)?.[1]), message, covered: 0 };
}

function run(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ readonly failed: boolean; readonly output: string }> {
  return new Promise((resolve) => {
    const settings = { env, timeout: limitMs, maxBuffer: outputMaxBytes };
    execFile(process.execPath, args, settings, (error, stdout, stderr) => {
      resolve({ failed: error !== null, output: `${stdout}\n${stderr}` });
    });
  });
}
