/** Measures subjects beside each other: in every round, at every concurrency, one after the other in short turns. */
import { setTimeout as pause } from "node:timers/promises";
import { load, type Sample } from "./http/load.ts";
import type { Server } from "./http/server.ts";
import type { Subject } from "./http/subject.ts";

/** A subject in the checkout that it is run from. */
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
  /** CPU time of the server process for each request. */
  readonly serverMicros: number;
  /** CPU time of Postgres for each request; null where it cannot be told. */
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

/** Each turn is preceded by this share of its length, unmeasured; the first of each subject by five whole turns: code is compiled by then. */
export const warmUpShare = 0.2;
export const firstWarmUpTurns = 5;
/** What the turn before has left behind, such as requests that were cut off. */
const settleMs = 30;

/** @throws {Error} when a request is not answered with 2xx */
export async function* measure(plan: Plan): AsyncGenerator<Measurement> {
  for (const entry of plan.entries) {
    await loadOf(plan, entry, Math.max(...plan.concurrencies), firstWarmUpTurns);
  }
  for (let round = 1; round <= plan.rounds; round++) {
    for (const concurrency of plan.concurrencies) {
      // Every other round backwards: what drifts during a round favours nobody.
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
