/**
 * How much longer than a quiet machine this one takes. Every limit in the tests is stated for a quiet machine of two
 * cores and multiplied by this, so that a slow laptop and a machine with other work wait longer instead of failing.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { availableParallelism, loadavg } from "node:os";

/** Set by `vitest.config.ts` for the test processes and for what they start. */
const variable = "LATCHKEY_TEST_SLOWNESS";
/** Two Node processes and 32 MiB of SHA-256 on a quiet core of 2024. */
const referenceMs = 200;
/** Above this a limit would outlast every caller. */
const slownessMax = 30;

/** The machine's speed at the start of a run, 1 or more. Takes a few tenths of a second. */
export function measuredSlowness(): number {
  const beganMs = performance.now();
  for (let count = 0; count < 2; count += 1) execFileSync(process.execPath, ["-e", "0"], { env: {} });
  const hash = createHash("sha256");
  const block = Buffer.alloc(2 ** 20);
  for (let count = 0; count < 32; count += 1) hash.update(block);
  hash.digest();
  return Math.max(1, (performance.now() - beganMs) / referenceMs);
}

/** As measured at the start, or as the load is by now: the larger of the two, at most 30. */
function slowness(): number {
  const [load = 0] = loadavg();
  const atStart = Number(process.env[variable] ?? "1");
  return Math.min(slownessMax, Math.max(1, atStart, load / availableParallelism()));
}

/** A limit for this machine from one for a quiet machine, in whole milliseconds. */
export function patient(quietMs: number): number {
  return Math.ceil(quietMs * slowness());
}

export { variable as slownessVariable };
