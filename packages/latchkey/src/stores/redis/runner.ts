/** Runs scripts within a time limit, and turns their errors into a `StoreError`. */
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import { isReply, storeErrorOf } from "./certainty.ts";
import type { Argument, RedisLink } from "./client.ts";
import type { Layout, RedisLocation } from "./keys.ts";
import { listOf, numberOf } from "./replies.ts";
import type { Script } from "./scripts/script.ts";
import type { ServerTime } from "./server-time.ts";

export interface RunnerParts {
  readonly link: RedisLink;
  readonly layout: Layout;
  readonly clock: Clock;
  readonly time: ServerTime;
  /** The longest wait for a reply. */
  readonly commandTimeoutMs: number;
  /** The store's time in a test; null: the server's. */
  readonly now: (() => number) | null;
}

interface Call {
  readonly script: Script;
  /** Null if the key belongs to no partition. */
  readonly partition: number | null;
  readonly keys: readonly string[];
  readonly args: readonly Argument[];
  readonly timeoutMs: number;
}

export class Runner {
  readonly layout: Layout;
  readonly #parts: RunnerParts;

  constructor(parts: RunnerParts) {
    this.layout = parts.layout;
    this.#parts = parts;
  }

  /** A step on one record. */
  on(
    location: RedisLocation,
    script: Script,
    args: readonly Argument[] = [],
    timeoutMs?: number,
  ): Promise<unknown> {
    const { commandTimeoutMs } = this.#parts;
    return this.#inTime({
      script,
      partition: location.partition,
      keys: this.layout.recordKeys(location),
      args: [location.digest, ...args],
      timeoutMs: Math.min(timeoutMs ?? commandTimeoutMs, commandTimeoutMs),
    });
  }

  /** Reads the index of a partition. */
  ask(partition: number, script: Script, args: readonly Argument[] = []): Promise<unknown> {
    const keys = this.layout.partitionKeys(partition);
    const timeoutMs = this.#parts.commandTimeoutMs;
    return this.#inTime({ script, partition, keys, args: ["", ...args], timeoutMs });
  }

  /** The same for all partitions. */
  askAll(script: Script, args: readonly Argument[] = []): Promise<readonly unknown[]> {
    return Promise.all(
      Array.from({ length: this.layout.partitions }, (_, partition) => this.ask(partition, script, args)),
    );
  }

  /** A step on a key that belongs to no partition. */
  at(key: string, script: Script, args: readonly Argument[]): Promise<unknown> {
    const timeoutMs = this.#parts.commandTimeoutMs;
    return this.#inTime({ script, partition: null, keys: [key], args: ["", ...args], timeoutMs });
  }

  async #inTime(call: Call): Promise<unknown> {
    const { timeoutMs } = call;
    const late = Promise.withResolvers<never>();
    let awaited = true;
    const cancel = this.#parts.clock.startTimer(timeoutMs, () => {
      awaited = false;
      late.reject(new StoreError("in_doubt", { message: `Redis gave no reply within ${timeoutMs} ms` }));
    });
    try {
      return await Promise.race([this.#onTheClock(call, () => awaited), late.promise]);
    } catch (error) {
      throw storeErrorOf(error);
    } finally {
      cancel();
    }
  }

  /** If the server rejects the call as too late while the caller still waits, its clock was estimated wrongly; the call is sent once more. */
  async #onTheClock(call: Call, isAwaited: () => boolean): Promise<unknown> {
    const { time } = this.#parts;
    const since = time.moment();
    try {
      const reply = await this.#loaded(call, this.#timeFor(call));
      if (call.script.timed && call.partition !== null) {
        time.observe(call.partition, numberOf(listOf(reply)[0]), since);
      }
      return reply;
    } catch (error) {
      const now = latenessOf(error);
      if (now === null || call.partition === null || !isAwaited()) throw error;
      time.observe(call.partition, now, since);
      return await this.#loaded(call, this.#timeFor(call));
    }
  }

  #timeFor({ script, partition, timeoutMs }: Call): string {
    const { now, time } = this.#parts;
    if (now !== null) return String(now());
    const last = script.begins && partition !== null ? time.in(partition, timeoutMs) : null;
    return last === null ? "" : `<${last}`;
  }

  async #loaded({ script, keys, args }: Call, time: string): Promise<unknown> {
    const { link } = this.#parts;
    const all = [time, ...args];
    try {
      return await link.call("EVALSHA", script.sha, keys, all);
    } catch (error) {
      if (!isReply(error, "NOSCRIPT")) throw error;
      return await link.call("EVAL", script.text, keys, all);
    }
  }
}

/** The server's time, from an error that the call came too late; null for any other error. */
function latenessOf(error: unknown): number | null {
  const found = error instanceof Error ? /^LATE (\d+)/.exec(error.message)?.[1] : undefined;
  return found === undefined ? null : Number(found);
}
