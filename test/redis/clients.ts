/** Every client that the store is made for, connected, on one server or on a cluster. */
import { randomUUID } from "node:crypto";
import { Cluster, Redis } from "ioredis";
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis5";
import { Redis as Valkey, Cluster as ValkeyCluster } from "iovalkey";
import { createClient, createClientPool, createCluster } from "redis";
import { createClient as createClient4, createCluster as createCluster4 } from "redis4";
import { createClient as createClient5, createCluster as createCluster5 } from "redis5";
import type { RedisClient } from "../../packages/latchkey/src/stores/redis.ts";

export interface OpenClient {
  readonly client: RedisClient;
  close(): Promise<void>;
}

export type ClientFactory = (url: string) => Promise<OpenClient>;

/** What node-redis reports beside the commands that failed. */
const ignored = () => {};

export const clients: Readonly<Record<string, ClientFactory>> = {
  "ioredis 6": async (url) => closing(new Redis(url)),
  "ioredis 6, with a key prefix and pipelines of its own": async (url) =>
    closing(new Redis(url, { keyPrefix: "app:", enableAutoPipelining: true })),
  "ioredis 5": async (url) => closing(new Redis5(url)),
  iovalkey: async (url) => closing(new Valkey(url)),
  "node-redis 6": async (url) => connected(createClient({ url })),
  "node-redis 6, pool": async (url) => connected(createClientPool({ url })),
  "node-redis 5": async (url) => connected(createClient5({ url })),
  "node-redis 5, RESP 3": async (url) => connected(createClient5({ url, RESP: 3 })),
  "node-redis 4": async (url) => {
    const client = createClient4({ url });
    client.on("error", ignored);
    await client.connect();
    return { client, close: async () => client.disconnect() };
  },
};

export const clusterClients: Readonly<Record<string, ClientFactory>> = {
  "ioredis 6 cluster": async (url) => closing(new Cluster([url])),
  "ioredis 6 cluster, reading from replicas, with pipelines of its own": async (url) =>
    closing(new Cluster([url], { scaleReads: "slave", enableAutoPipelining: true })),
  "ioredis 5 cluster": async (url) => closing(new Cluster5([url])),
  "iovalkey cluster": async (url) => closing(new ValkeyCluster([url])),
  "node-redis 6 cluster": async (url) => connected(createCluster({ rootNodes: [{ url }] })),
  "node-redis 5 cluster": async (url) => connected(createCluster5({ rootNodes: [{ url }] })),
  "node-redis 4 cluster": async (url) => {
    const client = createCluster4({ rootNodes: [{ url }] });
    client.on("error", ignored);
    await client.connect();
    return { client, close: async () => client.disconnect() };
  },
};

export const newestClusterClients: readonly string[] = ["ioredis 6 cluster", "node-redis 6 cluster"];

function closing(
  client: RedisClient & { disconnect(): void; on(event: "error", listener: () => void): unknown },
) {
  client.on("error", ignored);
  return { client, close: async () => client.disconnect() };
}

async function connected(
  client: RedisClient & {
    connect(): Promise<unknown>;
    destroy(): void;
    on(event: "error", listener: () => void): unknown;
  },
): Promise<OpenClient> {
  client.on("error", ignored);
  await client.connect();
  return { client, close: async () => client.destroy() };
}

/** What the names of a test's keys begin with. */
export function newPrefix(): string {
  return `lk-test-${randomUUID().slice(0, 13)}`;
}
