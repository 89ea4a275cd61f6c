/** The Redis and Valkey store: one script per step, no transactions with business writes. */
import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type Ports, systemPorts } from "../ports.ts";
import type { RedisWarning } from "./redis/check-server.ts";
import { linkOf, type RedisClient } from "./redis/client.ts";
import { openRedis } from "./redis/open.ts";
import type { Store } from "./store.ts";

export type {
  IoredisClient,
  NodeRedisClient,
  NodeRedisCluster,
  NodeRedisSentinel,
  RedisClient,
} from "./redis/client.ts";
export type { RedisWarning };

export interface RedisStoreOptions {
  /**
   * A connected client of yours: ioredis 5 or 6, iovalkey, or node-redis 4 to 6 (client, pool, cluster or
   * sentinel). The store opens and closes nothing.
   */
  readonly client: RedisClient;
  /** The prefix of the names of all keys. Default `latchkey`. */
  readonly prefix?: string;
  /**
   * Into how many parts the records are divided; each part is in one slot of a cluster. It must be the same in every process,
   * and must not change as long as there are records. Default: 1, and 32 on a cluster.
   */
  readonly partitions?: number;
  /** The longest wait for a reply; after it, the outcome of the command is unknown. Default 5,000. */
  readonly commandTimeoutMs?: number;
  /** Called once for each setting that reduces safety. Default: a process warning of type `LatchkeyWarning`. */
  readonly onWarning?: (warning: RedisWarning) => void;
  /** The process's clock and randomness. Default: the system's. */
  readonly ports?: Ports;
}

const storeOptionNames = {
  client: true,
  prefix: true,
  partitions: true,
  commandTimeoutMs: true,
  onWarning: true,
  ports: true,
} as const satisfies OptionNames<RedisStoreOptions>;

/**
 * Makes a store on a Redis (6.2 or newer) or Valkey, single or cluster. It has `lease` and `deferred` execution; there are
 * no transactions with business writes and no outbox.
 *
 * Redis may lose acknowledged writes: see `docs/stores.md` for when. After such a loss a retried request runs again.
 * Before its first use the store checks the server's settings, and refuses a server that drops keys when memory runs out.
 * The record-cleaner removes records, so some process has to run a worker.
 *
 * @throws {TypeError} when an option is out of range
 */
export function redisStore(options: RedisStoreOptions): Store {
  checkOptions("redisStore", options, storeOptionNames);
  checkPorts("redisStore", options.ports);
  return openRedis({
    link: linkOf(options.client),
    prefix: options.prefix ?? "latchkey",
    partitions: options.partitions ?? null,
    commandTimeoutMs: options.commandTimeoutMs ?? 5_000,
    onWarning: options.onWarning ?? emitWarning,
    ports: options.ports ?? systemPorts,
    now: null,
  });
}

function emitWarning({ code, message }: RedisWarning): void {
  process.emitWarning(message, { type: "LatchkeyWarning", code });
}
