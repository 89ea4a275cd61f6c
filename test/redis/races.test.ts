/**
 * Fifty requests with the same key at once, half of them in each of two processes with different clients: one start.
 * By default 60 rounds for each pair of clients; LATCHKEY_PROVE=1: 1,000.
 */

import { describe, expect, test } from "vitest";
import { redisProgram } from "../support/private-redis.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { isProof } from "../support/thorough.ts";
import { privateRedis } from "./arrange.ts";

const rounds = isProof ? 1_000 : 60;
const callers = 25;
const script = new URL("./service-process.ts", import.meta.url);

interface Round {
  readonly starts: number;
  readonly kinds: Readonly<Record<string, number>>;
}

async function play(worker: WorkerProcess, round: number, key = `key-${round}`): Promise<Round> {
  worker.send({ round, key, callers });
  return (await worker.line((line) => line.round === round)) as unknown as Round;
}

describe.skipIf(redisProgram() === undefined)("fifty requests on two processes", () => {
  test.each([
    ["ioredis 6", "node-redis 6"],
    ["iovalkey", "node-redis 4"],
  ])("with %s and %s: one start for each key", async (...names) => {
    const server = await privateRedis({ appendonly: "yes" });
    const workers = names.map((name) => spawnWorker(script, { args: [server.url, name] }));
    for (const worker of workers) await worker.ready();
    let met = 0;
    for (let count = 0; count < rounds; count += 1) {
      const results = await Promise.all(workers.map((worker) => play(worker, count)));
      const all = { executed: 0, replay: 0, in_progress: 0 };
      for (const { kinds } of results) {
        for (const [kind, number] of Object.entries(kinds)) all[kind as keyof typeof all] += number;
      }
      expect([results.map(({ starts }) => starts).sort(), all.executed]).toEqual([[0, 1], 1]);
      expect(all.executed + all.replay + all.in_progress).toBe(2 * callers);
      met += all.in_progress;
    }
    expect(met, "requests must have met while the work ran").toBeGreaterThan(rounds);
    for (const worker of workers) {
      const { starts, kinds } = await play(worker, rounds, "key-0");
      expect([starts, kinds]).toEqual([0, { replay: callers }]);
    }
  });
});
