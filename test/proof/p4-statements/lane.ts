/** One schema of a server with its sessions: interleavings go through it one after the other. */
import pg from "pg";
import { createLatchkey, type Latchkey } from "../../../packages/latchkey/src/latchkey.ts";
import type { PgClient } from "../../../packages/latchkey/src/sql/pg/client.ts";
import { stateOf } from "../../../packages/latchkey/src/sql/pg/connection-state.ts";
import type { IsolationLevel } from "../../../packages/latchkey/src/sql/transaction.ts";
import { migratePostgres, postgresStore } from "../../../packages/latchkey/src/stores/postgres.ts";
import type { PrivatePostgres } from "../../support/private-postgres.ts";
import { wholeShapes } from "../../support/whole-shapes.ts";
import { Wire } from "./gated-socket.ts";
import { messageInsert, rowInsert } from "./handler-texts.ts";
import type { Rewrite } from "./parts.ts";
import { CountedRandom, ProcessClock, patienceMs } from "./process-ports.ts";
import type { Session, Tx, World } from "./scenario.ts";
import { emptying, look, type Seen } from "./seen.ts";
import { Stage } from "./stage.ts";
import { Tally } from "./tally.ts";

const sessionsMax = 4;
/** Heartbeats keep one, and a handler may use another; the fourth is for what comes after a lost one. */
const connectionsMax = 4;
/** As in `statement-names.ts`. */
const sendsUntilNamed = 5;
const warmUpKey = { tenant: "t", scope: "warm", key: "up" };
/** When the store's clock begins, in every interleaving. */
const beginMs = Date.UTC(2026, 0, 1);
/** Dead rows are in the way of every statement, so the tables are made anew from time to time. */
const truncateEvery = 200;

export interface LaneOptions {
  readonly server: PrivatePostgres;
  /** Part of the schema's name. */
  readonly number: number;
  readonly isolation: IsolationLevel;
  readonly rewrite?: Rewrite;
}

export class Lane {
  readonly schema: string;
  readonly isolation: IsolationLevel;
  readonly stage: Stage;
  readonly sessions: readonly Session[];
  readonly tally = new Tally();
  readonly #observer: pg.Client;
  #played = 0;
  #nowMs = beginMs;
  #counted = 0;

  private constructor(observer: pg.Client, options: LaneOptions) {
    this.#observer = observer;
    this.schema = `lane${options.number}`;
    this.isolation = options.isolation;
    const { rewrite } = options;
    const planted = rewrite && ((kind: string, text: string) => rewrite(kind, text, this.schema));
    this.stage = new Stage(observer, this.tally, planted);
    this.sessions = Array.from({ length: sessionsMax }, (_, index) => this.#session(options, index));
  }

  static async open(options: LaneOptions): Promise<Lane> {
    const { server } = options;
    const observer = new pg.Client({ ...server.connection, host: server.socketDir });
    observer.on("error", () => {});
    await observer.connect();
    const lane = new Lane(observer, options);
    await lane.#prepare(server);
    return lane;
  }

  #session({ server, isolation }: LaneOptions, index: number): Session {
    const clock = new ProcessClock(() => this.#nowMs);
    const { stage } = this;
    const options = {
      ...server.connection,
      host: server.socketDir,
      max: connectionsMax,
      idleTimeoutMillis: 0,
      application_name: `${this.schema} session ${index}`,
      options: `-c default_transaction_isolation=${isolation.replace(" ", "\\ ")}`,
      stream: () => {
        const wire = new Wire(index, stage, () => clock.patience());
        stage.opened(wire);
        return wire.socket;
      },
    };
    const pool = new pg.Pool(options);
    pool.on("error", () => {});
    const store = postgresStore({
      pool,
      schema: this.schema,
      timeFunction: `${this.schema}.now_is()`,
      statementTimeoutMs: patienceMs,
      connectTimeoutMs: patienceMs + 1,
      notify: false,
      ports: { clock },
    });
    return { index, pool, store, clock, random: new CountedRandom(index) };
  }

  async #prepare(server: PrivatePostgres): Promise<void> {
    const { schema } = this;
    const pool = new pg.Pool({ ...server.connection, host: server.socketDir, max: 1 });
    await migratePostgres(pool, { schema });
    await pool.query(wholeShapes(schema));
    await pool.end();
    // A sequence is the same for every snapshot.
    await this.#observer.query(`
      create sequence ${schema}.clock;
      create function ${schema}.now_is() returns timestamptz language sql volatile as $$
        select pg_catalog.to_timestamp(pg_catalog.pg_sequence_last_value('${schema}.clock'::regclass) / 1000.0) $$;
      create table ${schema}.business (key text not null, life text not null, by text not null);
      create table ${schema}.accounts (name text primary key, amount int not null);
      insert into ${schema}.accounts values ('left', 0), ('right', 0);`);
    await this.#setClock(beginMs);
    for (const session of this.sessions) await this.#nameHandlersStatements(session);
  }

  /** The pool remembers for good that a handler's statement has been sent often enough to be sent under a name. */
  async #nameHandlersStatements({ store }: Session): Promise<void> {
    const business = `${this.schema}.business`;
    const request = { key: warmUpKey, isolation: null, idleLimitMs: 1_000, savepoint: false };
    for (let sent = 0; sent < sendsUntilNamed; sent++) {
      await store.transactions?.run(request, async ({ tx }) => {
        await tx.query(rowInsert(business), ["", "", ""]);
        await tx.query(messageInsert(business), ["", ""]);
        return { end: "rollback", value: null };
      });
    }
  }

  /**
   * What statements a call sends also depends on what came before it: on how many idle connections there are, and on whether
   * the isolation level of their sessions is known. So both are the same before each interleaving.
   */
  async #warmUp(): Promise<void> {
    await Promise.all(
      this.sessions.map(async ({ pool, store }) => {
        const clients = await Promise.all(Array.from({ length: connectionsMax }, () => pool.connect()));
        for (const [index, client] of clients.entries()) {
          if (knowsItsIsolation(client)) continue;
          // The look-up gets this connection, because no other is free.
          client.release();
          await store.read(warmUpKey);
          clients[index] = await pool.connect();
        }
        for (const client of clients) client.release();
      }),
    );
  }

  async #setClock(ms: number): Promise<void> {
    this.#nowMs = ms;
    await this.#observer.query("select setval($1::regclass, $2::bigint)", [`${this.schema}.clock`, ms]);
  }

  /** A world for one interleaving, which makes the choices of `pick`. */
  async begin(pick: World["pick"]): Promise<World> {
    this.#played += 1;
    this.#counted = 0;
    this.stage.closed = false;
    await this.#setClock(beginMs);
    await this.#warmUp();
    for (const { clock, random } of this.sessions) {
      clock.leap();
      random.restart();
    }
    const { sessions, isolation, tally, schema } = this;
    return {
      key: { tenant: "t", scope: "op", key: `key-${this.#played}` },
      sessions,
      isolation,
      business: `${schema}.business`,
      tally,
      nowMs: () => this.#nowMs,
      latchkey: (session) => latchkeyOf(session, tally),
      pass: (ms) => this.#setClock(this.#nowMs + ms),
      next: () => {
        this.#counted += 1;
        return this.#counted;
      },
      pick,
    };
  }

