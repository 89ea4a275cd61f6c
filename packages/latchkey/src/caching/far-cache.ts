/**
 * Copies in Redis. If Redis is slow, frozen, empty or down, there is no copy. A copy must not outlive its record's answer, even
 * if the command that stores it arrives late, so its expiry is a point of Redis's own time, counted from a moment before the
 * record was read.
 */

import type { RecordKey } from "../engine/record.ts";
import type { Clock } from "../ports.ts";
import type { Argument, RedisLink } from "../stores/redis/client.ts";
import {
  afterCall,
  type CircuitSettings,
  type CircuitState,
  closed,
  enter,
} from "../time/circuit-breaker.ts";
import { withLimit } from "../time/time-limit.ts";
import { type Copy, decodeCopy, digestOf, encodeCopy } from "./entry.ts";
import { lua } from "./scripts/texts.ts";

export interface FarOptions {
  readonly link: RedisLink;
  readonly clock: Clock;
  readonly prefix: string;
  readonly secret: string | null;
  /** How long to wait for a reply. */
  readonly timeoutMs: number;
  readonly maxAgeMs: number;
  readonly onError: (error: unknown) => void;
}

const circuit: CircuitSettings = { failureThreshold: 3, openMs: 1_000 };

/** A moment of Redis's clock, and the moment of the process's clock by which it had passed. */
interface RedisTime {
  readonly redisMs: number;
  readonly atMs: number;
}

export class FarCache {
  readonly #options: FarOptions;
  #circuit: CircuitState = closed;
  #redisTime: RedisTime | null = null;

  constructor(options: FarOptions) {
    this.#options = options;
  }

  /** The copy, and how long it may still be served. Never rejects. */
  async get(key: RecordKey): Promise<{ readonly copy: Copy; readonly leftMs: number } | null> {
    const found = await this.#tryTo("look", key, []);
    if (!Array.isArray(found)) return null;
    const [, bytes, leftMs] = found;
    if (!Buffer.isBuffer(bytes) || typeof leftMs !== "number" || leftMs <= 0) return null;
    const copy = decodeCopy(bytes, key, this.#options.secret);
    // No copy is stored for longer than this, so Redis's clock has been set back.
    return copy === null || leftMs > this.#options.maxAgeMs ? null : { copy, leftMs };
  }

  /** Call this before the record is read; `set` needs the result. */
  async before(key: RecordKey): Promise<RedisTime | null> {
    if (this.#redisTime === null) await this.#tryTo("look", key, []);
    return this.#now();
  }

  /**
   * @param leftMs how long the copy may be served
   * @param from when the read began
   */
  async set(copy: Copy, leftMs: number, from: RedisTime): Promise<void> {
    const bytes = encodeCopy(copy, this.#options.secret);
    await this.#tryTo("keep", copy.record, [
      bytes,
      String(Math.floor(from.redisMs + leftMs)),
      String(Math.floor(leftMs)),
    ]);
  }

  /** @throws {Error} when the copy may still be in Redis */
  async forget(key: RecordKey): Promise<void> {
    const { clock, timeoutMs, maxAgeMs } = this.#options;
    const done = await withLimit(clock, timeoutMs * 20, () => this.#call("forget", key, [String(maxAgeMs)]));
    if (done.kind === "threw") throw done.error;
    if (done.kind === "timed_out") throw new Error("Redis did not answer, so the copy may still be there");
  }

  /** The current time of Redis's clock, or slightly less. */
  #now(): RedisTime | null {
    if (this.#redisTime === null) return null;
    const atMs = this.#options.clock.monotonicMs();
    return { redisMs: this.#redisTime.redisMs + (atMs - this.#redisTime.atMs), atMs };
  }

  async #tryTo(script: keyof typeof lua, key: RecordKey, args: readonly Argument[]): Promise<unknown> {
    const { clock, timeoutMs, onError } = this.#options;
    const begunMs = clock.monotonicMs();
    const entered = enter(this.#circuit, circuit, begunMs);
    this.#circuit = entered.state;
    if (!entered.admitted) return null;
    const done = await withLimit(clock, timeoutMs, () => this.#call(script, key, args));
    const atMs = clock.monotonicMs();
    this.#circuit = afterCall(this.#circuit, circuit, { ok: done.kind === "returned", begunMs }, atMs);
    if (done.kind === "returned") {
      if (Array.isArray(done.value) && typeof done.value[0] === "number") {
        this.#redisTime = { redisMs: done.value[0], atMs };
      }
      return done.value;
    }
    onError(done.kind === "threw" ? done.error : new Error(`Redis did not answer within ${timeoutMs} ms`));
    return null;
  }

  #call(script: keyof typeof lua, key: RecordKey, args: readonly Argument[]): Promise<unknown> {
    const { link, prefix } = this.#options;
    return link.call("EVAL", lua[script], [`${prefix}:${digestOf(key)}`], args);
  }
}
