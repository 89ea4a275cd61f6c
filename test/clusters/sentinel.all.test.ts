/** Redis under Sentinel: the primary is killed while it is the store, and while it is the cache in front of Postgres. */
import { Redis } from "ioredis";
import { createSentinel } from "redis";
import { createSentinel as createSentinel5 } from "redis5";
import { describe, test } from "vitest";
import type { RedisClient } from "../../packages/latchkey/src/stores/redis/client.ts";
import { redisProgram } from "../support/private-redis.ts";
import { type SentinelGroup, sentinelName, startSentinelGroup } from "../support/redis-sentinel.ts";
import { onRelease } from "../support/resources.ts";
import { cacheSurvives, storeSurvives } from "./redis-outage.ts";

type Open = (sentinels: SentinelGroup["sentinels"]) => Promise<RedisClient>;

const clients: readonly (readonly [name: string, open: Open])[] = [
  [
    "ioredis 6",
    async (sentinels) => {
      const client = new Redis({ sentinels: [...sentinels], name: sentinelName });
      client.on("error", () => {});
      onRelease(() => client.disconnect());
      return client;
    },
  ],
  ["node-redis 6", async (sentinels) => connected(createSentinel(settings(sentinels)))],
  ["node-redis 5", async (sentinels) => connected(createSentinel5(settings(sentinels)))],
];

const settings = (sentinels: SentinelGroup["sentinels"]) => ({
  name: sentinelName,
  sentinelRootNodes: [...sentinels],
});

async function connected<
  C extends RedisClient & {
    connect(): Promise<unknown>;
    destroy(): unknown;
    on(event: "error", listener: () => void): unknown;
  },
>(client: C): Promise<RedisClient> {
  client.on("error", () => {});
  await client.connect();
  onRelease(async () => void (await client.destroy()));
  return client;
}

async function started(): Promise<SentinelGroup> {
  const group = await startSentinelGroup();
  if (group === undefined) throw new Error("no redis-server");
  return group;
}

describe.skipIf(redisProgram() === undefined)("the primary is killed", () => {
  test.each(clients)(
    "%s: as the store it loses at most what no replica had, and such keys alone run again",
    async (name, open) => {
      const group = await started();
      await storeSurvives(`Sentinel with ${name}`, await open(group.sentinels), group);
    },
  );

  test.each(clients)(
    "%s: as a cache it loses copies, and no answer is lost or another one",
    async (name, open) => {
      const group = await started();
      await cacheSurvives(`Sentinel with ${name}`, await open(group.sentinels), group);
    },
  );
});
