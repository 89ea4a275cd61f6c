/** A private Postgres, a payment provider as a process of its own with its own ledger, and processes that charge cards. */
import { join } from "node:path";
import pg from "pg";
import { type Charge, readLedger } from "../../examples/payments/provider-ledger.ts";
import type { LatchkeyRecord, RecordState } from "../../packages/latchkey/src/index.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { temporaryFolder } from "../support/fixture.ts";
import { type PrivatePostgres, startPostgres } from "../support/private-postgres.ts";
import { spawnWorker, type WorkerLine, type WorkerProcess } from "../support/processes.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import type { Command, ProcessSettings, RunEnd, ServiceName } from "./charging-process.ts";
import type { Order, Settings } from "./charging-work.ts";
import type { StopAt } from "./stops.ts";

const script = new URL("./charging-process.ts", import.meta.url);
const providerScript = new URL("../../examples/payments/provider.ts", import.meta.url);
const tenant = "t";
/** Many processes start at once on a busy machine. */
const patienceMs = 60_000;

export interface Submitted {
  readonly reply: RunEnd;
  /** The port calls it made, in order. */
  readonly ports: readonly string[];
}

export interface SubmitOptions {
  readonly stop?: StopAt;
  /** How the provider behaves at each send, in order. */
  readonly modes?: readonly string[];
}

/** A submission that a process has taken. */
export interface Submission {
  readonly ended: Promise<Submitted>;
  /** It stands where it was to stop; the port's name. Rejects when it ends without having come there. */
  stopped(): Promise<string>;
  release(): void;
}

export interface ChargingProcess {
  readonly worker: WorkerProcess;
  submit(operation: string, order: Order, options?: SubmitOptions): Submission;
  /** One round of a background service. */
  work(service: ServiceName): Promise<WorkerLine>;
  /** Round after round, until the process ends. */
  start(...services: ServiceName[]): Promise<void>;
  /** All its lines about this order. */
  linesOf(order: string): readonly WorkerLine[];
}

/** A database with Latchkey's tables and two of the business's. */
export interface Shop {
  readonly url: string;
  readonly pool: pg.Pool;
  read(operation: string, order: string): Promise<LatchkeyRecord | null>;
  list(state: RecordState): Promise<readonly LatchkeyRecord[]>;
  /** Proofs of what was settled, oldest first. */
  proofs(operation: string, order: string): Promise<readonly string[]>;
  /** Committed rows of the two phases. */
  rows(order: string): Promise<{ readonly orders: number; readonly settled: number }>;
  open(
    settings?: Settings & { readonly triesMax?: number; readonly through?: string },
  ): Promise<ChargingProcess>;
}

export interface ChargingLab {
  readonly postgres: PrivatePostgres;
  /** What the provider has charged for this order, by its own ledger. */
  charges(order: string): readonly Charge[];
  /** Everything it has charged. */
  allCharges(): readonly Charge[];
  shop(name: string): Promise<Shop>;
}

/** Everything ends with the test file. */
export async function openChargingLab(): Promise<ChargingLab> {
  const ledger = join(temporaryFolder(), "provider.jsonl");
  const provider = spawnWorker(providerScript, { env: { PROVIDER_PORT: "0", PROVIDER_LEDGER: ledger } });
  const postgres = await startPostgres({ conf: { max_connections: 400 } });
  const providerUrl = String((await provider.ready(patienceMs)).url);
  const allCharges = () =>
    readLedger(ledger).flatMap((entry) => (entry.did === "charge" ? [entry.charge] : []));
  return {
    postgres,
    allCharges,
    charges: (order) => allCharges().filter(({ description }) => description === order),
    async shop(name) {
      await postgres.admin(`create database ${name}`);
      const url = new URL(postgres.url);
      url.pathname = `/${name}`;
      return openShop(url.href, providerUrl);
    },
  };
}

async function openShop(url: string, providerUrl: string): Promise<Shop> {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  pool.on("error", () => {});
  onRelease(() => pool.end());
  await migratePostgres(pool);
  await pool.query("create table orders (name text); create table settled (name text)");
  const { read, settlement } = postgresStore({ pool });
  const keyOf = (operation: string, order: string) => ({ tenant, scope: operation, key: order });
  const list: Shop["list"] = (state) =>
    settlement.list({ state, tenant: null, operation: null, limit: 10_000, after: null });
  return {
    url,
    pool,
    list,
    read: async (operation, order) => (await read(keyOf(operation, order))).record,
    proofs: async (operation, order) =>
      (await settlement.audit(keyOf(operation, order))).map(({ proof }) => proof),
    async rows(order) {
      const count = "select count(*)::int as count from";
      const { rows } = await pool.query<{ orders: number; settled: number }>(
        `select (${count} orders where name = $1) as orders, (${count} settled where name = $1) as settled`,
        [order],
      );
      const [row] = rows;
      if (row === undefined) throw new Error("one row always");
      return row;
    },
    open: ({ through = url, ...settings } = {}) =>
      openProcess({ databaseUrl: through, providerUrl, ...settings }),
  };
}

async function openProcess(settings: ProcessSettings): Promise<ChargingProcess> {
  const worker = spawnWorker(script, { args: [JSON.stringify(settings)] });
  await worker.ready(patienceMs);
  let commands = 0;
  const send = (command: DistributiveOmit<Command, "id">) => {
    const id = ++commands;
    worker.send({ ...command, id });
    return { id, done: worker.line((line) => line.done === id, patienceMs) };
  };
  return {
    worker,
    submit(
      operation,
      order,
      { stop = null, modes = [] }: { stop?: StopAt | null; modes?: readonly string[] } = {},
    ) {
      const { id, done } = send({ do: "submit", operation, order, stop, modes });
      const ended = done.then(({ reply, ports }) => ({ reply, ports }) as Submitted);
      ended.catch(() => {});
      return {
        ended,
        async stopped() {
          const line = await worker.line((one) => one.stopped === id || one.done === id, patienceMs);
          if (line.stopped === id) return String(line.port);
          throw new Error(`${operation} of ${order.order} ended before its stop: ${JSON.stringify(line)}`);
        },
        release: () => {
          send({ do: "release", submission: id }).done.catch(() => {});
        },
      };
    },
    work: (service) => send({ do: "work", service }).done,
    start: async (...services) => {
      await send({ do: "start", services }).done;
    },
    linesOf: (order) => worker.lines.filter((line) => line.order === order),
  };
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/** Its reply to its caller, as the bytes of an answer; null: it has not answered. */
export function answered(reply: RunEnd): Omit<Extract<RunEnd, { readonly status: number }>, "kind"> | null {
  if (reply.kind !== "executed" && reply.kind !== "replay") return null;
  const { status, headers, body } = reply;
  return { status, headers, body };
}

/** Submits until there is an answer, or nothing to wait for any more. */
export async function insist(
  process: ChargingProcess,
  operation: string,
  order: Order,
): Promise<Extract<RunEnd, { readonly kind: "executed" | "replay" | "unknown" }>> {
  const ended = await until(
    async () => {
      const { reply } = await process.submit(operation, order).ended;
      if (reply.kind === "executed" || reply.kind === "replay") return reply;
      return reply.kind === "unknown" && reply.retryAfterMs === null ? reply : undefined;
    },
    { what: `${operation} of ${order.order} comes to an end`, timeoutMs: patienceMs, intervalMs: 150 },
  );
  if (ended === undefined) throw new TypeError("until gives what is true");
  return ended;
}
