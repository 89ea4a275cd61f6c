/** Measures subjects in turn: in every round, at every concurrency, one after the other in short turns. */
import { setTimeout as pause } from "node:timers/promises";
import { load, type Sample } from "./http/load.ts";
import type { Server } from "./http/server.ts";
import type { Subject } from "./http/subject.ts";

/** A subject and the checkout from which it is run. */
export interface Entry {
  readonly subject: Subject;
  /** Null: this one. */
  readonly checkout: string | null;
  readonly server: Server;
}

export interface Measurement {
  readonly entry: Entry;
  readonly round: number;
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU time of the server process per request. */
  readonly serverMicros: number;
  /** CPU time of Postgres per request; null if it is not available. */
  readonly databaseMicros: number | null;
}

export interface Plan {
  readonly entries: readonly Entry[];
  readonly concurrencies: readonly number[];
  readonly rounds: number;
  readonly turnSeconds: number;
  /** See `LoadOptions`. */
  readonly awake: boolean;
  readonly databaseCpu: () => number | null;
}

/**
 * Before each turn, this share of its length is run without measuring; before the first turn of each subject five whole
 * turns, after which the code is compiled.
 */
export const warmUpShare = 0.2;
export const firstWarmUpTurns = 5;
/** Time for leftovers of the previous turn, such as requests that were cut off. */
const settleMs = 30;

/** @throws {Error} if a request is not answered with 2xx */
export async function* measure(plan: Plan): AsyncGenerator<Measurement> {
  for (const entry of plan.entries) {
    await loadOf(plan, entry, Math.max(...plan.concurrencies), firstWarmUpTurns);
  }
  for (let round = 1; round <= plan.rounds; round++) {
    for (const concurrency of plan.concurrencies) {
      // Every other round in reverse order, so that a drift during a round favours no subject.
      const turns = round % 2 === 0 ? plan.entries.toReversed() : plan.entries;
      for (const entry of turns) yield await turn(plan, entry, round, concurrency);
    }
  }
}

function loadOf(plan: Plan, { server, subject }: Entry, connections: number, turns: number): Promise<Sample> {
  const seconds = plan.turnSeconds * turns;
  return load({ url: server.url, job: subject.job, connections, seconds, awake: plan.awake });
}

async function turn(plan: Plan, entry: Entry, round: number, concurrency: number): Promise<Measurement> {
  const { subject, server } = entry;
  await loadOf(plan, entry, concurrency, warmUpShare);
  await pause(settleMs);
  const [cpuBefore, databaseBefore] = [await server.usage(), plan.databaseCpu()];
  const sample = await loadOf(plan, entry, concurrency, 1);
  const [cpuAfter, databaseAfter] = [await server.usage(), plan.databaseCpu()];
  const { requestsPerSecond, p50Ms, p99Ms, failed, completed } = sample;
  if (failed > 0 || completed === 0) {
    throw new Error(`${Object.values(subject).join("/")}: ${failed} requests failed, ${completed} completed`);
  }
  return {
    entry,
    round,
    concurrency,
    requestsPerSecond,
    p50Ms,
    p99Ms,
    serverMicros: (cpuAfter.cpuMicros - cpuBefore.cpuMicros) / completed,
    databaseMicros:
      databaseBefore === null || databaseAfter === null ? null : (databaseAfter - databaseBefore) / completed,
  };
}
