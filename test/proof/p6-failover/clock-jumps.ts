/**
 * The database's clock jumps by ten hours under load, there and back, while the clocks of the processes are ten hours off in
 * both directions. Times in records are the database's: a jump moves when things are due, and makes nothing happen twice.
 */

import { type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { drawFrom, seedOf } from "../harness/seeded.ts";
import { Client } from "./client.ts";
import { type JumpingClock, jumpingClock, wrongClock } from "./fake-clock.ts";
import { auditViolations, untilTidy, type Violation, violations } from "./judge.ts";
import { prepare } from "./pair.ts";
import { ProcessGroup } from "./process-group.ts";
import { type Counts, expectNone, type Section, type Stage, type Tally, type Unable } from "./section.ts";
import { postgresVersionsUsed, versionOf } from "./sync-failover.ts";

/**
 * Hours, one after the other. Each ends where the clock has been at most: what was put off while it was ahead is due again
 * only then.
 */
const courses = [[10], [-10, 0], [10, 0, 10], [-10, 10, -10, 10]] as const;

const warmUp = 3;

export const clockJumps: Section = {
  id: "clock",
  what: "courses of clock jumps under load",
  bound:
    "the database's clock by 10 and 20 hours, forth and back; one client 10 hours ahead, one behind; a killed owner; 30 hours",
  runs: 8,
  small: 0,
  requiredFaults: ["clock forth", "clock back"],
  requiredReached: [
    "answer replayed",
    "ran as new after its retention",
    "held for as long as the clock was back",
  ],
  versions: postgresVersionsUsed,
  async open(seed): Promise<Stage | Unable> {
    const clock = await jumpingClock();
    return clock === null ? { notRun: "libfaketime is not to be had" } : new ClockStage(seed, clock);
  },
  measured: () => [
    "A database clock that jumps ahead ends every lease and every retention that it passes, at once: running attempts stop, and what is over its retention runs as new. One that jumps back holds what a dead owner had, and puts off retries and deliveries, until it has caught up. Neither made anything happen twice; the clocks of processes made no difference.",
  ],
};

class ClockStage implements Stage {
  readonly #seed: bigint;
  readonly #clock: JumpingClock;

  constructor(seed: bigint, clock: JumpingClock) {
    this.#seed = seed;
    this.#clock = clock;
  }

  async run(number: number): Promise<Tally> {
    this.#clock.set(0);
    const server = await startPostgres({ version: versionOf(number, 2), env: this.#clock.environment });
    await prepare(server);
    const [ahead, behind] = [await wrongClock(10), await wrongClock(-10)];
    const crew = await ProcessGroup.open(server.url, [
      { env: ahead, loops: 3 },
      { env: behind, loops: 3 },
    ]);
    expectHours(crew.aheadHours, [10, -10]);
    const round = `c${number}`;
    const faults = await this.#underLoad(number, server, crew, round);
    const what = `clock jumps, run ${number}`;
    const scene = { server, receiver: crew.receiver, round, clients: crew.clients };
    expectNone(what, await violations(scene));
    expectNone(what, await auditViolations(scene));
    await untilTidy(scene);
    const stated = {
      ...(await this.#killedOwner(server, crew, number)),
      ...(await this.#forgotten(crew, number)),
    };
    const reached = { ...crew.reached(), ...stated };
    await crew.close();
    await server.stop();
    return { faults, reached, sums: {} };
  }

  async #underLoad(
    number: number,
    server: PrivatePostgres,
    crew: ProcessGroup,
    round: string,
  ): Promise<Counts> {
    const draw = drawFrom(seedOf(this.#seed, number));
    const faults = { "clock forth": 0, "clock back": 0 };
    let hours = 0;
    crew.begin(round);
    await crew.untilAnswered(round, warmUp);
    for (const next of courses[number % courses.length] ?? []) {
      this.#clock.set(next);
      const [row] = await server.admin<{ now: Date }>("select clock_timestamp() as now");
      expectHours([((row?.now.getTime() ?? 0) - Date.now()) / 3_600_000], [next]);
      faults[next > hours ? "clock forth" : "clock back"] += 1;
      hours = next;
      // Keys of the other modes may have to wait until the clock has caught up.
      const more = 2 + draw.below(8);
      await Promise.all(crew.clients.map((client) => client.untilAnswered(round, more, ["transaction"])));
    }
    await crew.rest();
    return faults;
  }

  /** Its key is held until its lease is over by the database's clock; then it is asked about, and nothing is sent again. */
  async #killedOwner(server: PrivatePostgres, crew: ProcessGroup, number: number): Promise<Counts> {
    const { receiver, clients } = crew;
    const [survivor] = clients;
    const name = `k${number}`;
    const victim = new Client({
      databaseUrl: server.url,
      receiverUrl: receiver.url,
      name,
      modes: ["lease"],
      loops: 1,
    });
    await victim.ready();
    const before = receiver.withheld().length;
    receiver.withhold();
    victim.send({ do: "begin", round: "0" });
    await victim.untilTrue(() => receiver.withheld().length > before);
    await victim.stop();
    receiver.answer();
    const hours = courses[number % courses.length]?.at(-1) ?? 0;
    this.#clock.set(hours - 10);
    const key = `${name}-0-lease-0`;
    let answered = false;
    const answer = survivor?.audit([{ mode: "lease", key }]).then((acks) => {
      answered = true;
      return acks;
    });
    await survivor?.untilReported("reply in_progress", 40);
    const early = answered;
    this.#clock.set(hours);
    const acks = (await answer) ?? [];
    const sent = receiver.effectsOf(`lease:${key}`);
    const wrong: Violation[] = [];
    if (early)
      wrong.push({
        invariant: "I6",
        seen: `${key} was answered while its lease held by the database's clock`,
      });
    if (sent !== 1) wrong.push({ invariant: "I1", seen: `lease:${key} has happened ${sent} times` });
    if (acks[0]?.by !== "found")
      wrong.push({ invariant: "L3", seen: `${key} was answered with ${acks[0]?.by}` });
    expectNone("an owner that is killed before the clock goes back", wrong);
    return { "held for as long as the clock was back": 1 };
  }

  /** Over its retention by the database's clock a key runs as new, and not before. */
  async #forgotten(crew: ProcessGroup, number: number): Promise<Counts> {
    const [client] = crew.clients;
    const keys = [{ mode: "transaction", key: `n${number}-forgotten` }] as const;
    const hours = courses[number % courses.length]?.at(-1) ?? 0;
    const reply = async () => (await client?.audit(keys))?.[0];
    const first = await reply();
    this.#clock.set(hours + 10);
    const kept = await reply();
    this.#clock.set(hours + 30);
    const anew = await reply();
    this.#clock.set(hours);
    const last = await reply();
    const wrong: Violation[] = [];
    if (first?.kind !== "executed") wrong.push({ invariant: "I1", seen: `a new key got ${first?.kind}` });
    if (kept?.by !== first?.by)
      wrong.push({ invariant: "I3", seen: "ten hours later it had another answer" });
    if (anew?.kind !== "executed" || anew.record === first?.record) {
      wrong.push({
        invariant: "I3",
        seen: `thirty hours later, over its retention, it got ${anew?.kind}`,
      });
    }
    if (last?.by !== anew?.by)
      wrong.push({ invariant: "I3", seen: "back again it had another answer than the last" });
    expectNone("a key over its retention", wrong);
    return { "ran as new after its retention": 1 };
  }

  async close(): Promise<void> {}
}

/** The jump is not to be a wish. */
function expectHours(are: readonly number[], want: readonly number[]): void {
  const wrong = want.findIndex((hours, index) => !(Math.abs((are[index] ?? Number.NaN) - hours) < 0.1));
  if (wrong >= 0) throw new Error(`a clock is ${are[wrong]} hours ahead, and was to be ${want[wrong]}`);
}
