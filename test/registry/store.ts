/** What a store's entry in the registry says. Everything that loads the store's client is loaded on demand. */
import type { Backend } from "../fixture/backends/backend.ts";

export interface RegisteredStore {
  /** Of `latchkey/<name>`; `<name>Store` makes it. */
  readonly name: string;
  readonly docs: StoreDocs;
  /** Whether handlers can write in the store's own transactions. Such a store is one of `test/proof/p3-stores/stores.ts`, too. */
  readonly transactions: boolean;
  /** Where the records are: with the process, in files below the fixture's `--data`, or on a server. */
  readonly keptIn: "process" | "files" | "server";
  /** Of the URLs that the fixture's `--store` takes. None: it takes the store's name. */
  readonly protocols: readonly string[];
  readonly defaultPort?: string;
  /** Options that it takes, as much of them as is looked at when it is made. */
  readonly options: object;
  /** The store's module. */
  adapter(): Promise<object>;
  fixture(): Promise<{ readonly serveOn: ServeOn }>;
}

/** Parts of the tables in README.md and docs/modules.md. */
interface StoreDocs {
  readonly versions: string;
  /** What the module gives. */
  readonly gives: string;
}

/** Those of the fixture's options that a backend may heed. */
export interface BackendOptions {
  /** Where Latchkey's tables and `fixture_orders` go. Null: Latchkey's default, and `public`. */
  readonly schema: string | null;
  readonly poolMax: number;
}

export interface StorePlace {
  /** Null for stores that are on no server. */
  readonly url: URL | null;
  /** For files, the fixture's `--data`. */
  readonly folder: string;
  readonly options: BackendOptions;
}

/** Opens the fixture's backend on the store, and serves with it. */
export type ServeOn = (
  place: StorePlace,
  serve: <Tx>(backend: Backend<Tx>) => Promise<void>,
) => Promise<void>;

/** @throws {TypeError} where there is none */
export function urlOf({ url }: StorePlace): URL {
  if (url === null) throw new TypeError("The store is on a server, and there is no URL");
  return url;
}

/** How the fixture's `--store` names a store. */
export function addressOf({ name, protocols: [protocol] }: RegisteredStore): string {
  return protocol === undefined ? name : `${protocol}//…`;
}
