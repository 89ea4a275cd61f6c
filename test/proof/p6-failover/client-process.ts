/**
 * A client of the failover tests: it submits key after key through Latchkey and asks again until it has an answer. Its
 * argument is JSON (`ClientSettings`); commands come on stdin, and what happens goes to stdout, one line of JSON each.
 */
import { createInterface } from "node:readline";
import pg from "pg";
import { createLatchkey, isLatchkeyError, type LatchkeyEvent } from "../../../packages/latchkey/src/index.ts";
import { postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { StoreCapabilities } from "../../../packages/latchkey/src/stores/store.ts";
import { until } from "../../support/until.ts";
import { type Plant, planted } from "./plants.ts";
import { defineWork, type Mode, type Value } from "./work.ts";

export interface ClientSettings {
  readonly databaseUrl: string;
  readonly receiverUrl: string;
  /** Its keys begin with it. Clients of one name submit the same keys. */
  readonly name: string;
  readonly tenant: string;
  readonly modes: readonly Mode[];
  /** How many keys of a mode are under way at once. */
  readonly loops: number;
  readonly plant: Plant | null;
  readonly durability: StoreCapabilities["durability"];
  /** Of the session, e.g. `-c synchronous_commit=off`. */
  readonly sessionOptions: string;
  /** The database is behind a pooler that hands a connection from one transaction to the next. */
  readonly pooled: boolean;
  /** After so many uses a connection is closed, which others may be waiting for; 0: never. */
  readonly maxUses: number;
}

export interface KeyOf {
  readonly mode: Mode;
  readonly key: string;
}

export type Command =
  /** New keys, one after the other, until `rest`. */
  | { readonly do: "begin"; readonly round: string }
  /** No new ones; says `rested` when everything that was begun is answered. */
  | { readonly do: "rest" }
  /** Submits these once more; says `audited` at the end. */
  | { readonly do: "audit"; readonly keys: readonly KeyOf[] }
  /** Submits these with another input; reports each reply. */
  | { readonly do: "misuse"; readonly keys: readonly KeyOf[] }
  /** Starts a worker: rescues, reconciles, delivers. */
  | { readonly do: "serve" }
  /** Says `busy`: how many connections its pool has out. */
  | { readonly do: "count" };

/** An answer that a caller got. */
export interface Ack {
  readonly ack: string;
  readonly mode: Mode;
  readonly kind: "executed" | "replay";
  readonly record: string;
  readonly by: string;
  /** Of the audit. */
  readonly again: boolean;
}

/** Nobody asks again for longer than this: after faults are over every key has an answer long before. */
const patienceMs = 90_000;
const againMs = 25;

const settings = JSON.parse(process.argv[2] ?? "") as ClientSettings;
const {
  databaseUrl,
  receiverUrl,
  name,
  tenant,
  modes,
  loops,
  plant,
  durability,
  sessionOptions,
  pooled,
  maxUses,
} = settings;
const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
const pool = new pg.Pool({
  connectionString: databaseUrl,
  max: 3 + modes.length * loops,
  application_name: name,
  ...(maxUses > 0 && { maxUses }),
  ...(sessionOptions !== "" && { options: sessionOptions }),
});
pool.on("error", () => {});
const store = postgresStore({
  pool,
  durability,
  connectTimeoutMs: 2_000,
  statementTimeoutMs: 5_000,
  ...(pooled && { namedStatements: false, notify: false }),
});
const latchkey = createLatchkey({
  store: planted(store, pool, plant),
  circuitBreaker: { openMs: 100 },
  onEvent: (event) => tell({ event: nameOf(event) }),
});
const submit = defineWork(latchkey, { receiverUrl, tenant, tell });

function nameOf(event: LatchkeyEvent): string {
  if (event.type === "commit_in_doubt") return `commit_in_doubt ${event.resolved}`;
  if (event.type === "transaction_rerun") return `transaction_rerun ${event.because}`;
  return event.type;
}

/** Null: no answer yet. */
async function ask(mode: Mode, key: string, again: boolean): Promise<Ack | null> {
  try {
    const { kind, recordId, value } = await submit[mode](key);
    if (kind !== "executed" && kind !== "replay") {
      tell({ event: `reply ${kind}` });
      return null;
    }
    return { ack: key, mode, kind, record: recordId ?? "", by: (value as Value).by, again };
  } catch (error) {
    tell({ event: `threw ${isLatchkeyError(error) ? error.code : String(error)}` });
    return null;
  }
}

async function settle(mode: Mode, key: string, again: boolean): Promise<void> {
  const options = { what: `${key} is answered`, timeoutMs: patienceMs, intervalMs: againMs };
  const ack = await until(() => ask(mode, key, again), options);
  tell(ack ?? {});
}

/** The reply to a request that uses the key for something else. */
async function misuse(mode: Mode, key: string): Promise<string> {
  const what = `${key} with another input is answered`;
  return until(() => submit[mode](key, `not ${key}`).then(({ kind }) => kind), {
    what,
    timeoutMs: patienceMs,
  });
}

let resting = true;
let under: Promise<unknown> = Promise.resolve();

function begin(round: string): void {
  resting = false;
  under = Promise.all(
    modes.map((mode) => {
      let count = 0;
      const loop = async () => {
        while (!resting) await settle(mode, `${name}-${round}-${mode}-${count++}`, false);
      };
      return Promise.all(Array.from({ length: loops }, loop));
    }),
  );
}

async function handleLine(command: Command): Promise<void> {
  switch (command.do) {
    case "begin":
      return begin(command.round);
    case "rest":
      resting = true;
      await under;
      tell({ rested: true });
      return;
    case "audit":
      for (const { mode, key } of command.keys) await settle(mode, key, true);
      tell({ audited: true });
      return;
    case "misuse":
      tell({ misuse: await Promise.all(command.keys.map(({ mode, key }) => misuse(mode, key))) });
      return;
    case "serve":
      latchkey.startWorker({
        effectDispatcher: { intervalMs: 200 },
        leaseRescuer: { intervalMs: 200 },
        outcomeReconciler: { intervalMs: 200 },
        recordCleaner: false,
      });
      return;
    case "count":
      tell({ busy: pool.totalCount - pool.idleCount + pool.waitingCount });
      return;
    default:
      return command satisfies never;
  }
}

await until(() => pool.query("select 1"), { what: "the database answers", timeoutMs: patienceMs });
tell({ ready: true, wallMs: Date.now() });
for await (const line of createInterface({ input: process.stdin })) {
  handleLine(JSON.parse(line) as Command).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
    process.exit(1);
  });
}
process.exit();
