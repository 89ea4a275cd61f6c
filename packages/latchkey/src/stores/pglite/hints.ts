/** Hints on PGlite: the database lives in this process, so that all its stores do, too. */
import type { Hint, HintSupport } from "../hints.ts";

/** Listeners are called in a turn of their own, once for hints of the same kind that were sent before it. */
class Hub {
  readonly hearers = new Set<(hint: Hint) => void>();
  readonly #waiting = new Set<Hint>();

  send(hint: Hint): void {
    if (this.#waiting.size === 0) queueMicrotask(() => this.#tell());
    this.#waiting.add(hint);
  }

  #tell(): void {
    const hints = [...this.#waiting];
    this.#waiting.clear();
    for (const hint of hints) for (const hear of [...this.hearers]) hear(hint);
  }
}

const hubs = new WeakMap<object, Map<string, Hub>>();

/** Stores on one schema of one database hear each other. */
export function pgliteHints(database: object, schema: string): HintSupport {
  const schemas = hubs.get(database) ?? new Map<string, Hub>();
  hubs.set(database, schemas);
  const hub = schemas.get(schema) ?? new Hub();
  schemas.set(schema, hub);
  return {
    send: (hint) => hub.send(hint),
    async listen(hear) {
      const own = (hint: Hint) => hear(hint);
      hub.hearers.add(own);
      return async () => {
        hub.hearers.delete(own);
      };
    },
  };
}
