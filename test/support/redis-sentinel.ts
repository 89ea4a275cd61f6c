import { chownSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type PrivateRedis, startRedis } from "./private-redis.ts";
import { onRelease } from "./resources.ts";
import { scratchDirectory, serverUser } from "./scratch.ts";
import { until } from "./until.ts";
import { watchDirectory } from "./watchdog.ts";

/** The name under which the sentinels know the primary. */
export const sentinelName = "main";

/** How long a primary is silent until a sentinel takes it for lost. Sentinel's default is 30 seconds. */
const downAfterMs = 1_000;
const persistent = { appendonly: "yes" };

/** A primary, two replicas, and three sentinels, two of which must agree. */
export interface SentinelGroup {
  readonly primary: PrivateRedis;
  readonly servers: readonly PrivateRedis[];
  /** Where clients ask which server is the primary. */
  readonly sentinels: readonly { readonly host: string; readonly port: number }[];
  /** The server that the sentinels hold for the primary now. */
  current(): Promise<PrivateRedis>;
  /** Resolves when both replicas have what the primary has written by now. */
  untilReplicated(): Promise<void>;
}

/** Undefined after a "not run" report. */
export async function startSentinelGroup(): Promise<SentinelGroup | undefined> {
  const primary = await startRedis({ conf: persistent });
  if (primary === undefined) return undefined;
  const replicas = [await startReplica(primary), await startReplica(primary)];
  const sentinels = [
    await startSentinel(primary.port),
    await startSentinel(primary.port),
    await startSentinel(primary.port),
  ];
  for (const sentinel of sentinels) {
    const knowsAll = async () => (await masterLine(sentinel)).endsWith("slaves=2,sentinels=3");
    await until(knowsAll, { what: "the sentinels know each other and the replicas" });
  }
  const servers = [primary, ...replicas];
  return {
    primary,
    servers,
    sentinels: sentinels.map(({ port }) => ({ host: "127.0.0.1", port })),
    async current() {
      const [sentinel] = sentinels;
      const port = sentinel && /address=[^:]*:(\d+)/.exec(await masterLine(sentinel))?.[1];
      const found = servers.find((server) => String(server.port) === port);
      if (found === undefined) throw new Error(`the primary is on port ${port}`);
      return found;
    },
    async untilReplicated() {
      const written = await offset(primary, "master_repl_offset");
      for (const replica of replicas) {
        await until(async () => (await offset(replica, "slave_repl_offset")) >= written, {
          what: "a replica has caught up",
        });
      }
    },
  };
}

async function startReplica(primary: PrivateRedis): Promise<PrivateRedis> {
  const replica = await startRedis({ conf: { ...persistent, replicaof: `127.0.0.1 ${primary.port}` } });
  if (replica === undefined) throw new Error("no redis-server");
  await until(async () => (await replication(replica)).includes("master_link_status:up"), {
    what: "the replica follows",
  });
  return replica;
}

/** A sentinel rewrites its file. */
async function startSentinel(port: number): Promise<PrivateRedis> {
  const folder = scratchDirectory();
  const forget = watchDirectory(folder);
  onRelease(() => {
    rmSync(folder, { recursive: true, force: true });
    forget();
  });
  const file = join(folder, "sentinel.conf");
  const lines = [
    `sentinel monitor ${sentinelName} 127.0.0.1 ${port} 2`,
    `sentinel down-after-milliseconds ${sentinelName} ${downAfterMs}`,
    `sentinel failover-timeout ${sentinelName} 10000`,
  ];
  writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
  const user = serverUser();
  if (user) chownSync(file, user.uid, user.gid);
  const sentinel = await startRedis({ arguments: [file, "--sentinel"] });
  if (sentinel === undefined) throw new Error("no redis-server");
  return sentinel;
}

/** Such as `master0:name=main,status=ok,address=127.0.0.1:20001,slaves=2,sentinels=3`. */
async function masterLine(sentinel: PrivateRedis): Promise<string> {
  const lines = String(await sentinel.admin("INFO", "sentinel"))
    .trim()
    .split("\r\n");
  return lines.at(-1) ?? "";
}

async function replication(server: PrivateRedis): Promise<string> {
  return String(await server.admin("INFO", "replication"));
}

async function offset(server: PrivateRedis, name: string): Promise<number> {
  return Number(new RegExp(`${name}:(\\d+)`).exec(await replication(server))?.[1]);
}
