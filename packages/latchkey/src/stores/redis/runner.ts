/** Runs scripts: in time, with what is known when one fails. */
import { StoreError } from "../../errors.ts";
import type { Clock } from "../../ports.ts";
import { said, storeErrorOf } from "./certainty.ts";
import type { Argument, RedisLink } from "./client.ts";
import type { Layout, Place } from "./keys.ts";
import type { Script } from "./scripts/script.ts";

export interface RunnerParts {
  readonly link: RedisLink;
  readonly layout: Layout;
  readonly clock: Clock;
  /** The longest wait for a reply. */
  readonly commandTimeoutMs: number;
  /** The store's time in a test; null: the server's. */
  readonly now: (() => number) | null;
}

export class Runner {
  readonly layout: Layout;
  readonly #parts: RunnerParts;

  constructor(parts: RunnerParts) {
    this.layout = parts.layout;
    this.#parts = parts;
  }

  /** A step on one record. */
  on(place: Place, script: Script, args: readonly Argument[] = [], timeoutMs?: number): Promise<unknown> {
    return this.#run(script, this.layout.recordKeys(place), [place.digest, ...args], timeoutMs);
  }

  /** A question to the index of a partition. */
  ask(partition: number, script: Script, args: readonly Argument[] = []): Promise<unknown> {
    return this.#run(script, this.layout.partitionKeys(partition), ["", ...args]);
  }

  /** The same question to all partitions. */
  askAll(script: Script, args: readonly Argument[] = []): Promise<readonly unknown[]> {
    return Promise.all(
      Array.from({ length: this.layout.partitions }, (_, partition) => this.ask(partition, script, args)),
    );
  }

  /** A step on a key that belongs to no partition. */
  at(key: string, script: Script, args: readonly Argument[]): Promise<unknown> {
    return this.#run(script, [key], ["", ...args]);
  }

  async #run(
    script: Script,
    keys: readonly string[],
    args: readonly Argument[],
    timeoutMs = this.#parts.commandTimeoutMs,
  ): Promise<unknown> {
    const { now, clock } = this.#parts;
    const all = [now === null ? "" : String(now()), ...args];
    const limit = Math.min(timeoutMs, this.#parts.commandTimeoutMs);
    const late = Promise.withResolvers<never>();
    const cancel = clock.startTimer(limit, () =>
      late.reject(new StoreError("in_doubt", { message: `Redis gave no reply within ${limit} ms` })),
    );
    try {
      return await Promise.race([this.#call(script, keys, all), late.promise]);
    } catch (error) {
      throw storeErrorOf(error);
    } finally {
      cancel();
    }
  }

  async #call(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<unknown> {
    const { link } = this.#parts;
    try {
      return await link.call("EVALSHA", script.sha, keys, args);
    } catch (error) {
      if (!said(error, "NOSCRIPT")) throw error;
      return await link.call("EVAL", script.text, keys, args);
    }
  }
}
