/** A primary and its standby, behind one address; who is which changes with each failover. */
import pg from "pg";
import { migratePostgres } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { PostgresVersion } from "../../support/postgres-binaries.ts";
import { type PostgresConf, type PrivatePostgres, startPostgres } from "../../support/private-postgres.ts";
import { type Standby, startStandby } from "../../support/standby.ts";
import { startProxy, type TcpProxy } from "../../support/tcp-proxy.ts";
import { until } from "../../support/until.ts";
import { wholeShapes } from "../../support/whole-shapes.ts";
import { tables } from "./work.ts";

export interface PairOptions {
  readonly version?: PostgresVersion;
  readonly synchronous: boolean;
  readonly conf?: PostgresConf;
}

const waits = "wait_event = 'SyncRep' and backend_type = 'client backend'";

export class Pair {
  readonly synchronous: boolean;
  /** What clients connect to: always the present primary. */
  readonly front: TcpProxy;
  /** Between the standby and the present primary. */
  readonly replication: TcpProxy;
  readonly #now: { primary: PrivatePostgres };
  #standby: Standby;

  private constructor(
    synchronous: boolean,
    front: TcpProxy,
    replication: TcpProxy,
    now: { primary: PrivatePostgres },
    standby: Standby,
  ) {
    this.synchronous = synchronous;
    this.front = front;
    this.replication = replication;
    this.#now = now;
    this.#standby = standby;
  }

  static async open({ version, synchronous, conf = {} }: PairOptions): Promise<Pair> {
    const primary = await startPostgres({ conf, ...(version !== undefined && { version }) });
    await prepare(primary);
    const now = { primary };
    const to = {
      get port() {
        return now.primary.port;
      },
    };
    const [front, replication] = [await startProxy({ to }), await startProxy({ to, protocol: "bytes" })];
    const standby = await startStandby(primary, { synchronous, through: replication });
    return new Pair(synchronous, front, replication, now, standby);
  }

  get primary(): PrivatePostgres {
    return this.#now.primary;
  }

  get standby(): Standby {
    return this.#standby;
  }

  /** Where clients connect. */
  get url(): string {
    return this.front.url(this.primary.url);
  }

  /** Until of each of these clients a COMMIT waits for the standby. */
  async untilWaiting(names: readonly string[]): Promise<void> {
    const look = `select distinct application_name as name from pg_stat_activity where ${waits}`;
    const waiting = async () => {
      const rows = await this.primary.admin<{ name: string }>(look);
      return names.every((one) => rows.some(({ name }) => name === one));
    };
    const what = `COMMITs of ${names.join(", ")} wait for the standby`;
    // Each look is a connection.
    await until(waiting, { what, timeoutMs: 30_000, intervalMs: 40 });
  }

  /** Ends the waits that are there now; returns how many. */
  async endWaits(how: "cancel" | "terminate"): Promise<number> {
    const end = how === "cancel" ? "pg_cancel_backend" : "pg_terminate_backend";
    return (await this.primary.admin(`select ${end}(pid) from pg_stat_activity where ${waits}`)).length;
  }

  /** The standby becomes the primary; clients that connect from then on reach it. The old one is no longer reached. */
  async failOver(): Promise<PrivatePostgres> {
    const old = this.primary;
    await this.front.cut();
    await this.#standby.promote();
    this.#now.primary = this.#standby;
    await this.front.pass();
    return old;
  }

  /** A new standby in the place of the one that was promoted; the old primary's files are not used again. */
  async renew(old: PrivatePostgres): Promise<void> {
    await old.stop();
    await this.replication.pass();
    this.#standby = await startStandby(this.primary, {
      synchronous: this.synchronous,
      through: this.replication,
    });
  }

  async close(): Promise<void> {
    for (const server of [this.#standby, this.primary]) await server.stop();
    await this.front.close();
    await this.replication.close();
  }
}

/** Latchkey's schema and the tables of the work. */
export async function prepare(server: PrivatePostgres): Promise<void> {
  const pool = new pg.Pool({ connectionString: server.url, max: 1 });
  try {
    await migratePostgres(pool);
    await pool.query(wholeShapes());
    await pool.query(tables);
  } finally {
    await pool.end();
  }
}
