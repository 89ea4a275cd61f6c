import type { IntentRecord } from "../intent.ts";

/** The required part of the platform's IndexedDB. */
export interface IdbFactory {
  open(name: string, version: number): IdbOpening;
}

interface IdbRequest<T> {
  readonly result: T;
  readonly error: unknown;
  onsuccess: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

interface IdbOpening extends IdbRequest<IdbDatabase> {
  onupgradeneeded: ((event: never) => void) | null;
}

export interface IdbDatabase {
  onversionchange: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  createObjectStore(name: string): unknown;
  transaction(
    store: string,
    mode: "readonly" | "readwrite",
    options: { readonly durability: "strict" },
  ): IdbTransaction;
  close(): void;
}

interface IdbTransaction {
  readonly error: unknown;
  oncomplete: ((event: never) => void) | null;
  onabort: ((event: never) => void) | null;
  objectStore(name: string): IdbObjects;
}

export interface IdbObjects {
  get(name: string): IdbRequest<IntentRecord | undefined>;
  getAll(): IdbRequest<IntentRecord[]>;
  getAllKeys(): IdbRequest<unknown[]>;
  put(record: IntentRecord, name: string): unknown;
  delete(name: string): unknown;
}
