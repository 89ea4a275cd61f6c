/** The soak: epochs of chaos until the volume is reached, and mistakes that must be found. */
import { installedVersions, type PostgresVersion } from "../../support/postgres-binaries.ts";
import { seedOf } from "../harness/seeded.ts";
import {
  type Coverage,
  expectReached,
  type PlantedResult,
  ProofFailure,
  type Sitting,
  type TierResult,
} from "../harness/tier.ts";
import { planOf } from "./chaos.ts";
import { type EpochReport, type EpochSettings, runEpoch } from "./epoch.ts";
import { type FaultKind, killKinds, netKinds } from "./faults.ts";
import type { Part } from "./part.ts";
import { findPlant, plantPlans } from "./plant-runs.ts";
import { type Plant, plants } from "./plants.ts";
import { Tally } from "./tally.ts";

interface Progress {
  readonly cycles: number;
  readonly planted: boolean;
}

/** Of kills -9, over all sittings. */
const cyclesWanted = 1_000;
const wantedVersions: readonly PostgresVersion[] = [18, 15, 17];

export const soak: Part = { name: "soak", run };

async function run(sitting: Sitting): Promise<TierResult> {
  const only = onlyOf(process.env.LATCHKEY_PROOF_ONLY);
  const tally = new Tally();
  const before = (sitting.resume ?? { cycles: 0, planted: false }) as Progress;
  const isLate = () => performance.now() > sitting.untilMs;
  const wanted = sitting.volume === "full" ? cyclesWanted - before.cycles : 1;
  const isAlone = only !== null;
  if (only?.plant === undefined) {
    let number = only?.epoch ?? 0;
    do await epoch(sitting, number++, tally);
    while (!isAlone && !isLate() && tally.cycles < wanted);
    judgeReached(sitting, tally);
  }
  const isDone = before.cycles + tally.cycles >= cyclesWanted;
  const plantsNow =
    only?.plant !== undefined
      ? [only.plant]
      : sitting.volume === "full" && isDone && !before.planted && !isAlone && !isLate()
        ? (Object.keys(plants) as Plant[])
        : [];
  const planted = await findAll(sitting, plantsNow);
  const progress: Progress = {
    cycles: before.cycles + tally.cycles,
    planted: before.planted || planted.length === Object.keys(plants).length,
  };
  const isOver = isDone && progress.planted;
  return resultOf(sitting, tally, planted, isOver ? null : progress);
}

/** `soak`, `soak:7` (one epoch), `soak:key-per-process` (one plant); null: everything. */
function onlyOf(text: string | undefined): { readonly epoch?: number; readonly plant?: Plant } | null {
  const [name, what] = (text ?? "").split(":");
  if (name !== "soak" || what === undefined) return null;
  return Object.hasOwn(plants, what) ? { plant: what as Plant } : { epoch: Number(what) };
}

function reproduce({ seed, volume }: Sitting, what: string): string {
  const small = volume === "small" ? " --volume small" : "";
  return `npm run prove -- --tier P6 --seed 0x${seed.toString(16)}${small} --only soak:${what}`;
}

async function epoch(sitting: Sitting, number: number, tally: Tally): Promise<void> {
  const settings = settingsOf(sitting, number);
  const report = await runEpoch(settings).catch((cause: unknown) => {
    const what = `epoch ${number} could not be run: ${cause instanceof Error ? cause.message : String(cause)}`;
    const options = { cause, after: tally.cycles };
    throw new ProofFailure(what, sitting.seed, reproduce(sitting, String(number)), options);
  });
  tally.add(report);
  sitting.say(lineOf(number, report, tally));
  if (report.wrong === null) return;
  const plan = settings.chaos.lanes.map((lane) => `  ${lane.join("; ")}`).join("\n");
  throw new ProofFailure(
    `${report.wrong.text}\nPostgreSQL ${report.postgres}, epoch ${number}, in which broke, side by side:\n${plan}`,
    sitting.seed,
    reproduce(sitting, String(number)),
    { after: tally.cycles },
  );
}

function settingsOf({ volume, seed: sittingSeed, untilMs }: Sitting, number: number): EpochSettings {
  const seed = seedOf(sittingSeed, number);
  const version = versionsHere()[volume === "small" ? 0 : number % versionsHere().length] ?? 18;
  if (volume === "small") {
    const lanes = planOf(seed, { kills: 6, net: 2, frozen: 2, pools: 2 });
    return { ...small, seed, number, version, untilMs, chaos: { lanes, pauseMs: 120 } };
  }
  const lanes = planOf(seed, { kills: 42, net: 4, frozen: 12, pools: 8 });
  return { ...full, seed, number, version, untilMs, chaos: { lanes, pauseMs: 400 } };
}

