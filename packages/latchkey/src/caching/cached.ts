/** Replays from Redis or from this process's memory, in front of a store that stays the source of truth. */
import type { Effect, EffectOptions } from "../effects/effect.ts";
import type { RecordKey } from "../engine/record.ts";
import { checkOptions, checkPorts, type OptionNames } from "../known-options.ts";
import { type Ports, systemPorts } from "../ports.ts";
import { linkOf, type RedisClient } from "../stores/redis/client.ts";
import type { Store } from "../stores/store.ts";
import { type Cached, cachingStore } from "./caching-store.ts";
import { FarCache } from "./far-cache.ts";
import { FinishedCache } from "./finished-cache.ts";
import { NearCache } from "./near-cache.ts";

export type { Cached, RedisClient };

export interface NearOptions {
  /** Maximum number of records. Default 10,000. */
  readonly entries?: number;
  /** Maximum size of all answers together. Default 64 MiB. */
  readonly bytes?: number;
  /** Maximum age of a copy, so also how long it may outlive a `forget` in another process. Default 10 seconds. */
  readonly maxAgeMs?: number;
}

export interface CachedOptions {
  /** Also keeps copies in this process; without `redis`, only here. Default: none. */
  readonly near?: NearOptions | true;
  /**
   * Prefix of the Redis keys: 1 to 64 characters without spaces and braces. Stores that share a Redis need different prefixes:
   * otherwise each would serve the other's answers. Default `latchkey-cache`.
   */
  readonly prefix?: string;
  /**
   * Seals copies with HMAC-SHA-256, so that write access to this Redis is not enough to forge answers. At least 32 characters,
   * the same in every process. Default: a plain checksum.
   */
  readonly secret?: string;
  /** How long to wait for Redis before the store is read. Default 50. */
  readonly timeoutMs?: number;
  /** Maximum age of a copy. Default 24 hours. */
  readonly maxAgeMs?: number;
  /** Called with errors of Redis. They only cost time. Must not throw. */
  readonly onError?: (error: unknown) => void;
  /** Default: the system's. */
  readonly ports?: Pick<Ports, "clock">;
}

const cachedOptionNames = {
  near: true,
  prefix: true,
  secret: true,
  timeoutMs: true,
  maxAgeMs: true,
  onError: true,
  ports: true,
} as const satisfies OptionNames<CachedOptions>;
const nearOptionNames = {
  entries: true,
  bytes: true,
  maxAgeMs: true,
} as const satisfies OptionNames<NearOptions>;

const day = 24 * 60 * 60 * 1_000;
const secretLengthMin = 32;

/**
 * Puts a cache in front of a store: a request whose key is finished is answered from the cache, byte for byte, without a call
 * of the store. Copies are made when finished records are read, and expire with the answer. All decisions and writes go to the
 * store; a Redis that is empty, slow, frozen or down only costs time.
 *
 * Hazard: the cache may still serve an answer that the store itself has lost, as in an asynchronous failover of the database.
 * Empty the cache after one.
 *
 * @param redis a connected client of ioredis, iovalkey or node-redis, also for a cluster; null: none
 * @throws {TypeError} when an option is out of range, or both `redis` and `near` are missing
 */
export function cached<S extends Store<unknown>>(
  store: S,
  redis: RedisClient | null,
  options: CachedOptions = {},
): S & Cached {
  checkOptions("cached", options, cachedOptionNames);
  checkPorts("cached", options.ports);
  const { prefix = "latchkey-cache", secret = null, onError = () => {} } = options;
  const { clock } = options.ports ?? systemPorts;
  const maxAgeMs = positive("maxAgeMs", options.maxAgeMs ?? day);
  const timeoutMs = positive("timeoutMs", options.timeoutMs ?? 50);
  if (!/^[^\s{}]{1,64}$/u.test(prefix))
    throw new TypeError("prefix must have 1 to 64 characters, no spaces or braces");
  if (secret !== null && secret.length < secretLengthMin)
    throw new TypeError(`secret must have at least ${secretLengthMin} characters`);
  const near = nearOf(options.near);
  if (redis === null && near === null) throw new TypeError("Without `redis` a cached store needs `near`");
  const far =
    redis === null
      ? null
      : new FarCache({ link: linkOf(redis), clock, prefix, secret, timeoutMs, maxAgeMs, onError });
  return cachingStore(store, new FinishedCache({ clock, near, far, maxAgeMs }), onError);
}

function nearOf(given: CachedOptions["near"]): NearCache | null {
  if (given === undefined) return null;
  const options = given === true ? {} : given;
  checkOptions("cached: near", options, nearOptionNames);
  return new NearCache({
    entries: positive("near.entries", options.entries ?? 10_000),
    bytes: positive("near.bytes", options.bytes ?? 64 * 1024 * 1024),
    maxAgeMs: positive("near.maxAgeMs", options.maxAgeMs ?? 10_000),
  });
}

function positive(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new TypeError(`${name} must be a positive whole number (got ${value})`);
}

/** The part of a latchkey that the warmer needs. */
export interface EffectRegistry {
  effect<I, R>(name: string, options: EffectOptions<I, R>): Effect<I, R>;
}

/**
 * An effect that copies a record right after its COMMIT, for keys that clients repeat at once and often:
 * `attempt.enqueue(warm, attempt.record)`. If it is not delivered, the next read makes the copy.
 *
 * @throws {TypeError} when the latchkey already has an effect of this name
 */
export function cacheWarmer(
  latchkey: EffectRegistry,
  store: Cached,
  name = "latchkey.cache.warm",
): Effect<RecordKey, null> {
  return latchkey.effect<RecordKey, null>(name, {
    // Making the copy twice is harmless.
    deduplication: "provider",
    dedupeWindowMs: 365 * day,
    delivery: { attemptsMax: 3, keepMs: 60_000 },
    async execute(key) {
      await store.warm(key);
      return null;
    },
  });
}
