/** Hints on PGlite: the database lives in this process, so that all its stores do, too. */
import type { Hint, HintSupport } from "../hints.ts";

const hubs = new WeakMap<object, Map<string, Set<(hint: Hint) => void>>>();

/** Stores on one schema of one database hear each other. */
export function pgliteHints(database: object, schema: string): HintSupport {
  const schemas = hubs.get(database) ?? new Map<string, Set<(hint: Hint) => void>>();
  hubs.set(database, schemas);
  const hearers = schemas.get(schema) ?? new Set();
  schemas.set(schema, hearers);
  return {
    send(hint) {
      queueMicrotask(() => {
        for (const hear of hearers) hear(hint);
      });
    },
    async listen(hear) {
      const own = (hint: Hint) => hear(hint);
      hearers.add(own);
      return async () => {
        hearers.delete(own);
      };
    },
  };
}
