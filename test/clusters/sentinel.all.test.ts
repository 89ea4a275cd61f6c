/** Redis under Sentinel: the primary is killed while it is the store, and while it is the cache in front of Postgres. */
import { Redis } from "ioredis";
import { createSentinel } from "redis";
import { createSentinel as createSentinel5 } from "redis5";
import { describe, expect, test } from "vitest";
import { cached } from "../../packages/latchkey/src/caching/cached.ts";
import { StoreError } from "../../packages/latchkey/src/errors.ts";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { systemPorts } from "../../packages/latchkey/src/ports.ts";
import { postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { linkOf, type RedisClient } from "../../packages/latchkey/src/stores/redis/client.ts";
import { committedRows, migratedDatabase, openPool } from "../postgres/harness.ts";
import { countingService, storeOver } from "../redis/arrange.ts";
import { redisProgram } from "../support/private-redis.ts";
import { type SentinelGroup, sentinelName, startSentinelGroup } from "../support/redis-sentinel.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import { customers } from "./customers.ts";
import { measured } from "./measured.ts";

const patience = { timeoutMs: 60_000 } as const;

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

const secondsSince = (ms: number) => (performance.now() - ms) / 1_000;

describe.skipIf(redisProgram() === undefined)("the primary is killed", () => {
  test.each(clients)(
    "%s: as the store it loses at most what no replica had, and such keys alone run again",
    async (name, open) => {
      const group = await started();
      const store = storeOver(linkOf(await open(group.sentinels)), { commandTimeoutMs: 5_000 });
      const { send, starts } = countingService(store);
      const { acknowledged, refusals, stop } = customers(
        async (key) => (await send(key)).kind === "executed",
      );
      await until(() => acknowledged.length > 150, patience);
      const kept = acknowledged.length;
      await group.untilReplicated();
      await until(() => acknowledged.length > kept + 20, patience);

      await group.primary.kill9();
      const [killedMs, before] = [performance.now(), acknowledged.length];
      await until(() => acknowledged.length > before + 4, patience);
      const seconds = secondsSince(killedMs);
      const after = acknowledged.length;
      await group.primary.start();
      await until(() => acknowledged.length > after + 100, patience);
      await stop();
      expect(await group.current()).not.toBe(group.primary);

      const again: string[] = [];
      for (const key of acknowledged) {
        const result = await until(() => send(key).catch(() => null), patience);
        if (result?.kind !== "replay") again.push(key);
      }
      const mayBeLost = new Set(acknowledged.slice(kept, after));
      expect(
        again.filter((key) => !mayBeLost.has(key)),
        "what a replica had is kept",
      ).toEqual([]);
      const twice = starts.filter((key, index) => starts.indexOf(key) !== index);
      expect(
        twice.filter((key) => !again.includes(key)),
        "nothing else runs twice",
      ).toEqual([]);
      expect(refusals.every((error) => error instanceof StoreError)).toBe(true);
      measured(`Sentinel, store with ${name}`, {
        "primary killed, s": seconds,
        acknowledged: acknowledged.length,
        lost: again.length,
      });
    },
  );

  test.each(clients)(
    "%s: as a cache it loses copies, and no answer is lost or another one",
    async (name, open) => {
      const group = await started();
      const pool = openPool(await migratedDatabase());
      const store = cached(postgresStore({ pool }), await open(group.sentinels));
      const latchkey = createLatchkey({ store });
      const operation = latchkey.operation("pay");
      const answers = new Map<string, unknown>();
      const pay = async (key: string) => {
        const result = await latchkey.run(operation, { tenant: "t", key, input: null }, async ({ tx }) => {
          await tx.query("insert into business values ($1)", [key]);
          return { random: systemPorts.random.token() };
        });
        if (!("value" in result)) throw new Error(`it came to ${result.kind}`);
        const known = answers.get(key) ?? result.value;
        answers.set(key, known);
        expect(result.value).toEqual(known);
        return result.kind === "executed";
      };
      const { acknowledged, refusals, stop } = customers(async (key) => {
        const isFirst = await pay(key);
        expect(await pay(key)).toBe(false);
        return isFirst;
      });
      const copies = async () => Number(await (await group.current()).admin("DBSIZE"));
      await until(async () => acknowledged.length > 100 && (await copies()) > 0, patience);

      await group.primary.kill9();
      const killedMs = performance.now();
      const during = acknowledged.length;
      await until(() => acknowledged.length > during + 20, patience);
      const next = await until(async () => {
        const server = await group.current();
        return server !== group.primary && server;
      }, patience);
      const old = await copies();
      await until(async () => (await copies()) > old, { what: "copies are kept again", ...patience });
      const seconds = secondsSince(killedMs);
      await stop();
      expect(next).not.toBe(group.primary);
      for (const key of acknowledged) expect(await pay(key)).toBe(false);
      expect(refusals).toEqual([]);
      expect((await committedRows(pool)).sort()).toEqual([...acknowledged].sort());
      await latchkey.close();
      measured(`Sentinel, cache with ${name}`, {
        "copies again, s": seconds,
        requests: acknowledged.length * 2,
        refused: refusals.length,
      });
    },
  );
});
