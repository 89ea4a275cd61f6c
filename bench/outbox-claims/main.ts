/**
 * `npm run bench:outbox-claims`: what claims and ends of effects cost the database, today and in other designs. Each has a
 * database of its own, and statements that are today's with some parts replaced, so that they differ in nothing else.
 */
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { startPostgres } from "../../test/support/private-postgres.ts";
import { runProgram } from "../../test/support/program.ts";
import { databaseCpuMicros } from "../database-cpu.ts";
import { machineOf, positive, renderMachine, serverSettings } from "../machine.ts";
import { type DesignName, designNames } from "./designs.ts";
import { type ClaimedRow, latestMs, Place } from "./place.ts";

const usage = `npm run bench:outbox-claims -- [--rounds 8] [--backlog 30000] [--page 500] [--only "today;hot"] [--held-snapshot]

With --held-snapshot, a transaction keeps dead rows from being removed.`;

interface Plan {
  readonly names: readonly DesignName[];
  readonly rounds: number;
  readonly backlog: number;
  readonly page: number;
  readonly heldSnapshot: boolean;
}

interface Turn {
  readonly name: DesignName;
  readonly round: number;
  /** Of the database's CPU, for one effect. */
  readonly claimMicros: number;
  readonly endMicros: number;
  readonly perSecond: number;
}

/** Pages that are claimed before any of them ends: CPU is counted in hundredths of a second. */
const pagesAtOnce = 8;

async function run(): Promise<void> {
  const plan = parseOptions();
  const [load = 0] = loadavg();
  const postgres = await startPostgres({ conf: { ...serverSettings, autovacuum: false } });
  const databaseCpu = () => databaseCpuMicros(postgres.pid) ?? Number.NaN;
  const places = new Map<DesignName, Place>();
  for (const name of plan.names) places.set(name, await Place.open(postgres.url, name));
  const turns: Turn[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    const order = round % 2 === 0 ? [...places] : [...places].toReversed();
    for (const [name, place] of order) {
      const one = { name, round, ...(await turn(plan, place, databaseCpu)) };
      turns.push(one);
      console.error(round, name, one.claimMicros.toFixed(1), one.endMicros.toFixed(1));
    }
  }
  const twice = new Map<DesignName, number>();
  for (const [name, place] of places) {
    await place.fill(plan.page);
    twice.set(name, await place.claimedTwice(plan.page));
    await place.close();
  }
  const snapshot = plan.heldSnapshot ? "; a transaction keeps dead rows from being removed" : "";
  const how = `${plan.rounds} alternating rounds of ${plan.backlog} effects in pages of ${plan.page}, medians (quartiles)`;
  const machine = renderMachine(machineOf(postgres));
  console.log(
    `${how}; autovacuum off${snapshot}.\n\n${machine}. Load average before the run: ${load.toFixed(1)}.\n`,
  );
  console.log(render(plan, turns, twice));
}

function parseOptions(): Plan {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: { rounds: text, backlog: text, page: text, only: text, "held-snapshot": { type: "boolean" } },
  });
  const only = values.only?.split(";");
  return {
    names: designNames.filter((name) => only?.includes(name) ?? true),
    rounds: Math.ceil(positive("rounds", values.rounds ?? "8")),
    backlog: Math.ceil(positive("backlog", values.backlog ?? "30000")),
    page: Math.ceil(positive("page", values.page ?? "500")),
    heldSnapshot: values["held-snapshot"] ?? false,
  };
}

async function turn(plan: Plan, place: Place, databaseCpu: () => number) {
  await place.fill(plan.backlog);
  const release = plan.heldSnapshot ? await place.holdSnapshot() : null;
  const began = performance.now();
  const { claimMicros, endMicros } = await workOff(plan, place, databaseCpu);
  const perSecond = (plan.backlog * 1000) / (performance.now() - began);
  await release?.();
  await place.check(plan.backlog);
  return { claimMicros: claimMicros / plan.backlog, endMicros: endMicros / plan.backlog, perSecond };
}

async function workOff(plan: Plan, place: Place, databaseCpu: () => number) {
  let [claimMicros, endMicros] = [0, 0];
  let fromMs: number | null = null;
  for (let before = databaseCpu(); ; ) {
    const pages: (readonly ClaimedRow[])[] = [];
    while (pages.length < pagesAtOnce) {
      const page = await place.claim(plan.page, fromMs);
      if (page.length === 0) break;
      fromMs = latestMs(page);
      pages.push(page);
    }
    const between = databaseCpu();
    claimMicros += between - before;
    if (pages.length === 0) return { claimMicros, endMicros };
    for (const page of pages) await place.end(page);
    before = databaseCpu();
    endMicros += before - between;
  }
}

function render({ names }: Plan, turns: readonly Turn[], twice: ReadonlyMap<DesignName, number>): string {
  const columns = ["Design", "claim µs", "end µs", "both µs", "relative", "effects/s", "claimed twice"];
  const both = ({ claimMicros, endMicros }: Turn) => claimMicros + endMicros;
  const firstOf = (round: number) => turns.find((one) => one.round === round && one.name === names[0]);
  const rows = names.map((name) => {
    const own = turns.filter((one) => one.name === name);
    return [
      name,
      spread(own.map((one) => one.claimMicros)),
      spread(own.map((one) => one.endMicros)),
      spread(own.map(both)),
      spread(
        own.map((one) => both(one) / both(firstOf(one.round) ?? one)),
        2,
      ),
      quantile(
        own.map((one) => one.perSecond),
        0.5,
      ).toFixed(0),
      `${twice.get(name)}`,
    ];
  });
  return [columns, columns.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function spread(values: readonly number[], digits = 1): string {
  const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(values, share).toFixed(digits));
  return `${middle} (${low} to ${high})`;
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

await runProgram(run, usage);
