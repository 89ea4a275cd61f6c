/** `npm run prove`: runs the tiers of the proof, and writes down what they have shown. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { runProgram } from "../support/program.ts";
import { type Closure, closuresOf, codeOf } from "./code/closure.ts";
import { filesBelow } from "./code/files.ts";
import { descriptions } from "./descriptions.ts";
import type { Tier, TierResult } from "./harness/tier.ts";
import { entryOn, resumeOf, type Source, withSitting } from "./ledger.ts";
import { type ProveOptions, parseOptions, usage } from "./options.ts";
import { pagePath, readLedger, renderProofPage, writeEvidence } from "./page.ts";
import { tiers } from "./tiers.ts";

const root = resolve(import.meta.dirname, "../..");

await runProgram(() => prove(parseOptions(process.argv.slice(2))), usage);

async function prove(options: ProveOptions): Promise<void> {
  if (options.digests) return printDigests(options);
  if (options.only !== null) process.env.LATCHKEY_PROOF_ONLY = options.only;
  const closureOf = closuresOf(filesBelow(root));
  for (const id of options.report ? [] : options.tiers) {
    const tier = tiers[id];
    if (tier === undefined) console.log(`${id}: not there yet`);
    else await sit(tier, isKept(options) ? closureOf(id) : null, options);
  }
  if (isKept(options)) writeFileSync(join(root, pagePath), renderProofPage(root));
}

/** Only full volumes are evidence. */
function isKept({ only, volume }: ProveOptions): boolean {
  return only === null && volume === "full";
}

async function sit(tier: Tier, closure: Closure | null, options: ProveOptions): Promise<void> {
  const { id } = tier;
  const source: Source = { code: closure && codeOf(closure), commit: commitHere() };
  const before = readLedger(root).tiers[id] ?? [];
  const same = entryOn(before, source.code);
  if (same?.resume === null && !options.anew) {
    console.log(`${id}: covered on this code`);
    return;
  }
  const seed = options.seed ?? randomBytes(8).readBigUInt64BE();
  console.log(`${id}: ${descriptions[id].title}, seed 0x${seed.toString(16)}`);
  const beganMs = performance.now();
  const keep = (result: TierResult) => {
    if (closure === null) return;
    const minutes = Math.round((performance.now() - beganMs) / 600) / 100;
    const facts = { date: new Date().toISOString(), minutes, seed: `0x${seed.toString(16)}` };
    const entries = withSitting(before, { source, result, facts, anew: options.anew });
    // The ledger is read again: another tier may have been run meanwhile.
    writeEvidence(root, { ...readLedger(root).tiers, [id]: entries }, closure);
  };
  const result = await tier.run({
    volume: options.volume,
    untilMs: options.minutes === null ? Number.POSITIVE_INFINITY : beganMs + options.minutes * 60_000,
    seed,
    resume: resumeOf(before, source, options),
    say: (line) => console.log(`${id}: ${line}`),
    keep,
  });
  for (const { what, bound, count } of result.covered) console.log(`${id}: ${count} ${what} (${bound})`);
  for (const { what, reason } of result.notRun) console.log(`${id}: not run: ${what} (${reason})`);
  keep(result);
}

function printDigests(options: ProveOptions): void {
  const closureOf = closuresOf(filesBelow(root));
  for (const id of options.tiers) {
    const closure = closureOf(id);
    const code = codeOf(closure);
    const state = entryOn(readLedger(root).tiers[id] ?? [], code) === undefined ? "no evidence" : "evidence";
    const { library, harness } = closure;
    console.log(
      `${id}: library ${code.library} (${library.length} files), harness ${code.harness} (${harness.length} files): ${state}`,
    );
  }
}

function commitHere(): string | null {
  const git = (...args: readonly string[]) =>
    execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
  try {
    const isDirty = git("status", "--porcelain", "--", "packages", "test") !== "";
    return `${git("rev-parse", "HEAD")}${isDirty ? "-dirty" : ""}`;
  } catch {
    return null;
  }
}
