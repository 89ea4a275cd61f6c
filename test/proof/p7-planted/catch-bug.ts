/** Runs one tier's small volume on code with a bug in it, in a process of its own. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import type { TierId } from "../harness/tier.ts";
import type { Bug } from "./bug.ts";

const main = join(import.meta.dirname, "../main.ts");
const plant = join(import.meta.dirname, "plant.ts");
/** A tier that has not found it by then has not found it. */
const limitMs = 240_000;
const outputMaxBytes = 64 * 1024 * 1024;

export interface Caught {
  /** Null: it was not found. */
  readonly after: number | null;
  /** What the tier said last: of a run that failed otherwise, why. */
  readonly said: string;
}

/** @throws when the tier could not run, or failed for another reason than what it found */
export async function catchBug({ name }: Bug, tier: TierId, seed: bigint): Promise<Caught> {
  const options = `--conditions=latchkey-source --import ${plant}`;
  const args = [main, "--tier", tier, "--volume", "small", "--seed", `0x${seed.toString(16)}`];
  const env = { ...process.env, NODE_OPTIONS: options, LATCHKEY_PLANTED: name };
  const { failed, output } = await run(args, env);
  if (output.includes("not there yet")) throw new Error(`There is no tier ${tier} yet`);
  if (!failed) return { after: null, said: output.slice(-500) };
  if (!output.includes("ProofFailure")) throw new Error(`${tier} on "${name}" failed otherwise:\n${output}`);
  const after = /found after (\d+)/.exec(output)?.[1];
  return { after: Number(after ?? 1), said: /ProofFailure: (.*)/.exec(output)?.[1] ?? "" };
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
