import type { IntentRecord } from "./intent.ts";

/**
 * Where intents are stored. `encodeRecord` of `latchkey-client/web-storage` converts a record to text.
 *
 * Tabs or processes that share a storage act as one client, provided that `update` is atomic between them.
 */
export interface IntentStorage {
  /**
   * Replaces the record stored under `name` with the result of `change`, in one atomic step; `undefined` means that nothing
   * is stored. Resolves when the change would survive a crash. `change` is synchronous, has no lasting side effects, may be
   * called again, and returns its argument if nothing changes.
   */
  update(name: string, change: (stored: IntentRecord | undefined) => IntentRecord | undefined): Promise<void>;
  /** All stored records, by name. */
  list(): Promise<readonly (readonly [name: string, record: IntentRecord])[]>;
}
