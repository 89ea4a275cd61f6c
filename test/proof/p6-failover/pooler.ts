/**
 * pgbouncer in transaction mode between Latchkey and its database: the store contract, same-key races, and the pooler's own
 * death. And what happens to whoever leaves out the options that Latchkey needs there.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { debianTool } from "../../support/debian-tools.ts";
import { type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { Bouncer } from "./bouncer.ts";
import { keepsContract } from "./contract.ts";
import { auditViolations, untilTidy, violations } from "./judge.ts";
import { prepare } from "./pair.ts";
import { ProcessGroup } from "./process-group.ts";
import { race } from "./race.ts";
import { expectNone, type Section, type Stage, type Tally, type Unable } from "./section.ts";
import { postgresVersionsUsed, versionOf } from "./sync-failover.ts";

/** The options of `postgresStore` behind a pooler of transactions. */
const pooled = { namedStatements: false, notify: false };
const contenders = 50;
const warmUp = 3;
const kills = 2;
/** Few, so that clients change connections all the time; the contract has up to eight transactions open at once. */
const poolSizes = { contract: 20, "*": 6 };
const runsPerServer = 8;

export const pooler: Section = {
  id: "pooler",
  what: "runs through pgbouncer in transaction mode",
  bound: `the store contract once per version, races of ${contenders} submissions of one key, and the pooler killed under load`,
  runs: 3 * runsPerServer,
  small: 0,
  requiredFaults: ["pooler killed"],
  requiredReached: ["case of the store contract", "race with one winner", "answered without the options"],
  async versions() {
    const program = await debianTool("pgbouncer");
    const version = program === null ? "none" : await versionOfProgram(program);
    return { ...(await postgresVersionsUsed()), pgbouncer: version };
  },
  async open(): Promise<Stage | Unable> {
    const program = await debianTool("pgbouncer");
    return program === null ? { notRun: "pgbouncer is not to be had" } : new PoolerStage(program);
  },
  measured: ({ answered = 0, reruns = 0, refused = 0 }) => [
    `pgbouncer in transaction mode with \`namedStatements: false\` and \`notify: false\`: the whole store contract holds. Without these options it works too (${answered} keys, all answered rightly), but ${reruns} transactions ran again and ${refused} submissions were refused and made again, because a connection did not know a statement.`,
  ],
};

interface Block {
  readonly number: number;
  readonly server: PrivatePostgres;
  readonly bouncer: Bouncer;
}

class PoolerStage implements Stage {
  readonly #program: string;
  #block: Block | null = null;

  constructor(program: string) {
    this.#program = program;
  }

  async run(number: number): Promise<Tally> {
    const { server, bouncer } = await this.#blockOf(number);
    // Of the run before, whose receiver has gone.
    await server.admin("delete from latchkey.outbox where state = 'delivered'");
    const turn = number % runsPerServer;
    if (turn === 0) return contract(server, bouncer);
    if (turn === 1) return withoutOptions(server, bouncer, number);
    return turn % 2 === 0 ? contest(bouncer, number) : killed(server, bouncer, number);
  }

  async #blockOf(run: number): Promise<Block> {
    const number = Math.floor(run / runsPerServer);
    if (this.#block?.number === number) return this.#block;
    await this.close();
    const server = await startPostgres({ version: versionOf(run, runsPerServer) });
    await prepare(server);
    const bouncer = await Bouncer.open({ program: this.#program, server, poolSizes });
    this.#block = { number, server, bouncer };
    return this.#block;
  }

  async close(): Promise<void> {
    await this.#block?.bouncer.stop();
    await this.#block?.server.stop();
    this.#block = null;
  }
}

async function contract(server: PrivatePostgres, bouncer: Bouncer): Promise<Tally> {
  await server.admin("create database contract");
  const url = new URL(bouncer.url);
  url.pathname = "/contract";
  const cases = await keepsContract({ url: url.href, store: pooled });
  return { faults: {}, reached: { "case of the store contract": cases }, sums: {} };
}

async function contest(bouncer: Bouncer, number: number): Promise<Tally> {
  const {
    answered,
    refused,
    violations: wrong,
  } = await race({
    url: bouncer.url,
    key: `race-${number}`,
    contenders,
    store: pooled,
  });
  expectNone(`a race through pgbouncer, run ${number}`, wrong);
  if (answered !== contenders)
    throw new Error(`of ${contenders} submissions ${JSON.stringify(refused)} were refused`);
  return { faults: {}, reached: { "race with one winner": 1 }, sums: {} };
}

/** Names of statements are then of connections that others have had since. It works, at the price of doing things again. */
async function withoutOptions(server: PrivatePostgres, bouncer: Bouncer, number: number): Promise<Tally> {
  const crew = await ProcessGroup.open(bouncer.url, [{}, {}]);
  const round = `w${number}`;
  crew.begin(round);
  await crew.untilAnswered(round, 15);
  await crew.rest();
  const scene = { server, receiver: crew.receiver, round, clients: crew.clients };
  const what = `pgbouncer without the options for it, run ${number}`;
  expectNone(what, await violations(scene));
  expectNone(what, await auditViolations(scene));
  await untilTidy(scene);
  const count = (event: string) => crew.clients.reduce((sum, client) => sum + client.countOf(event), 0);
  const sums = {
    answered: crew.answeredIn(round).length,
    reruns: count("transaction_rerun"),
    refused: count("threw"),
  };
  await crew.close();
  return { faults: {}, reached: { "answered without the options": sums.answered }, sums };
}

/** Every connection is lost at once; COMMITs in doubt are resolved through the pooler that comes after. */
async function killed(server: PrivatePostgres, bouncer: Bouncer, number: number): Promise<Tally> {
  const options = { pooled: true };
  const crew = await ProcessGroup.open(bouncer.url, [options, options]);
  const round = `b${number}`;
  crew.begin(round);
  for (let kill = 0; kill < kills; kill++) {
    await crew.untilAnswered(round, warmUp);
    await bouncer.kill9();
    await bouncer.start();
  }
  await crew.untilAnswered(round, 1);
  await crew.rest();
  const what = `pgbouncer killed under load, run ${number}`;
  const scene = { server, receiver: crew.receiver, round, clients: crew.clients };
  expectNone(what, await violations(scene));
  expectNone(what, await auditViolations(scene));
  await untilTidy(scene);
  const reached = crew.reached();
  await crew.close();
  return { faults: { "pooler killed": kills }, reached, sums: {} };
}

async function versionOfProgram(program: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, ["--version"]);
  return /PgBouncer (\S+)/.exec(stdout)?.[1] ?? "unknown";
}
