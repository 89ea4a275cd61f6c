/**
 * Failovers to an asynchronous standby: what callers have got may be lost, so it is counted. What is there must still be
 * whole, fences must be new ones, and nobody may get another's answer.
 */
import { drawFrom, seedOf } from "../harness/seeded.ts";
import { Client } from "./client.ts";
import type { Ack } from "./client-process.ts";
import { failOver } from "./fail-over.ts";
import { answeredKeys, judge, type Round, type Violation } from "./judge.ts";
import { Pair } from "./pair.ts";
import { nameOf, type Plan } from "./plan.ts";
import { ProcessGroup } from "./process-group.ts";
import { type Counts, expectNone, type Section, type Stage, type Tally } from "./section.ts";
import { postgresVersionsUsed, versionOf } from "./sync-failover.ts";

const runsPerPair = 5;
const durability = "may-lose-acknowledged";

export const asyncFailover: Section = {
  id: "async",
  what: "asynchronous failovers",
  bound: "a primary and one asynchronous standby; loss is measured, all else is judged",
  runs: 20,
  small: 0,
  requiredFaults: ["primary killed", "replication stalled"],
  requiredReached: ["answer lost", "answer replayed", "key misuse refused", "fence number given out again"],
  versions: postgresVersionsUsed,
  open: async (seed) => new AsyncStage(seed),
  measured: (sums, runs) => [
    `${runs} failovers to an asynchronous standby, half of them with the replication stalled: ${lossOf(sums)}`,
  ],
};

/** What was counted, as a sentence. */
export function lossOf({ answered = 0, lost = 0, again = 0, twice = 0 }: Counts): string {
  const share = answered === 0 ? 0 : (100 * lost) / answered;
  return `of ${answered} keys with an answer before the primary died, ${lost} had lost it (${share.toFixed(1)} %), ${again} ran again when they were submitted again, and for ${twice} something then happened twice on the other side.`;
}

/**
 * Counts what became of keys that had an answer, by submitting them again, and judges what must hold whatever was lost.
 *
 * @throws {Violated}
 */
export async function lossIn(what: string, scene: Round, answered: readonly string[]): Promise<Counts> {
  const [auditor] = scene.clients;
  if (auditor === undefined) throw new TypeError("a scene has clients");
  const before = await judge(scene);
  expectNone(what, before.state);
  const replies = await auditor.audit(answeredKeys(scene));
  // What ran again was called for again.
  const after = await judge(scene);
  expectNone(what, after.state);
  const of = (violations: readonly Violation[]) => (key: string) =>
    violations.some(({ seen }) => seen.split(/[: ]/).includes(key));
  const ranAgain = new Set(replies.filter(({ kind }) => kind === "executed").map(({ ack }) => ack));
  return {
    answered: answered.length,
    lost: answered.filter(of(before.answers)).length,
    again: answered.filter((key) => ranAgain.has(key)).length,
    twice: answered.filter(of(after.effects)).length,
  };
}

class AsyncStage implements Stage {
  readonly #seed: bigint;
  #block: {
    readonly number: number;
    readonly pair: Pair;
    readonly crew: ProcessGroup;
    readonly other: Client;
  } | null = null;

  constructor(seed: bigint) {
    this.#seed = seed;
  }

  async run(number: number): Promise<Tally> {
    const { pair, crew, other } = await this.#blockOf(number);
    const draw = drawFrom(seedOf(this.#seed, number));
    const link = number % 2 === 0 ? "stall-down" : "flows";
    const end = draw.oneIn(3) ? "promote-first" : "kill";
    const plan: Plan = { holdCommit: draw.oneIn(2), holdReply: draw.oneIn(2), link, waits: "left", end };
    const round = `a${number}`;
    const what = `asynchronous failover ${number} (${nameOf(plan)})`;
    const { faults, answered } = await failOver(pair, crew, round, plan);
    const scene = { server: pair.primary, receiver: crew.receiver, round, clients: crew.clients };
    const sums = await lossIn(what, scene, answered);
    const keys = answeredKeys(scene);
    expectNone(what, await misused(scene));
    expectNone(what, mixed(other, await other.audit(keys.filter(({ mode }) => mode === "transaction"))));
    return {
      faults,
      reached: {
        ...crew.reached(),
        "answer lost": sums.lost ?? 0,
        "key misuse refused": keys.length,
        "fence number given out again": repeatedNumbers(crew),
      },
      sums,
    };
  }

  async #blockOf(run: number) {
    const number = Math.floor(run / runsPerPair);
    if (this.#block?.number === number) return this.#block;
    await this.close();
    const pair = await Pair.open({ synchronous: false, version: versionOf(run, runsPerPair) });
    const crew = await ProcessGroup.open(pair.url, [{ durability }, { durability }]);
    const other = new Client({
      databaseUrl: pair.url,
      receiverUrl: crew.receiver.url,
      tenant: "u",
      modes: ["transaction"],
      durability,
    });
    await other.ready();
    this.#block = { number, pair, crew, other };
    return this.#block;
  }

  async close(): Promise<void> {
    if (this.#block === null) return;
    const { pair, crew, other } = this.#block;
    this.#block = null;
    await other.stop();
    await crew.close();
    await pair.close();
  }
}

/** I2: the key with another input never runs, and gets nobody's answer. */
async function misused(scene: Round): Promise<readonly Violation[]> {
  const keys = answeredKeys(scene);
  const replies = (await scene.clients[0]?.misuse(keys)) ?? [];
  return keys.flatMap(({ key }, index) =>
    replies[index] === "key_misuse"
      ? []
      : [{ invariant: "I2", seen: `${key} with another input: ${replies[index]}` }],
  );
}

/** I11: the same keys of another tenant run as new, and give answers of their own. */
function mixed(other: Client, acks: readonly Ack[]): readonly Violation[] {
  const own = new Set(other.read().ran.map(({ token }) => token));
  return acks
    .filter(({ kind, by }) => kind !== "executed" || !own.has(by))
    .map(({ ack, by, kind }) => ({ invariant: "I11", seen: `${ack} of another tenant: ${kind} by ${by}` }));
}

/** How many times an attempt's number was given out under a key that had it already, with another token. */
function repeatedNumbers({ clients }: ProcessGroup): number {
  const ran = clients.flatMap((client) => client.ran).filter(({ mode }) => mode === "lease");
  const byNumber = Map.groupBy(ran, ({ ran: key, attempt }) => `${key} ${attempt}`);
  return [...byNumber.values()].filter((runs) => new Set(runs.map(({ token }) => token)).size > 1).length;
}
