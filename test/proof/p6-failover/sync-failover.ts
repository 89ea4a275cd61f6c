/** Failovers to a synchronous standby: nothing that a caller got a reply for may be lost, and nothing may happen twice. */
import { installation, installedVersions, type PostgresVersion } from "../../support/postgres-binaries.ts";
import { failOver } from "./fail-over.ts";
import { auditViolations, untilTidy, violations } from "./judge.ts";
import { Pair } from "./pair.ts";
import { nameOf, planOf } from "./plan.ts";
import { ProcessGroup } from "./process-group.ts";
import { expectNone, type Section, type Stage, type Tally } from "./section.ts";

/** So many failovers in a row are of one pair, whose clients are never started again. */
const runsPerPair = 12;

export const syncFailover: Section = {
  id: "sync",
  what: "synchronous failovers",
  bound: "a primary and one synchronous standby, two processes that submit the same keys in three modes",
  runs: 108,
  small: 0,
  requiredFaults: [
    "primary killed",
    "promoted while the old primary ran",
    "replication cut",
    "replication stalled",
    "standby silent",
    "wait for the standby cancelled",
    "waiting session terminated",
    "COMMITs waited for the standby at the end",
    "COMMIT held until the primary was dead",
    "COMMIT's confirmation lost",
  ],
  requiredReached: [
    "COMMIT in doubt resolved to committed",
    "COMMIT in doubt resolved to rolled back",
    "attempt resumed after its owner lost it",
    "unknown settled",
    "answer replayed",
  ],
  versions: postgresVersionsUsed,
  open: async (seed) => new SyncStage(seed),
  measured: ({ answers = 0, outageMs = 0 }, runs) => [
    `${runs} synchronous failovers: ${answers} answers given before the primary died, 0 lost; every client had answers in every mode again ${Math.round(outageMs / runs)} ms after its death, on average.`,
  ],
};

export async function postgresVersionsUsed(): Promise<Readonly<Record<string, string>>> {
  const versions = installedVersions().map((version) => installation(version).fullVersion);
  return { PostgreSQL: versions.join(", ") };
}

/** The versions take turns, by blocks of runs. */
export function versionOf(run: number, runsPerBlock: number): PostgresVersion {
  const versions = installedVersions();
  const version = versions[Math.floor(run / runsPerBlock) % versions.length];
  if (version === undefined) throw new Error("no PostgreSQL is installed");
  return version;
}

class SyncStage implements Stage {
  readonly #seed: bigint;
  #block: { readonly number: number; readonly pair: Pair; readonly crew: ProcessGroup } | null = null;

  constructor(seed: bigint) {
    this.#seed = seed;
  }

  async run(number: number): Promise<Tally> {
    const { pair, crew } = await this.#blockOf(number);
    const plan = planOf(this.#seed, number);
    const round = `s${number}`;
    const { faults, answered, outageMs } = await failOver(pair, crew, round, plan);
    const scene = { server: pair.primary, receiver: crew.receiver, round, clients: crew.clients };
    const what = `synchronous failover ${number} (${nameOf(plan)})`;
    expectNone(what, await violations(scene));
    expectNone(what, await auditViolations(scene));
    return { faults, reached: crew.reached(), sums: { answers: answered.length, outageMs } };
  }

  async #blockOf(run: number): Promise<{ readonly pair: Pair; readonly crew: ProcessGroup }> {
    const number = Math.floor(run / runsPerPair);
    if (this.#block?.number === number) return this.#block;
    await this.close();
    const pair = await Pair.open({ synchronous: true, version: versionOf(run, runsPerPair) });
    const crew = await ProcessGroup.open(pair.url, [{}, {}]);
    this.#block = { number, pair, crew };
    return this.#block;
  }

  async close(): Promise<void> {
    if (this.#block === null) return;
    const { pair, crew } = this.#block;
    this.#block = null;
    await untilTidy({ server: pair.primary, receiver: crew.receiver });
    await crew.close();
    await pair.close();
  }
}
