/**
 * `synchronous_commit = off` in the session, and a server that is killed and started again. A store that is `synced` must
 * lose nothing all the same; of one that may lose what was acknowledged the loss is counted.
 */
import { type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { lossIn, lossOf } from "./async-failover.ts";
import { auditViolations, violations } from "./judge.ts";
import { prepare } from "./pair.ts";
import { ProcessGroup } from "./process-group.ts";
import { expectNone, type Section, type Stage, type Tally } from "./section.ts";
import { postgresVersionsUsed, versionOf } from "./sync-failover.ts";

const warmUp = 6;
const runsPerServer = 10;

export const lazyCommit: Section = {
  id: "lazy-commit",
  what: "kills of a server whose sessions commit asynchronously",
  bound: "synchronous_commit = off; every second run with a store that may lose what it has acknowledged",
  runs: 40,
  small: 0,
  requiredFaults: ["server killed"],
  requiredReached: ["answer replayed", "answer lost where that was declared"],
  versions: postgresVersionsUsed,
  open: async () => new LazyStage(),
  measured: (sums, runs) => [
    `synchronous_commit = off, ${Math.ceil(runs / 2)} kills with durability "synced": ${sums.kept ?? 0} keys with an answer, 0 lost.`,
    `synchronous_commit = off, ${Math.floor(runs / 2)} kills with durability "may-lose-acknowledged": ${lossOf(sums)}`,
  ],
};

interface Block {
  readonly number: number;
  readonly server: PrivatePostgres;
  readonly synced: ProcessGroup;
  readonly lossy: ProcessGroup;
}

class LazyStage implements Stage {
  #block: Block | null = null;

  async run(number: number): Promise<Tally> {
    const { server, synced, lossy } = await this.#blockOf(number);
    const keeps = number % 2 === 0;
    const crew = keeps ? synced : lossy;
    const round = `z${number}`;
    const scene = { server, receiver: crew.receiver, round, clients: crew.clients };
    const what = `kill ${number} under synchronous_commit = off`;
    crew.begin(round);
    await crew.untilAnswered(round, warmUp);
    await server.kill9();
    const answered = crew.answeredIn(round);
    await server.start();
    await crew.untilAnswered(round, 1);
    await crew.rest();
    const reached = crew.reached();
    const faults = { "server killed": 1 };
    if (keeps) {
      expectNone(what, await violations(scene));
      expectNone(what, await auditViolations(scene));
      return { faults, reached, sums: { kept: answered.length } };
    }
    const sums = await lossIn(what, scene, answered);
    return { faults, reached: { ...reached, "answer lost where that was declared": sums.lost ?? 0 }, sums };
  }

  async #blockOf(run: number): Promise<Block> {
    const number = Math.floor(run / runsPerServer);
    if (this.#block?.number === number) return this.#block;
    await this.close();
    const server = await startPostgres({ version: versionOf(run, runsPerServer) });
    await prepare(server);
    const open = (durability: "synced" | "may-lose-acknowledged") => {
      const options = { durability, sessionOptions: "-c synchronous_commit=off", name: durability };
      return ProcessGroup.open(server.url, [options, options]);
    };
    this.#block = {
      number,
      server,
      synced: await open("synced"),
      lossy: await open("may-lose-acknowledged"),
    };
    return this.#block;
  }

  async close(): Promise<void> {
    if (this.#block === null) return;
    const { server, synced, lossy } = this.#block;
    this.#block = null;
    await synced.close();
    await lossy.close();
    await server.stop();
  }
}
