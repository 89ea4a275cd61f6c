import { type PrivateRedis, startRedis } from "./private-redis.ts";
import { until } from "./until.ts";

const slots = 16_384;
const formingTimeoutMs = 30_000;

/** A private Redis Cluster. */
export interface RedisCluster {
  /** First the primaries, then one replica of each, if there are any. */
  readonly nodes: readonly PrivateRedis[];
  readonly primaries: readonly PrivateRedis[];
  readonly replicas: readonly PrivateRedis[];
}

/** Starts three primaries, each with a replica if asked for; undefined after a "not run" report. */
export async function startRedisCluster({ replicas = false } = {}): Promise<RedisCluster | undefined> {
  const nodes: PrivateRedis[] = [];
  for (let count = 0; count < (replicas ? 6 : 3); count += 1) {
    const conf = {
      "cluster-enabled": "yes",
      "cluster-node-timeout": 2_000,
      "cluster-config-file": "nodes.conf",
    };
    const node = await startRedis({ conf });
    if (node === undefined) return undefined;
    nodes.push(node);
  }
  const [first] = nodes;
  const primaries = nodes.slice(0, 3);
  for (const [index, node] of nodes.entries()) {
    await node.admin("CLUSTER", "SET-CONFIG-EPOCH", String(index + 1));
    if (first && node !== first) await node.admin("CLUSTER", "MEET", "127.0.0.1", String(first.port));
  }
  for (const [index, node] of primaries.entries()) {
    const from = Math.floor((index * slots) / 3);
    const to = Math.floor(((index + 1) * slots) / 3) - 1;
    await node.admin("CLUSTER", "ADDSLOTSRANGE", String(from), String(to));
  }
  await everyNode(
    nodes,
    async (node) => (await clusterInfo(node)).get("cluster_known_nodes") === `${nodes.length}`,
  );
  for (const [index, node] of nodes.slice(3).entries()) {
    const id = String(await primaries[index]?.admin("CLUSTER", "MYID"));
    await until(() => node.admin("CLUSTER", "REPLICATE", id), { what: "a replica is attached" });
  }
  await everyNode(nodes, async (node) => (await clusterInfo(node)).get("cluster_state") === "ok");
  if (replicas) {
    await everyNode(nodes.slice(3), async (node) =>
      String(await node.admin("INFO", "replication")).includes("master_link_status:up"),
    );
  }
  return { nodes, primaries, replicas: nodes.slice(3) };
}

async function everyNode(
  nodes: readonly PrivateRedis[],
  isSo: (node: PrivateRedis) => Promise<boolean>,
): Promise<void> {
  for (const node of nodes) {
    await until(() => isSo(node), { what: "the cluster has formed", timeoutMs: formingTimeoutMs });
  }
}

async function clusterInfo(node: PrivateRedis): Promise<ReadonlyMap<string, string>> {
  const text = String(await node.admin("CLUSTER", "INFO"));
  return new Map(text.split("\r\n").map((line) => [line.split(":")[0] ?? "", line.split(":")[1] ?? ""]));
}
