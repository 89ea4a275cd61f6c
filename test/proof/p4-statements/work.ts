/** What is run on one server: which interleavings, in which lanes. */
import type { IsolationLevel } from "../../../packages/latchkey/src/sql/transaction.ts";
import type { PostgresVersion } from "../../support/postgres-binaries.ts";
import { type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { drawFrom, seedOf } from "../harness/seeded.ts";
import { ProofFailure } from "../harness/tier.ts";
import { type Chooser, DepthFirst, Drawn, Given, type Path } from "./choosers.ts";
import { Lane } from "./lane.ts";
import type { Plant } from "./plants.ts";
import { type Played, play } from "./play.ts";
import { everyIsolation, type FaultKind, faultKinds, type Scenario } from "./scenario.ts";
import { scenarioNamed, scenarios } from "./scenarios.ts";
import { Tally } from "./tally.ts";

/** Fast, and deadlocks are found at once. No housekeeping of the server's own takes locks. */
const conf = {
  deadlock_timeout: "20ms",
  autovacuum: false,
  max_connections: 150,
  shared_buffers: "32MB",
  track_commit_timestamp: true,
};

export function startServer(version: PostgresVersion): Promise<PrivatePostgres> {
  return startPostgres({ version, conf });
}

/** A scenario of which every interleaving is to be run. */
export interface Whole {
  readonly scenario: string;
  readonly isolation: IsolationLevel;
  readonly faults: readonly FaultKind[];
}

const none: readonly FaultKind[] = [];
const wholesOf = (names: readonly string[], faults: readonly FaultKind[]) =>
  everyIsolation.flatMap((isolation) => names.map((scenario): Whole => ({ scenario, isolation, faults })));

/** So small that every interleaving can be run. */
export const wholes: readonly Whole[] = [
  ...wholesOf(
    [
      "request-twice",
      "commits-twice",
      "admissions",
      "owner-against-take-over",
      "ordered-effects",
      "ordered-effects-removed",
      "removed-page",
      "dead-effect",
      "gathered-look-ups",
      "gathered-reservations",
      "gathered-ends",
    ],
    none,
  ),
  ...wholesOf(["optimistic-twice"], none).filter(({ isolation }) => isolation !== "serializable"),
  ...wholesOf(["late-commit", "ordered-effects", "gathered-alone"], faultKinds),
  { scenario: "batch-late-commit", isolation: "read committed", faults: faultKinds },
];

/** A scenario that diverges as often is none of which every interleaving can be run. */
const divergedMax = 100;

/** Of the test command. */
export const smallWholes: readonly Whole[] = [
  { scenario: "late-commit", isolation: "read committed", faults: faultKinds },
  { scenario: "batch-late-commit", isolation: "read committed", faults: faultKinds },
  { scenario: "optimistic-twice", isolation: "read committed", faults: none },
  { scenario: "removed-page", isolation: "read committed", faults: none },
  { scenario: "gathered-look-ups", isolation: "read committed", faults: none },
  { scenario: "gathered-reservations", isolation: "read committed", faults: none },
  { scenario: "gathered-ends", isolation: "read committed", faults: none },
  { scenario: "gathered-alone", isolation: "read committed", faults: faultKinds },
];

export interface WholeProgress {
  readonly count: number;
  /** Null: every one has been run. */
  readonly path: Path | null;
}

export function nameOf({ scenario, isolation, faults }: Whole): string {
  return `${scenario}, ${isolation}${faults.length > 0 ? ", one fault" : ""}`;
}

/** How far it is with one server. JSON. */
export interface Progress {
  readonly drawn: number;
  readonly wholes: Readonly<Record<string, WholeProgress>>;
}

export const atBeginning: Progress = { drawn: 0, wholes: {} };

export interface Plan {
  readonly version: PostgresVersion;
  readonly seed: bigint;
  readonly untilMs: number;
  readonly drawn: number;
  readonly wholes: readonly Whole[];
  readonly from: Progress;
  readonly lanes: readonly IsolationLevel[];
  say(line: string): void;
}

/** One server's part of a sitting. */
export class Work {
  readonly tally = new Tally();
  readonly #plan: Plan;
  readonly #wholes: Map<string, WholeProgress>;
  readonly #waiting: Whole[];
  #drawn: number;
  #played = 0;
  #diverged = 0;
  #failure: ProofFailure | null = null;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#wholes = new Map(Object.entries(plan.from.wholes));
    this.#waiting = plan.wholes.filter((whole) => this.#wholes.get(nameOf(whole))?.path !== null);
    this.#drawn = plan.from.drawn;
  }

  get progress(): Progress {
    return { drawn: this.#drawn, wholes: Object.fromEntries(this.#wholes) };
  }

  /** Interleavings of this sitting. */
  get played(): number {
    return this.#played;
  }

  /** How often a server chose otherwise among those that waited than in the run that is repeated. */
  get diverged(): number {
    return this.#diverged;
  }

  /** @throws {ProofFailure} */
  async run(server: PrivatePostgres): Promise<void> {
    const lanes = await Promise.all(
      this.#plan.lanes.map((isolation, number) => Lane.open({ server, number, isolation })),
    );
    await Promise.all(lanes.map((lane) => this.#inLane(lane)));
    for (const lane of lanes) this.tally.add(lane.tally);
    if (this.#failure !== null) throw this.#failure;
    await Promise.all(lanes.map((lane) => lane.close()));
  }

  get #isOver(): boolean {
    return this.#failure !== null || performance.now() >= this.#plan.untilMs;
  }

  async #inLane(lane: Lane): Promise<void> {
    try {
      for (;;) {
        const index = this.#waiting.findIndex(({ isolation }) => isolation === lane.isolation);
        const [whole] = index < 0 ? [] : this.#waiting.splice(index, 1);
        if (this.#isOver) return;
        if (whole !== undefined) await this.#exhaust(lane, whole);
        else if (this.#drawn < this.#plan.drawn) await this.#draw(lane);
        else return;
      }
    } catch (error) {
      if (!(error instanceof ProofFailure)) throw error;
      this.#failure ??= error;
    }
  }

  async #exhaust(lane: Lane, whole: Whole): Promise<void> {
    const name = nameOf(whole);
    const before = this.#wholes.get(name);
    const chooser = new DepthFirst(before?.path ?? null);
    let count = before?.count ?? 0;
    while (!chooser.done && !this.#isOver) {
      if (chooser.diverged > divergedMax)
        throw new Error(
          `${name} cannot be repeated, so not every one can be run: ${JSON.stringify(chooser.lastDivergence)}`,
        );
      await this.#play(lane, scenarioNamed(whole.scenario), chooser, whole.faults, this.#plan.seed);
      count += 1;
      chooser.advance();
    }
    this.#diverged += chooser.diverged;
    this.#wholes.set(name, { count, path: chooser.done ? null : chooser.path });
    if (chooser.done) this.#plan.say(`PostgreSQL ${this.#plan.version}: all ${count} of ${name}`);
  }

  async #draw(lane: Lane): Promise<void> {
    const run = this.#drawn;
    this.#drawn += 1;
    const seed = seedOf(this.#plan.seed ^ BigInt(this.#plan.version), run);
    const draw = drawFrom(seed);
    const fitting = scenarios.filter(({ isolations }) => isolations.includes(lane.isolation));
    // Each in turn: which lane comes first is chance, and no scenario should be left out for it.
    const scenario = fitting[run % fitting.length];
    if (scenario === undefined) throw new TypeError("There are scenarios");
    const faults = draw.oneIn(4) ? none : scenario.faults;
    await this.#play(lane, scenario, new Drawn(draw), faults, seed);
    if (this.#drawn % 1_000 === 0) this.#plan.say(`PostgreSQL ${this.#plan.version}: ${this.#drawn} drawn`);
  }

  async #play(
    lane: Lane,
    scenario: Scenario,
    chooser: Chooser,
    faults: readonly FaultKind[],
    seed: bigint,
  ): Promise<void> {
    const played = await play(lane, scenario, chooser, faults);
    this.#played += 1;
    if (played.broken.length === 0) return;
    const where = { version: this.#plan.version, scenario, isolation: lane.isolation, faults };
    throw failureOf(where, played, seed, this.#played);
  }
}

interface Where {
  readonly version: PostgresVersion;
  readonly scenario: Scenario;
  readonly isolation: IsolationLevel;
  readonly faults: readonly FaultKind[];
}

function failureOf(
  where: Where,
  { broken, schedule, picks }: Played,
  seed: bigint,
  after: number,
): ProofFailure {
  const { version, scenario, isolation, faults } = where;
  const only = [
    version,
    scenario.name,
    isolation.replace(" ", "-"),
    faults.join("+") || "-",
    picks.join("."),
  ].join("/");
  const what = [
    ...broken,
    `  scenario ${scenario.name}, ${isolation}, PostgreSQL ${version}: ${scenario.about}`,
    `  interleaving ${schedule.join(" | ")}`,
  ].join("\n");
  return new ProofFailure(what, `0x${seed.toString(16)}`, `npm run prove -- --tier P4 --only "${only}"`, {
    after,
  });
}

/** The server itself chooses which of two that wait for one lock goes first, so once may not be enough. */
const repetitions = 20;

/**
 * Runs again what a failure has named.
 *
 * @throws {ProofFailure} when it fails again
 */
export async function runOnly(only: string): Promise<number> {
  const [version = "", name = "", level = "", kinds = "", picks = ""] = only.split("/");
  const isolation = everyIsolation.find((one) => one.replace(" ", "-") === level);
  if (isolation === undefined) throw new TypeError(`--only: there is no isolation level ${level}`);
  const scenario = scenarioNamed(name);
  const faults = faultKinds.filter((kind) => kinds.split("+").includes(kind));
  const server = await startServer(Number(version) as PostgresVersion);
  const lane = await Lane.open({ server, number: 0, isolation });
  const given = picks === "" ? [] : picks.split(".").map(Number);
  for (let run = 1; run <= repetitions; run++) {
    const played = await play(lane, scenario, new Given(given), faults);
    if (played.broken.length > 0) {
      const where = { version: server.version, scenario, isolation, faults };
      throw failureOf(where, played, 0n, run);
    }
  }
  await lane.close();
  await server.stop();
  return repetitions;
}

export function laneOf(
  { isolation = "read committed", rewrite }: Plant,
  server: PrivatePostgres,
  number: number,
) {
  return Lane.open({ server, number, isolation, rewrite });
}

/** After how many interleavings a planted mistake is found; null: not within `max`. */
export async function findPlant(
  lane: Lane,
  scenario: Scenario,
  faults: readonly FaultKind[],
  max: number,
): Promise<{ readonly after: number; readonly played: Played } | null> {
  for (let run = 1; run <= max; run++) {
    const played = await play(lane, scenario, new Drawn(drawFrom(BigInt(run))), faults);
    if (played.broken.length > 0) return { after: run, played };
  }
  return null;
}
