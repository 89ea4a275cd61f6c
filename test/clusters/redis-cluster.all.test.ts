/** A Redis Cluster of three primaries: one is killed while the cluster is the store, and while it is the cache in front of Postgres. */
import { describe, test } from "vitest";
import { clusterClients, newestClusterClients } from "../redis/clients.ts";
import { type PrivateRedis, redisProgram } from "../support/private-redis.ts";
import { type RedisCluster, startRedisCluster } from "../support/redis-cluster.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import { cacheSurvives, patience, type RedisGroup, storeSurvives } from "./redis-outage.ts";

/** The first primary with its replica, if it has one. */
function groupOf({ primaries, replicas }: RedisCluster): RedisGroup {
  const [primary] = primaries;
  const [replica] = replicas;
  if (primary === undefined) throw new TypeError("a cluster has primaries");
  return {
    primary,
    current: async () => (replica !== undefined && (await isPrimary(replica)) ? replica : primary),
    async untilReplicated() {
      for (const one of primaries) {
        const written = await offsetOf(one);
        const own = replicas[primaries.indexOf(one)];
        if (own === undefined) throw new TypeError("each primary has a replica");
        await until(async () => (await offsetOf(own)) >= written, {
          what: "the replica has it",
          ...patience,
        });
      }
    },
  };
}

async function isPrimary(server: PrivateRedis): Promise<boolean> {
  const [role] = (await server.admin("ROLE")) as readonly unknown[];
  return role === "master";
}

/** How much of the primary's writes the server has. */
async function offsetOf(server: PrivateRedis): Promise<number> {
  const text = String(await server.admin("INFO", "replication"));
  const name = text.includes("role:slave") ? "slave_repl_offset" : "master_repl_offset";
  return Number(new RegExp(`${name}:(\\d+)`, "u").exec(text)?.[1] ?? Number.NaN);
}

async function started(name: string, replicas: boolean) {
  const cluster = await startRedisCluster({ replicas });
  const open = clusterClients[name];
  // The client learns of the others from a node that stays.
  const known = cluster?.primaries[1];
  if (cluster === undefined || open === undefined || known === undefined) throw new Error("no cluster");
  const { client, close } = await open(known.url);
  onRelease(close);
  return { client, group: groupOf(cluster) };
}

describe.skipIf(redisProgram() === undefined).each(newestClusterClients)(
  "a primary is killed, %s",
  (name) => {
    test("as the store it loses at most what its replica had not, and such keys alone run again", async () => {
      const { client, group } = await started(name, true);
      await storeSurvives(`Redis Cluster with ${name}`, client, group);
    });

    test("as a cache it loses copies, and no answer is lost or another one", async () => {
      const { client, group } = await started(name, true);
      await cacheSurvives(`Redis Cluster with ${name}`, client, group);
    });

    test("as a cache without replicas it serves again when the primary is started again", async () => {
      const { client, group } = await started(name, false);
      await cacheSurvives(`Redis Cluster without replicas with ${name}`, client, group, "restart");
    });
  },
);
