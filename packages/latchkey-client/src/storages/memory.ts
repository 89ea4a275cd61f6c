import type { IntentRecord } from "../intent.ts";
import type { IntentStorage } from "../storage.ts";

/** Stores intents in the memory of this page or process: a reload forgets them. */
export function memoryStorage(): IntentStorage {
  const records = new Map<string, IntentRecord>();
  return {
    async update(name, change) {
      const next = change(records.get(name));
      if (next === undefined) records.delete(name);
      else records.set(name, next);
    },
    list: async () => [...records],
  };
}
