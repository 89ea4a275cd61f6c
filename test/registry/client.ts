/** What a database client's entry in the registry says. Everything that loads the client itself is loaded on demand. */
import type pg from "pg";

/** Runs one statement; its values are those of `$1` and so on, in this order. */
export type Say = (text: string, ...values: string[]) => Promise<unknown>;

export interface OpenClient {
  /** Runs one handler under Latchkey, through the client's bridge. */
  handle(key: string, work: (say: Say) => Promise<unknown>): Promise<unknown>;
  /** The client's own transaction, as its documentation shows it, without Latchkey. */
  alone<T>(work: (say: Say) => Promise<T>): Promise<T>;
}

/** Opens a client on a pool's settings. Everything is closed with the test file, but for the pool. */
export type OpenWay = (pool: pg.Pool) => OpenClient | Promise<OpenClient>;

/** A way to use a client that tests over all clients take, beside others of the same bridge. */
export interface Way {
  /** Of which the repository's package.json pins the version. */
  readonly package: string;
  /** What the client alone reports of a transaction that Postgres rolled back after a swallowed error. */
  readonly reports: "success" | "failure";
  /** Where the report has a name of its own. */
  readonly failure?: string;
  /** What narrows the way down, for the documents. */
  readonly when?: string;
  /** Whether it sends through the pool that it is given, and so in that pool's pipeline mode. */
  readonly onGivenPool: boolean;
}

export interface Client {
  /** Of `latchkey/<name>`, `docs/transactions/<name>.md` and `examples/transactions/<name>.ts`. */
  readonly name: string;
  readonly docs: ClientDocs;
  /** Ways to use it; the key is the client's name and version-free. */
  readonly ways: Readonly<Record<string, Way>>;
  /** Programs of `examples/transactions/` beside the one of its name. */
  readonly moreExamples?: readonly string[];
  /** The function of the bridge, and options that it takes. Left out: the client is a store of its own. */
  readonly bridge?: { readonly factory: string; readonly options: object };
  /** The module of the bridge. */
  adapter(): Promise<object>;
  /** How each way is opened. */
  open(): Promise<{ readonly ways: Readonly<Record<string, OpenWay>> }>;
}

/** Parts of the tables in README.md, docs/README.md, docs/modules.md and docs/transactions/README.md. */
interface ClientDocs {
  readonly title: string;
  /** Modules that serve the client beside its own. */
  readonly alsoIn?: readonly string[];
  readonly versions: string;
  /** What a handler's `tx` is. */
  readonly tx: string;
  readonly nested: string;
  /** How its `tx` gets onto Latchkey's connection. */
  readonly connection: string;
  readonly traps: string;
  /** What the module gives. Left out: docs/modules.md has it elsewhere. */
  readonly gives?: string;
}
