/** A private Postgres, a receiver, dispatchers as processes of their own, and the test itself as the one who enqueues. */
import pg from "pg";
import { createLatchkey } from "../../packages/latchkey/src/index.ts";
import { migratePostgres, postgresStore } from "../../packages/latchkey/src/stores/postgres.ts";
import { type PrivatePostgres, startPostgres } from "../support/private-postgres.ts";
import { spawnWorker, type WorkerProcess } from "../support/processes.ts";
import { onRelease } from "../support/resources.ts";
import { until } from "../support/until.ts";
import type { DispatcherSettings } from "./outbox-process.ts";
import type { Receiver } from "./outbox-receiver.ts";
import { defineEffects, type EffectPlan } from "./outbox-work.ts";

const script = new URL("./outbox-process.ts", import.meta.url);
/** Many processes start at once on a busy machine. */
export const patienceMs = 60_000;

/** One effect of a transaction. */
export interface Order {
  readonly effect: string;
  readonly name: string;
  readonly aggregate?: string;
}

/** A row of the outbox, as SQL has it. */
export interface Row {
  readonly name: string;
  readonly effect: string;
  readonly state: "pending" | "claimed" | "delivered" | "dead";
  readonly position: number;
  readonly key: string;
  readonly attempt: number;
  readonly sends: number;
  readonly errorCode: string | null;
}

export interface Counter {
  readonly pool: pg.Pool;
  /** Commits one transaction with these effects, once, however often it must be tried. */
  enqueue(key: string, orders: readonly Order[]): Promise<void>;
}

export interface OutboxLab {
  readonly postgres: PrivatePostgres;
  readonly receiver: Receiver;
  /** Past every proxy. */
  readonly counter: Counter;
  /** Somebody who enqueues, by another way to the database. */
  open(url: string): Counter;
  /** Not ready yet. */
  dispatch(settings?: Partial<DispatcherSettings>): WorkerProcess;
  rows(): Promise<readonly Row[]>;
  /** Names that `onDelivered` has committed, in no order. */
  noted(): Promise<readonly string[]>;
}

/** Everything ends with the test file. */
export async function openOutboxLab(plans: readonly EffectPlan[], receiver: Receiver): Promise<OutboxLab> {
  const postgres = await startPostgres();
  const open = (url: string) => openCounter(url, plans, receiver.url);
  const counter = open(postgres.url);
  await migratePostgres(counter.pool);
  await counter.pool.query("create table placed (name text); create table noted (name text)");
  const query = async <R extends pg.QueryResultRow>(sql: string) => (await counter.pool.query<R>(sql)).rows;
  return {
    postgres,
    receiver,
    counter,
    open,
    dispatch(settings = {}) {
      const own: DispatcherSettings = {
        databaseUrl: postgres.url,
        receiverUrl: receiver.url,
        plans,
        intervalMs: 250,
        batchSize: 50,
        ...settings,
      };
      return spawnWorker(script, { args: [JSON.stringify(own)] });
    },
    rows: () =>
      query<Row>(`select coalesce(substring(convert_from(payload, 'UTF8') from '"name":"(.*)"'),
        trim('"' from convert_from(payload, 'UTF8'))) as name, aggregatetype as effect, state,
        position::int, downstream_key as key, attempt, sends, last_error_code as "errorCode"
        from latchkey.outbox order by position`),
    noted: async () => (await query<{ name: string }>("select name from noted")).map(({ name }) => name),
  };
}

function openCounter(url: string, plans: readonly EffectPlan[], receiverUrl: string): Counter {
  const pool = new pg.Pool({ connectionString: url, max: 8, connectionTimeoutMillis: 5_000 });
  pool.on("error", () => {});
  onRelease(() => pool.end());
  // Whether it receives hints makes no difference to what it writes.
  const latchkey = createLatchkey({ store: postgresStore({ pool }), circuitBreaker: false });
  const effects = defineEffects(latchkey, plans, { receiverUrl });
  const place = latchkey.operation("orders.place");
  const tryToEnqueue = async (key: string, orders: readonly Order[]) => {
    const result = await latchkey.run(place, { tenant: "t", key, input: orders }, async ({ tx, attempt }) => {
      for (const { effect: name, aggregate, ...input } of orders) {
        const effect = effects.get(name);
        if (effect === undefined) throw new TypeError(`no effect ${name}`);
        await tx.query("insert into placed values ($1)", [input.name]);
        attempt.enqueue(effect, input, aggregate === undefined ? {} : { aggregate });
      }
    });
    return result.kind === "executed" || result.kind === "replay";
  };
  return {
    pool,
    async enqueue(key, orders) {
      const what = `${key} is enqueued`;
      await until(() => tryToEnqueue(key, orders), { what, timeoutMs: patienceMs, intervalMs: 25 });
    },
  };
}
