import type { IntentRecord } from "./intent.ts";

/**
 * Where intents are kept. `encodeRecord` of `latchkey-client/web-storage` makes text of a record.
 *
 * A storage that several tabs or processes share makes them one client, as far as `update` is atomic between them.
 */
export interface IntentStorage {
  /**
   * Replaces what is stored under `name` by what `change` makes of it, in one atomic step; `undefined` stands for nothing
   * stored. Resolves when the change would survive a crash. `change` is synchronous, has no lasting side effects, may be
   * called again, and returns its argument where nothing is to change.
   */
  update(name: string, change: (stored: IntentRecord | undefined) => IntentRecord | undefined): Promise<void>;
  /** Everything stored, by name. */
  list(): Promise<readonly (readonly [name: string, record: IntentRecord])[]>;
}
