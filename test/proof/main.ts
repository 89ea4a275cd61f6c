/** `npm run prove`: runs the tiers of the proof, and writes down what they have shown. */
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem, type } from "node:os";
import { join, resolve } from "node:path";
import { releaseAll } from "../support/resources.ts";
import { findings } from "./findings.ts";
import type { Tier, TierId, TierResult } from "./harness/tier.ts";
import { type Ledger, resumeOf, type Source, withSitting } from "./ledger.ts";
import { type ProveOptions, parseOptions, usage } from "./options.ts";
import { renderReport } from "./report.ts";
import { sourceOf } from "./source.ts";
import { tiers } from "./tiers.ts";

const root = resolve(import.meta.dirname, "../..");
const ledgerPath = join(root, "docs/proof.json");

try {
  await prove(parseOptions(process.argv.slice(2)));
} catch (error) {
  console.error(error instanceof TypeError ? `${error.message}\n\n${usage}` : error);
  process.exitCode = 1;
} finally {
  await releaseAll();
}

async function prove(options: ProveOptions): Promise<void> {
  if (options.only !== null) process.env.LATCHKEY_PROOF_ONLY = options.only;
  for (const id of options.report ? [] : options.tiers) {
    const tier = tiers[id];
    if (tier === undefined) console.log(`${id}: not there yet`);
    else await sit(tier, sourceOf(root, id), options);
  }
  if (options.only === null && options.volume === "full") writeReport();
}

async function sit(tier: Tier, source: Source, options: ProveOptions): Promise<void> {
  const { id, title } = tier;
  const before = options.anew ? undefined : readLedger().tiers[id];
  const isSame = before?.source.digest === source.digest;
  if (isSame && before.resume === null && options.only === null && options.volume === "full") {
    console.log(`${id}: covered on this code`);
    return;
  }
  const seed = options.seed ?? randomBytes(8).readBigUInt64BE();
  console.log(`${id}: ${title}, seed 0x${seed.toString(16)}`);
  const beganMs = performance.now();
  const keep = (result: TierResult) => {
    if (options.only !== null || options.volume !== "full") return;
    const minutes = Math.round((performance.now() - beganMs) / 600) / 100;
    const facts = { date: new Date().toISOString(), minutes, seed: `0x${seed.toString(16)}` };
    // Read again: somebody may have run another tier meanwhile.
    const ledger = readLedger();
    const entry = withSitting(before, source, result, facts);
    writeLedger({ ...ledger, machine: machineOf(), tiers: { ...ledger.tiers, [id]: entry } });
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

function readLedger(): Ledger {
  if (!existsSync(ledgerPath)) return { machine: machineOf(), tiers: {} };
  return JSON.parse(readFileSync(ledgerPath, "utf8")) as Ledger;
}

function writeLedger(ledger: Ledger): void {
  writeFileSync(ledgerPath, `${JSON.stringify(ledger, null, 2)}\n`);
}

function writeReport(): void {
  const digestOf = (id: TierId) => sourceOf(root, id).digest;
  const text = renderReport({ ledger: readLedger(), tiers, findings, digestOf });
  writeFileSync(join(root, "docs/proof.md"), text);
}

function machineOf(): string {
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${cpus()[0]?.model.trim() ?? "unknown"}, ${cpus().length} cores, ${gib} GiB, ${type()} ${release()}, Node ${process.versions.node}.`;
}
