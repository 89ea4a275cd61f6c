/** Replays from Redis, or from this process's memory, in front of a store that stays the truth. */
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
  /** How many records. Default 10,000. */
  readonly entries?: number;
  /** Of all answers together. Default 64 MiB. */
  readonly bytes?: number;
  /** How long one is served at most, and so how long a `forget` of another process may go unnoticed. Default 10 seconds. */
  readonly maxAgeMs?: number;
}

export interface CachedOptions {
  /** Keeps copies in this process, too, or alone. Default: none. */
  readonly near?: NearOptions | true;
  /**
   * What the names of the Redis keys begin with: 1 to 64 characters without spaces and braces. Two stores behind one Redis need
   * two: under one, they would answer for each other. Default `latchkey-cache`.
   */
  readonly prefix?: string;
  /**
   * Seals copies with HMAC-SHA-256, so that write access to this Redis is not enough to forge answers; the same for every process,
   * at least 32 characters. Default: a plain checksum.
   */
  readonly secret?: string;
  /** The longest wait for Redis; then the store is asked. Default 50. */
  readonly timeoutMs?: number;
  /** How long a copy is kept at most. Default 24 hours. */
  readonly maxAgeMs?: number;
  /** Told of what went wrong with Redis, which costs time and nothing else. Must not throw. */
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
 * Puts a cache in front of a store: a request whose key is finished is answered from there, byte for byte, and the store is
 * not asked. Copies are made when finished records are read, and live until the answer's time is over. Everything that is
 * decided or written goes to the store; a Redis that is empty, slow, frozen or away costs time and nothing else.
 *
 * One thing can come back from it: what the store itself has lost, such as an answer that an asynchronous failover of the
 * database took with it, until its copy's time is over. Empty the cache after one.
 *
 * @param redis a client of ioredis, iovalkey or node-redis (a cluster's, too), that you have opened; null: none
 * @throws {TypeError} when an option is out of range, or there would be no cache at all
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
 * An effect that makes the copy of a record right after its COMMIT, for keys that are asked for again at once and often:
 * `attempt.enqueue(warm, attempt.record)`. One that is not delivered, for whatever reason, leaves the copy to the next
 * reading.
 *
 * @throws {TypeError} when the latchkey has an effect of this name already
 */
export function cacheWarmer(
  latchkey: EffectRegistry,
  store: Cached,
  name = "latchkey.cache.warm",
): Effect<RecordKey, null> {
  return latchkey.effect<RecordKey, null>(name, {
    // Making a copy twice is the same as once.
    deduplication: "provider",
    dedupeWindowMs: 365 * day,
    delivery: { attemptsMax: 3, keepMs: 60_000 },
    async execute(key) {
      await store.warm(key);
      return null;
    },
  });
}
