import type { IntentRecord } from "../intent.ts";
import type { IntentStorage } from "../storage.ts";

/** Keeps intents in this page or process alone: a reload forgets them. */
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
