/** One holder per key, as with a database's advisory locks; a second one is refused at once. */
import type { RecordKey } from "../../engine/record.ts";
import type { Clock } from "../../ports.ts";
import { keyText } from "./rows.ts";

/** Frees the key. Calling it again does nothing. */
export type Unlock = () => void;

export class KeyLocks {
  /** Callbacks of the callers that wait for held keys. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Null if another transaction holds the key. */
  lock(key: RecordKey): Unlock | null {
    const text = keyText(key);
    if (this.#waiting.has(text)) return null;
    const waiting: (() => void)[] = [];
    this.#waiting.set(text, waiting);
    return () => {
      if (this.#waiting.get(text) === waiting) this.#waiting.delete(text);
      for (const wake of waiting.splice(0)) wake();
    };
  }

  /** Waits until the current holder has freed the key. False if that takes longer than `timeoutMs`. */
  async waitUntilFreed(key: RecordKey, clock: Clock, timeoutMs: number): Promise<boolean> {
    const waiting = this.#waiting.get(keyText(key));
    if (waiting === undefined) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const cancel = clock.startTimer(timeoutMs, () => resolve(false));
    waiting.push(() => resolve(true));
    const inTime = await promise;
    cancel();
    return inTime;
  }
}
