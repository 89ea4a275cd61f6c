/** Module `latchkey-client/web-storage`. */
import type { IntentRecord } from "../intent.ts";
import type { IntentStorage } from "../storage.ts";

/** The required part of `sessionStorage` and `localStorage`. */
export interface WebStorage {
  readonly length: number;
  key(index: number): string | null;
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
}

/**
 * Stores intents in `sessionStorage` (one tab, across reloads) or anything with the same methods. Do not use `localStorage`
 * if two tabs may send the same intent at once: its writes are not atomic between tabs, so each could create its own key.
 *
 * @param prefix of the name of each intent. Default `latchkey:`
 */
export function webStorage(storage: WebStorage, prefix = "latchkey:"): IntentStorage {
  const read = (name: string) => {
    const text = storage.getItem(prefix + name);
    return text === null ? undefined : decodeRecord(text);
  };
  return {
    async update(name, change) {
      const stored = read(name);
      const next = change(stored);
      if (next === stored) return;
      if (next === undefined) storage.removeItem(prefix + name);
      else storage.setItem(prefix + name, encodeRecord(next));
    },
    async list() {
      const names = Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? "")
        .filter((name) => name.startsWith(prefix))
        .map((name) => name.slice(prefix.length));
      return names.flatMap((name) => {
        const record = read(name);
        return record === undefined ? [] : [[name, record] as const];
      });
    },
  };
}

/** Converts a record to JSON, for text storages. */
export function encodeRecord(record: IntentRecord): string {
  const { body, ...rest } = record;
  return JSON.stringify({ ...rest, body: body === null ? null : toBase64(body) });
}

/** Reads the output of `encodeRecord`. */
export function decodeRecord(text: string): IntentRecord {
  const { body, ...rest }: Omit<IntentRecord, "body"> & { readonly body: string | null } = JSON.parse(text);
  return { ...rest, body: body === null ? null : fromBase64(body) };
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  // A long body at once would exceed the number of arguments that a call may have.
  for (let at = 0; at < bytes.length; at += 8_192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  }
  return btoa(text);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
