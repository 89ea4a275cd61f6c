/**
 * The random calls that compare the other stores with the memory store, without transactions and outbox: the Redis store
 * answers as the memory store does, with one partition and with several. By default 60 sequences each; LATCHKEY_PROVE=1: 3,000.
 */

import { describe, expect, test } from "vitest";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { linkOf, type RedisLink } from "../../packages/latchkey/src/stores/redis/client.ts";
import { recordScripts } from "../../packages/latchkey/src/stores/redis/scripts/records.ts";
import { runBatch } from "../proof/p3-stores/batch.ts";
import type { StoreKind } from "../proof/p3-stores/bench.ts";
import { Lane } from "../proof/p3-stores/lane.ts";
import { memory } from "../proof/p3-stores/memory-bench.ts";
import { redisProgram } from "../support/private-redis.ts";
import { isProof } from "../support/thorough.ts";
import { openClient, privateRedis, storeOver } from "./arrange.ts";
import { newPrefix } from "./clients.ts";

const sequences = isProof ? 3_000 : 60;
const seed = 0x5eed_0004n;

function redis(partitions: number, around = (link: RedisLink) => link): StoreKind {
  return {
    name: "redis",
    async open() {
      const server = await privateRedis({ appendonly: "yes", appendfsync: "no" });
      const client = openClient(server.url);
      return {
        name: "redis",
        version: String(partitions),
        async begin(clock) {
          let nowMs = clock.wallMs();
          const prefix = newPrefix();
          const link = around(linkOf(client));
          const store = storeOver(link, {
            prefix,
            partitions,
            ports: { ...systemPorts, clock },
            now: () => nowMs,
          });
          return {
            name: "redis",
            store,
            async setTime(ms) {
              nowMs = ms;
            },
            write: () => Promise.reject(new Error("there are no transactions")),
            rows: async () => [],
            end: async () => {},
          };
        },
        close: () => server.stop(),
      };
    },
  };
}

async function play(kind: StoreKind, count: number) {
  const lane = await Lane.open([memory, kind], { lane: 0, postgres: null });
  const untilMs = Number.POSITIVE_INFINITY;
  const result = await runBatch(lane, {
    part: "calls",
    seed,
    from: 0,
    to: count,
    every: 10,
    shrinkTries: 100,
    untilMs,
  });
  await lane.close();
  return result;
}

describe.skipIf(redisProgram() === undefined)("the same calls on Redis as in memory", () => {
  test.each([1, 3])("with %d partitions", async (partitions) => {
    const { played, failure, reached } = await play(redis(partitions), sequences);
    expect(failure).toBeNull();
    expect(played).toBe(sequences);
    const met = [
      "create: done",
      "takeOver: done",
      "end: done",
      "settle: done",
      "claimPending: some",
      "clean: done",
    ];
    for (const what of met) expect(reached[what], what).toBeGreaterThan(0);
    expect(reached["run: committed"]).toBeUndefined();
  });

  test("a store that renews for anybody is found", async () => {
    const sloppy = (link: RedisLink): RedisLink => ({
      ...link,
      async call(how, by, keys, args) {
        const reply = await link.call(how, by, keys, args);
        return by === recordScripts.renew.sha ? Buffer.from("1") : reply;
      },
    });
    const { failure } = await play(redis(1, sloppy), sequences);
    expect(failure?.what).toMatch(/the stores differ|renew/);
  });
});
