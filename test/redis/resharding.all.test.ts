/** A slot moves to another node while requests come in: some are refused, none runs twice, nothing is lost. */
import { describe, expect, test } from "vitest";
import { StoreError } from "../../packages/latchkey/src/errors.ts";
import { linkOf } from "../../packages/latchkey/src/stores/redis/client.ts";
import { partitionTags, slotOf } from "../../packages/latchkey/src/stores/redis/slots.ts";
import { type PrivateRedis, redisProgram } from "../support/private-redis.ts";
import { startRedisCluster } from "../support/redis-cluster.ts";
import { until } from "../support/until.ts";
import { countingService, load, storeOver } from "./arrange.ts";
import { clusterClients, newestClusterClients } from "./clients.ts";

/** One partition, so that every key is in the slot that moves. */
const slot = String(slotOf(partitionTags(1)[0] ?? ""));

async function move(from: PrivateRedis, to: PrivateRedis, all: readonly PrivateRedis[]): Promise<void> {
  const [source, target] = [
    String(await from.admin("CLUSTER", "MYID")),
    String(await to.admin("CLUSTER", "MYID")),
  ];
  await to.admin("CLUSTER", "SETSLOT", slot, "IMPORTING", source);
  await from.admin("CLUSTER", "SETSLOT", slot, "MIGRATING", target);
  for (;;) {
    const keys = (await from.admin("CLUSTER", "GETKEYSINSLOT", slot, "5")) as string[];
    if (keys.length === 0) break;
    await from.admin("MIGRATE", "127.0.0.1", String(to.port), "", "0", "5000", "KEYS", ...keys);
  }
  for (const node of [to, from, ...all]) await node.admin("CLUSTER", "SETSLOT", slot, "NODE", target);
}

describe.skipIf(redisProgram() === undefined)("resharding", () => {
  test.each(newestClusterClients)("with %s", async (name) => {
    const cluster = await startRedisCluster();
    const open = clusterClients[name];
    const owner = cluster?.nodes[Math.floor((Number(slot) * 3) / 16_384)];
    const other = cluster?.nodes.find((node) => node !== owner);
    if (cluster === undefined || open === undefined || !owner || !other) throw new Error("no cluster");
    const { client, close } = await open(owner.url);
    const store = storeOver(linkOf(client), { partitions: 1, commandTimeoutMs: 5_000 });
    const { send, starts } = countingService(store);
    const { acknowledged, refusals, stop } = load(send, 3);
    await until(() => acknowledged.length > 150);
    await move(owner, other, cluster.nodes);
    expect(await owner.admin("CLUSTER", "COUNTKEYSINSLOT", slot)).toBe(0);
    expect(await other.admin("CLUSTER", "COUNTKEYSINSLOT", slot)).toBeGreaterThan(300);
    const before = acknowledged.length;
    await until(() => acknowledged.length > before + 150, { timeoutMs: 30_000 });
    await stop();

    for (const key of acknowledged) {
      expect((await until(() => send(key).catch(() => null)))?.kind).toBe("replay");
    }
    expect(new Set(starts).size).toBe(starts.length);
    expect(refusals.every((error) => error instanceof StoreError)).toBe(true);
    const all = { state: "completed", tenant: null, operation: null, limit: 10_000, after: null } as const;
    expect(await store.settlement.list(all)).toHaveLength(acknowledged.length);
    await close();
  });
});
