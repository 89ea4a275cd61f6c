/** Hints on PGlite. The database lives in this process, and so do all stores on it. */
import type { Hint, HintSupport } from "../hints.ts";

/** Listeners are called in a turn of their own, once for hints of the same kind that were sent before it. */
class Hub {
  readonly listeners = new Set<(hint: Hint) => void>();
  readonly #waiting = new Set<Hint>();

  send(hint: Hint): void {
    if (this.#waiting.size === 0) queueMicrotask(() => this.#notify());
    this.#waiting.add(hint);
  }

  #notify(): void {
    const hints = [...this.#waiting];
    this.#waiting.clear();
    for (const hint of hints) for (const onHint of [...this.listeners]) onHint(hint);
  }
}

const hubs = new WeakMap<object, Map<string, Hub>>();

/** Stores on one schema of one database receive each other's hints. */
export function pgliteHints(database: object, schema: string): HintSupport {
  const schemas = hubs.get(database) ?? new Map<string, Hub>();
  hubs.set(database, schemas);
  const hub = schemas.get(schema) ?? new Hub();
  schemas.set(schema, hub);
  return {
    send: (hint) => hub.send(hint),
    async listen(onHint) {
      const own = (hint: Hint) => onHint(hint);
      hub.listeners.add(own);
      return async () => {
        hub.listeners.delete(own);
      };
    },
  };
}
