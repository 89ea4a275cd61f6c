/** Runs Spin on the model: https://spinroot.com/spin/Man/Pan.html says what its verifier prints. */
import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { scratchDirectory } from "../../support/scratch.ts";

const run = promisify(execFile);
const model = join(import.meta.dirname, "protocol.pml");
/** Steps; the verifier complains when a path is longer. */
const depthMax = 1_000_000;

export interface Checked {
  /** Different states met. Of a variant that fails: until then. */
  readonly states: number;
  /** The first assertion that does not hold, or that something is stuck; null: all holds. */
  readonly failure: string | null;
}

/** @throws when Spin, the compiler or the verifier cannot run, or do not come to an end of the search. */
export async function checkModel(
  spin: string,
  switches: readonly string[],
  optimize: "-O0" | "-O1",
): Promise<Checked> {
  const cwd = scratchDirectory("us");
  try {
    await run(spin, ["-a", ...switches.map((name) => `-D${name}`), model], { cwd });
    await run("cc", [optimize, "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], { cwd });
    const { stdout } = await run(join(cwd, "pan"), [`-m${depthMax}`], { cwd });
    return read(stdout);
  } finally {
    await rm(cwd, { recursive: true });
  }
}

function read(stdout: string): Checked {
  const errors = /errors: (\d+)/.exec(stdout)?.[1];
  const states = /(\d+) states, stored/.exec(stdout)?.[1];
  const failure = /^pan:\d+: (.*)$/m.exec(stdout)?.[1] ?? null;
  const isWhole = failure !== null || !stdout.includes("Search not completed");
  if (errors === undefined || states === undefined || !isWhole || (errors === "0") !== (failure === null)) {
    throw new Error(`Spin printed what was not expected:\n${stdout}`);
  }
  return { states: Number(states), failure };
}

export async function spinVersion(spin: string): Promise<string> {
  const { stdout } = await run(spin, ["-V"]);
  return /Version (\S+)/.exec(stdout)?.[1] ?? "unknown";
}
