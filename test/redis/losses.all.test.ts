/** What a Redis loses and what it does not: each cell of the table in docs/stores.md. */

import { describe, expect, test } from "vitest";
import type { InProgressRecord } from "../../packages/latchkey/src/engine/record.ts";
import { StoreError } from "../../packages/latchkey/src/errors.ts";
import { linkOf } from "../../packages/latchkey/src/stores/redis/client.ts";
import { completion, minute } from "../../packages/latchkey-conformance/src/store-conformance/arrange.ts";
import { measured } from "../clusters/measured.ts";
import { patient } from "../support/patience.ts";
import { redisProgram } from "../support/private-redis.ts";
import { startRedisCluster } from "../support/redis-cluster.ts";
import { deferred, until } from "../support/until.ts";
import { complete, countingService, load, privateRedis, reserve, storeOn, storeOver } from "./arrange.ts";
import { clusterClients, newestClusterClients, newPrefix } from "./clients.ts";

const persistent = { appendonly: "yes" };
const synced = { ...persistent, appendfsync: "always" };

describe.skipIf(redisProgram() === undefined)("losses", () => {
  test("FLUSHALL: what was done runs again, and an owner whose reservation is gone cannot complete", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url);
    const { send, starts } = countingService(store);
    expect((await send("done")).kind).toBe("executed");
    const running = await reserve(store);
    await server.admin("FLUSHALL");
    expect((await send("done")).kind).toBe("executed");
    expect(starts).toEqual(["done", "done"]);
    expect(await store.renew(running, running.id, running.fence, minute)).toBe(false);
    expect(await store.end(running, running.id, running.fence, completion())).toBeNull();
    expect((await store.read(running)).record).toBeNull();
  });

  test("FLUSHALL while work runs: two may run, and only the one that owns the record completes", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url);
    const first = await reserve(store);
    await server.admin("FLUSHALL");
    const second = await reserve(store, { tenant: first.tenant, scope: first.scope, key: first.key });
    expect(await store.end(first, first.id, first.fence, completion("first"))).toBeNull();
    await complete(store, second, "second");
    const { record } = await store.read(first);
    expect(record).toMatchObject({ state: "completed", id: second.id });
  });

  test("a restart without persistence forgets all, and the store serves on", async () => {
    const server = await privateRedis({ appendonly: "no" });
    const store = storeOn(server.url);
    const { send, starts } = countingService(store);
    await send("a");
    await server.kill9();
    await expect(send("a")).rejects.toBeInstanceOf(StoreError);
    await server.start();
    await until(async () => (await send("a").catch(() => null))?.kind === "executed");
    expect(starts).toEqual(["a", "a"]);
  });

  test.each([
    ["appendfsync always", synced],
    ["appendfsync everysec", persistent],
  ])("with %s, a server that is killed keeps every acknowledged record", async (_, conf) => {
    const server = await privateRedis(conf);
    const store = storeOn(server.url);
    const running = [];
    const done = [];
    for (let count = 0; count < 100; count += 1) {
      running.push(await reserve(store));
      const record = await reserve(store);
      await complete(store, record, `answer ${count}`);
      done.push(record);
    }
    await server.kill9();
    await server.start();
    await until(() => store.verify().then(() => true), { what: "Redis is back" });
    for (const { id, fence, ...key } of running) {
      expect((await store.read(key)).record).toMatchObject({ id, fence, state: "in_progress" });
    }
    for (const [count, record] of done.entries()) {
      const { record: kept } = await store.read(record);
      expect(kept?.state === "completed" && Buffer.from(kept.answer ?? []).toString()).toBe(
        `answer ${count}`,
      );
    }
    const all = { state: "completed", tenant: null, operation: null, limit: 1_000, after: null } as const;
    expect(await store.settlement.list(all)).toHaveLength(done.length);
    for (const record of running) await complete(store, record);
  });

  test("a frozen server: nothing starts, a running owner is in doubt, and afterwards nothing has run twice", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url, { commandTimeoutMs: patient(400) });
    const { send, starts } = countingService(store);
    await send("before");
    const thaw = await server.freeze();
    await expect(send("before")).rejects.toBeInstanceOf(StoreError);
    await expect(send("during")).rejects.toBeInstanceOf(StoreError);
    expect(starts).toEqual(["before"]);
    thaw();
    expect((await send("before")).kind).toBe("replay");
    const result = await until(() => send("during").catch(() => null));
    expect(starts.filter((key) => key === "during").length).toBeLessThanOrEqual(1);
    expect(["executed", "in_progress"]).toContain(result?.kind);
  });

  test("a server that freezes while work runs: its end is in doubt, and its answer is replayed or nothing is", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url, { commandTimeoutMs: patient(400) });
    const entered = deferred();
    const leave = deferred();
    const { latchkey, operation } = countingService(store);
    const run = () =>
      latchkey.run(operation, { tenant: "t", key: "k", input: null }, async () => {
        entered.resolve();
        await leave.promise;
        return { sent: true };
      });
    const running = run();
    await entered.promise;
    const thaw = await server.freeze();
    leave.resolve();
    expect((await running).kind).toBe("commit_in_doubt");
    thaw();
    const again = await until(async () => {
      const result = await run().catch(() => null);
      return result?.kind === "replay" && result;
    });
    expect(again).toMatchObject({ value: { sent: true } });
  });

  test("a policy that drops any key, set while the store is in use: what was dropped runs again, and its owner cannot complete", async () => {
    const server = await privateRedis(persistent);
    const store = storeOn(server.url);
    const { send, starts } = countingService(store);
    expect((await send("done")).kind).toBe("executed");
    const running = await reserve(store);
    await server.admin("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    // Less than the server itself needs: with the next write it drops all that it has.
    await server.admin("CONFIG", "SET", "maxmemory", "1");
    await until(async () => {
      await server.admin("SET", "of somebody else", "x").catch(() => null);
      return (await server.admin("DBSIZE")) === 0;
    });
    expect(String(await server.admin("INFO", "stats"))).toMatch(/evicted_keys:[1-9]/u);
    await server.admin("CONFIG", "SET", "maxmemory", "0");
    expect((await send("done")).kind).toBe("executed");
    expect(starts).toEqual(["done", "done"]);
    expect(await store.end(running, running.id, running.fence, completion())).toBeNull();
  });

  test("two primaries: the same key may run on both, and when one gives way, its owner cannot complete", async () => {
    const first = await privateRedis(persistent);
    const second = await privateRedis({ ...persistent, replicaof: `127.0.0.1 ${first.port}` });
    await until(async () =>
      String(await second.admin("INFO", "replication")).includes("master_link_status:up"),
    );
    await second.admin("REPLICAOF", "NO", "ONE");
    const [left, right] = [storeOn(first.url), storeOn(second.url)];
    const here = await reserve(left);
    const there = await reserve(right, { tenant: here.tenant, scope: here.scope, key: here.key });
    await complete(right, there, "there");
    await first.admin("REPLICAOF", "127.0.0.1", String(second.port));
    const late = left.end(here, here.id, here.fence, completion("here"));
    await expect(late).rejects.toMatchObject({ certainty: "rolled_back" });
    expect(await right.end(here, here.id, here.fence, completion("here"))).toBeNull();
    expect((await right.read(here)).record).toMatchObject({ state: "completed", id: there.id });
  });

  test("a replica that takes over loses what it had not been sent, and says nothing else", async () => {
    const cluster = await startRedisCluster({ replicas: true });
    if (cluster === undefined) throw new Error("no cluster");
    const [primary] = cluster.primaries;
    const [replica] = cluster.replicas;
    if (primary === undefined || replica === undefined) throw new Error("no replica");
    const open = clusterClients["ioredis 6 cluster"];
    if (open === undefined) throw new Error("no client");
    const { client, close } = await open(primary.url);
    const store = storeOver(linkOf(client), { commandTimeoutMs: 5_000 });

    // All of a hundred keys, before; those of the first primary, after its replica stopped listening.
    const kept: InProgressRecord[] = [];
    for (let count = 0; count < 100; count += 1) kept.push(await reserve(store));
    await until(async () => (await primary.admin("WAIT", "1", "1000")) === 1, {
      what: "the replica has them",
    });
    const thaw = await replica.freeze();
    // What is on its way would reach it after the thaw.
    await primary.admin("CLIENT", "KILL", "TYPE", "replica");
    const late = [];
    for (let count = 0; count < 100; count += 1) late.push(await reserve(store));
    await primary.kill9();
    thaw();
    await until(async () => (await replica.admin("CLUSTER", "FAILOVER", "TAKEOVER")) === "OK");
    await until(async () => (await store.read(kept[0] ?? neverHere()).catch(() => null)) !== null, {
      timeoutMs: 20_000,
    });
    const found = async (records: readonly InProgressRecord[]) => {
      let count = 0;
      for (const record of records) {
        const reading = await until(() => store.read(record).catch(() => null));
        const id = reading?.record?.id ?? null;
        expect([null, record.id]).toContain(id);
        if (id !== null) count += 1;
      }
      return count;
    };
    expect(await found(kept)).toBe(kept.length);
    const left = await found(late);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThan(late.length);

    // The index of what was lost is lost with it: nobody is handed a record that is not there, and none is hidden.
    const all = { state: "in_progress", tenant: null, operation: null, limit: 1_000, after: null } as const;
    expect(await store.settlement.list(all)).toHaveLength(kept.length + left);
    await close();
  });

  test("a failover that is asked for, under load, loses nothing: one start for each key", async () => {
    const cluster = await startRedisCluster({ replicas: true });
    if (cluster === undefined) throw new Error("no cluster");
    for (const name of newestClusterClients) {
      const open = clusterClients[name];
      if (open === undefined) throw new Error("no client");
      const { client, close } = await open(cluster.nodes[0]?.url ?? "");
      const { send, starts } = countingService(
        storeOver(linkOf(client), { prefix: newPrefix(), commandTimeoutMs: 5_000 }),
      );
      const { acknowledged, stop } = load(send, 4);
      await until(() => acknowledged.length > 100);
      const askedMs = performance.now();
      for (const replica of await replicasOf(cluster.nodes)) await replica.admin("CLUSTER", "FAILOVER");
      await until(async () => (await replicasOf(cluster.nodes)).length === 3);
      const taken = acknowledged.length;
      await until(() => acknowledged.length > taken + 4, { timeoutMs: 20_000 });
      measured(`Redis Cluster with ${name}, as the store`, {
        "failover asked for, s": (performance.now() - askedMs) / 1_000,
      });
      const before = acknowledged.length;
      await until(() => acknowledged.length > before + 100, { timeoutMs: 20_000 });
      await stop();
      for (const key of acknowledged) {
        expect((await until(() => send(key).catch(() => null)))?.kind).toBe("replay");
      }
      expect(new Set(starts).size).toBe(starts.length);
      await close();
    }
  });
});

async function replicasOf<N extends { admin(...command: string[]): Promise<unknown> }>(nodes: readonly N[]) {
  const found = [];
  for (const node of nodes) {
    const [role] = (await node.admin("ROLE")) as readonly unknown[];
    if (role === "slave") found.push(node);
  }
  return found;
}

function neverHere(): never {
  throw new Error("there is one");
}
