/** One holder per key, as a database's advisory locks give it; a second one is told at once. */
import type { RecordKey } from "../../engine/record.ts";
import type { Clock } from "../../ports.ts";
import { keyText } from "./rows.ts";

/** Frees the key. Calling it again does nothing. */
export type Unlock = () => void;

export class KeyLocks {
  readonly #freed = new Map<string, PromiseWithResolvers<void>>();

  /** Null: somebody else holds the key. */
  lock(key: RecordKey): Unlock | null {
    const text = keyText(key);
    if (this.#freed.has(text)) return null;
    const freed = Promise.withResolvers<void>();
    this.#freed.set(text, freed);
    return () => {
      if (this.#freed.get(text) === freed) this.#freed.delete(text);
      freed.resolve();
    };
  }

  /** Waits until whoever holds the key now has freed it. False: not within `timeoutMs`. */
  async waitUntilFreed(key: RecordKey, clock: Clock, timeoutMs: number): Promise<boolean> {
    const held = this.#freed.get(keyText(key));
    if (held === undefined) return true;
    const timeout = Promise.withResolvers<void>();
    const cancel = clock.startTimer(timeoutMs, timeout.resolve);
    const freed = held.promise.then(() => true);
    const inTime = await Promise.race([freed, timeout.promise.then(() => false)]);
    cancel();
    return inTime;
  }
}