  look(): Promise<Seen> {
    return look(this.#observer, this.schema);
  }

  /** Gives back what heartbeats hold, empties the tables, and answers what was left lying about. */
  async end(): Promise<readonly string[]> {
    this.stage.closed = false;
    for (const { store } of this.sessions) await store.close();
    await this.stage.quiet();
    const leaks = this.sessions.flatMap(({ index, pool }) =>
      pool.idleCount === pool.totalCount && pool.waitingCount === 0
        ? []
        : [
            `L5: session ${index} has ${pool.totalCount - pool.idleCount} connections that it gives to nobody`,
          ],
    );
    const open = leaks.length > 0 ? [] : await this.#leftOpen();
    if (open.length === 0 && leaks.length === 0) {
      const how = this.#played % truncateEvery === 0 ? "truncate" : "delete";
      await this.#observer.query(emptying(this.schema, how));
    }
    return [...leaks, ...open];
  }

  /** Sessions of the server that are in a transaction though nobody is at work. */
  async #leftOpen(): Promise<readonly string[]> {
    const pids = this.stage.wires.map(({ pid }) => pid);
    for (let tries = 1; ; tries++) {
      const { rows } = await this.#observer.query<{ pid: number; state: string; name: string }>({
        name: "left_open",
        text: `select pid, state, application_name as name from pg_catalog.pg_stat_activity
          where application_name like $1 and state <> 'idle'
          union all
          select l.pid, 'holds an advisory lock', '' from pg_catalog.pg_locks l
          where l.locktype = 'advisory' and l.pid = any ($2::int[])`,
        values: [`${this.schema} session %`, pids],
      });
      // A backend whose client has gone takes a moment to see it.
      if (rows.length === 0) return [];
      if (tries >= 200) return rows.map(({ name, state }) => `L5: ${name} was left ${state}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async close(): Promise<void> {
    this.stage.closed = false;
    for (const { store, pool } of this.sessions) {
      await store.close();
      await pool.end();
    }
    await this.#observer.end();
  }
}

function knowsItsIsolation(client: pg.PoolClient): boolean {
  const { connection } = client as unknown as PgClient;
  return connection !== undefined && stateOf(connection).isolation !== null;
}

function latchkeyOf({ store, clock, random }: Session, tally: Tally): Latchkey<Tx> {
  return createLatchkey<Tx>({
    store,
    ports: { clock, random },
    logSecret: "p4",
    onEvent: (event) => {
      if (event.type === "transaction_rerun" && event.because === "batch")
        tally.count("shared transaction undone");
      tally.count(
        event.type === "commit_in_doubt"
          ? `COMMIT in doubt, resolved: ${event.resolved}`
          : `event ${event.type}`,
      );
    },
  });
}