const small = {
  servers: 2,
  clients: 5,
  pauseMs: 50,
  leaseMs: 500,
  patienceMs: 60_000,
  hurries: "claims, too",
} as const;
const full = {
  servers: 3,
  clients: 8,
  pauseMs: 40,
  leaseMs: 800,
  patienceMs: 180_000,
  hurries: "pauses",
} as const;

function versionsHere(): readonly PostgresVersion[] {
  const installed = installedVersions();
  return wantedVersions.filter((version) => installed.includes(version));
}

function lineOf(number: number, { chaos, postgres, reached, restMs }: EpochReport, tally: Tally): string {
  const { cycles, postgresKills, serverKills } = chaos;
  return `soak ${number} on PostgreSQL ${postgres}: ${cycles} kill cycles (${tally.cycles} in this sitting; here ${postgresKills} kills of Postgres, ${serverKills} of servers), ${reached.keys ?? 0} keys, at rest after ${Math.round(restMs)} ms`;
}

const everyFault: readonly FaultKind[] = [
  ...killKinds,
  ...netKinds,
  "frozen for longer than a lease",
  "pool used up",
];
const always = ["answer: replay", "answer: misuse", "keys acknowledged during the faults"] as const;
/** Of a sitting that is long enough for them. */
const inTheLong = [
  "attempt_resumed",
  "lease_lost",
  "effects_rescued",
  "sends repeated under their key",
  "commit_in_doubt: committed",
  "commit_in_doubt: rolled_back",
  "transaction_rerun: commit_rolled_back",
  "answer: unknown",
  "answer: in_progress",
  "answer: accepted",
  "unknown settled: completed",
  "unknown settled: not executed",
  "settled: settle_call",
  "settled: settle_not_executed",
] as const;
const longCycles = 300;

function judgeReached(sitting: Sitting, tally: Tally): void {
  const line = reproduce(sitting, "0");
  // One that was called off in the middle may have met nothing.
  if (performance.now() > sitting.untilMs && tally.cycles < longCycles) return;
  const expect = (counts: Readonly<Record<string, number>>, required: readonly string[]) =>
    expectReached(counts, required, sitting.seed, line, tally.cycles);
  expect(tally.faults, everyFault);
  expect(tally.reached, always);
  if (tally.cycles >= longCycles) expect(tally.reached, inTheLong);
}

async function findAll(sitting: Sitting, wanted: readonly Plant[]): Promise<readonly PlantedResult[]> {
  const results: PlantedResult[] = [];
  for (const plant of wanted) {
    const found = await findPlant(plant, sitting.seed);
    sitting.say(`planted "${plants[plant]}": ${found === null ? "NOT found" : `found after ${found.after}`}`);
    if (found === null) {
      const { epochsMax } = plantPlans[plant];
      throw new ProofFailure(
        `planted "${plants[plant]}" was not found in ${epochsMax} epochs`,
        sitting.seed,
        reproduce(sitting, plant),
        { after: epochsMax },
      );
    }
    results.push({ name: plants[plant], recreates: null, found: { P6: found.after } });
  }
  return results;
}

function resultOf(
  { volume }: Sitting,
  tally: Tally,
  planted: readonly PlantedResult[],
  resume: Progress | null,
): TierResult {
  const bound = `${volume === "full" ? full.servers : small.servers} servers with a worker each, 5 operations, 2 tenants`;
  const complete = resume === null || resume.cycles >= cyclesWanted;
  const covered: Coverage[] = [
    { what: "cycles with a kill -9", bound, count: tally.cycles, of: cyclesWanted, complete },
  ];
  const missing = wantedVersions.filter((version) => !versionsHere().includes(version));
  const acknowledged = tally.reached["keys acknowledged during the faults"] ?? 0;
  return {
    covered,
    reached: tally.reached,
    faults: tally.faults,
    versions: tally.versions,
    notRun: missing.map((version) => ({
      what: `soak on PostgreSQL ${version}`,
      reason: "it is not installed here",
    })),
    planted,
    measured: [
      `last sitting of the soak: ${acknowledged} keys were acknowledged while things broke, and none was lost; everything was at rest at most ${Math.round(tally.restMaxMs / 1000)} s after the last fault`,
    ],
    resume,
  };
}
