/** A database of its own with those who go on in it: clients and services, here in the process that watches. */

import { rm } from "node:fs/promises";
import pg from "pg";
import type { LatchkeyEvent } from "../../../packages/latchkey/src/index.ts";
import { migratePostgres } from "../../../packages/latchkey/src/stores/postgres.ts";
import { type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { scratchDirectory } from "../../support/scratch.ts";
import { until } from "../../support/until.ts";
import { watchDirectory } from "../../support/watchdog.ts";
import { wholeShapes } from "../../support/whole-shapes.ts";
import { wayToOtherSide } from "./ask-other-side.ts";
import { type Assembled, assemble, type ServiceName } from "./assemble.ts";
import { observersSql, type Seen, see, sessionsOf, type Unfinished, unfinishedOf } from "./observers.ts";
import { OtherSide } from "./other-side.ts";
import type { Plant } from "./plants.ts";
import { failed, type Reply, replyOf } from "./reply.ts";
import type { Order } from "./work.ts";

/** What all lanes share. */
export interface World {
  readonly postgres: PrivatePostgres;
  readonly otherSide: OtherSide;
  readonly compileCache: string;
  openLane(plant: Plant | null): Promise<Lane>;
  close(): Promise<void>;
}

const template = "p5_template";

export async function openWorld(): Promise<World> {
  const postgres = await startPostgres({ conf: { max_connections: 300 } });
  const otherSide = new OtherSide();
  await otherSide.listen();
  await postgres.admin(`create database ${template}`);
  const pool = new pg.Pool({ connectionString: urlOf(postgres, template), max: 1 });
  await migratePostgres(pool);
  await pool.query(wholeShapes());
  await pool.query(observersSql);
  await pool.end();
  const compileCache = scratchDirectory("us");
  const forget = watchDirectory(compileCache);
  const lanes: Lane[] = [];
  let opened = 0;
  return {
    postgres,
    otherSide,
    compileCache,
    async openLane(plant) {
      opened += 1;
      const name = `lane_${opened}`;
      await postgres.admin(`create database ${name} template ${template}`);
      const lane = await openLane(name, urlOf(postgres, name), otherSide, plant);
      lanes.push(lane);
      return lane;
    },
    async close() {
      for (const lane of lanes) await lane.close();
      otherSide.close();
      await postgres.stop();
      await rm(compileCache, { recursive: true, force: true, maxRetries: 5 });
      forget();
    },
  };
}

function urlOf({ url }: PrivatePostgres, database: string): string {
  const other = new URL(url);
  other.pathname = `/${database}`;
  return other.href;
}

/** Longer than every lease, claim and pause here. */
const leapMs = 75_000;
const patienceMs = 30_000;

export class Lane {
  readonly url: string;
  readonly otherSide: OtherSide;
  readonly plant: Plant | null;
  /** Events of the surviving process since `begin`. */
  events: LatchkeyEvent[] = [];
  /** Steps that those who go on have run, since `begin`. */
  ran: { readonly step: string; readonly name: string }[] = [];
  readonly #pool: pg.Pool;
  readonly #survivors: Assembled & { close(): Promise<void> };
  readonly #endWay: () => void;

  constructor(
    url: string,
    otherSide: OtherSide,
    plant: Plant | null,
    pool: pg.Pool,
    way: { readonly ask: Parameters<typeof assemble>[1]["ask"]; end(): void },
  ) {
    this.url = url;
    this.otherSide = otherSide;
    this.plant = plant;
    this.#pool = pool;
    this.#endWay = () => way.end();
    this.#survivors = assemble(
      pool,
      {
        by: "survivor",
        ask: way.ask,
        pass: (_, act) => act(),
        plant,
        ran: (step, name) => this.ran.push({ step, name }),
        beaten: async () => {},
        transactionLimitMs: 30_000,
      },
      (event) => this.events.push(event),
    );
  }

  begin(): void {
    this.events = [];
    this.ran = [];
  }

  /** One try of a client. */
  submit(operation: string, order: Order, key?: string): Promise<Reply> {
    return this.#survivors.works.submit(operation, order, key).then(replyOf, failed);
  }

  async work(service: ServiceName): Promise<void> {
    await this.#survivors.work(service);
  }

  /** Every lease and every pause of the store's clock ends. */
  async advance(): Promise<void> {
    await this.#pool.query("select setval('proof_offset', (select last_value from proof_offset) + $1)", [
      leapMs,
    ]);
  }

  see(key: string): Promise<Seen> {
    return see(this.#pool, key);
  }

  unfinished(): Promise<Unfinished> {
    return unfinishedOf(this.#pool);
  }

  /** Whether a transaction of a process is open, which may be dead. */
  async hasOpenTransaction(name: string): Promise<boolean> {
    return (await sessionsOf(this.#pool, name)).open;
  }

  async transactionsEnd(name: string): Promise<void> {
    const isOver = async () => !(await this.hasOpenTransaction(name));
    await until(isOver, { what: `the transactions of ${name} end`, timeoutMs: patienceMs });
  }

  /** Everything that has reached the server of a dead process is done. */
  async sessionsEnd(name: string): Promise<void> {
    const isOver = async () => (await sessionsOf(this.#pool, name)).count === 0;
    await until(isOver, { what: `the sessions of ${name} end`, timeoutMs: patienceMs, intervalMs: 2 });
  }

  async close(): Promise<void> {
    this.#endWay();
    await this.#survivors.close();
    await this.#pool.end();
  }
}

async function openLane(name: string, url: string, otherSide: OtherSide, plant: Plant | null): Promise<Lane> {
  const pool = new pg.Pool({ connectionString: url, application_name: name, max: 8, idleTimeoutMillis: 0 });
  pool.on("error", () => {});
  return new Lane(url, otherSide, plant, pool, await wayToOtherSide(otherSide.port, name));
}
