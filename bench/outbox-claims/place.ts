/** A database in which one design is measured. */
import { randomUUID } from "node:crypto";
import { migratePostgres } from "latchkey/postgres";
import pg from "pg";
import { statement } from "../../packages/latchkey/src/stores/postgres/statements/statement.ts";
import type { StatementTemplate } from "../../packages/latchkey/src/stores/postgres/statements/template.ts";
import { type Design, type DesignName, designs } from "./designs.ts";

const keepMs = 24 * 60 * 60 * 1000;
const leaseMs = 30_000;
const resultHex = Buffer.from("null").toString("hex");

const names = {
  records: "latchkey.records",
  leases: "latchkey.leases",
  steps: "latchkey.steps",
  outbox: "latchkey.outbox",
  messages: "latchkey.messages",
  audit: "latchkey.audit",
  early: "latchkey.early",
  facts: "latchkey.facts",
  settings: "latchkey.settings",
  clock: "pg_catalog.clock_timestamp()",
  synced: true,
  serverLimits: true,
};

const fill = `
  insert into latchkey.outbox (id, aggregatetype, aggregateid, type, payload, tenant, scope, key, record_id, fingerprint,
    step, index, downstream_key, ordered, available_at, created_at)
  select (lpad(to_hex(n), 12, '0') || '7000' || left(md5(n::text), 16))::uuid, 'bench', md5(n::text), 'bench.add',
    convert_to('{"addedAtMs":123456789.123}', 'UTF8'), 'bench', '', 'key-' || n / 100,
    (lpad(to_hex(n / 100), 12, '0') || '7000' || left(md5((n / 100)::text), 16))::uuid, sha256(n::text::bytea), '', n % 100,
    md5(n::text), false, clock_timestamp(), clock_timestamp()
  from generate_series(1, $1::int) n`;

export interface ClaimedRow {
  readonly id: string;
  readonly attempt: number;
  readonly token: string;
  readonly available_at: string;
}

export class Place {
  readonly #url: string;
  readonly #client: pg.Client;
  readonly #design: Design;
  readonly #claim: StatementTemplate;
  readonly #end: StatementTemplate;

  private constructor(url: string, client: pg.Client, design: Design) {
    this.#url = url;
    this.#client = client;
    this.#design = design;
    this.#claim = statement("claim", design.claim, names);
    this.#end = statement("end", design.end, names);
  }

  /** @param url of a server in which databases may be created */
  static async open(url: string, name: DesignName): Promise<Place> {
    const database = `claims_${randomUUID().replaceAll("-", "")}`;
    const admin = await connect(url);
    await admin.query(`create database ${database}`);
    await admin.end();
    const own = Object.assign(new URL(url), { pathname: `/${database}` }).href;
    const pool = new pg.Pool({ connectionString: own });
    await migratePostgres(pool);
    await pool.end();
    const client = await connect(own);
    await client.query(designs[name].alter);
    return new Place(own, client, designs[name]);
  }

  async fill(count: number): Promise<void> {
    await this.#client.query("truncate latchkey.outbox");
    await this.#client.query(this.#design.empty);
    await this.#client.query(fill, [count]);
    await this.#client.query("vacuum analyze latchkey.outbox");
    await this.#client.query("checkpoint");
  }

  /** @param fromMs where the index is entered, as the store does; null: at the front */
  async claim(limit: number, fromMs: number | null): Promise<readonly ClaimedRow[]> {
    const want = { effect: "bench", room: limit, from_ms: fromMs, after_tenant: null, after_aggregate: null };
    const { name, text, values } = this.#claim.bind({
      wants: JSON.stringify([want]),
      quarantined: "[]",
      starting: '["bench"]',
      token: randomUUID(),
      lease_ms: leaseMs,
    });
    return (await this.#client.query<ClaimedRow>({ name, text, values: [...values] })).rows;
  }

  /** @throws {Error} when one of the claims did not hold */
  async end(rows: readonly ClaimedRow[]): Promise<void> {
    const list = (items: readonly unknown[]) => `{${items.join()}}`;
    const { name, text, values } = this.#end.bind({
      ids: list(rows.map(({ id }) => id)),
      attempts: list(rows.map(({ attempt }) => attempt)),
      tokens: list(rows.map(({ token }) => token)),
      results: list(rows.map(() => `=${resultHex}`)),
      keeps_ms: list(rows.map(() => keepMs)),
    });
    const { rows: ended } = await this.#client.query({ name, text, values: [...values] });
    if (ended.length !== rows.length) throw new Error(`${ended.length} effects ended of ${rows.length}`);
  }

  /** @throws {Error} when the effects are not as they must be after all have ended */
  async check(count: number): Promise<void> {
    const { rows } = await this.#client.query<{ state: string; count: number }>(
      "select state, count(*)::int as count from latchkey.outbox group by state",
    );
    const expected = this.#design.removes ? [] : [{ state: "delivered", count }];
    if (JSON.stringify(rows) !== JSON.stringify(expected))
      throw new Error(`The effects are ${JSON.stringify(rows)}`);
  }

  /** Keeps dead rows from being removed until the returned function is called. */
  async holdSnapshot(): Promise<() => Promise<void>> {
    const client = await connect(this.#url);
    await client.query("begin isolation level repeatable read");
    await client.query("select pg_current_xact_id()");
    return () => client.end();
  }

  /**
   * How many effects two claims get that overlap: the statement of one has its snapshot, and reads the table only when the
   * other has committed.
   */
  async claimedTwice(limit: number): Promise<number> {
    const slow = await connect(this.#url);
    const waits = replaceOnce(
      this.#claim.text,
      "clock_timestamp() as at)",
      "clock_timestamp() as at from wait)",
    );
    const { values } = this.#claim.bind({
      wants: JSON.stringify([{ effect: "bench", room: limit, from_ms: null }]),
      quarantined: "[]",
      starting: '["bench"]',
      token: randomUUID(),
      lease_ms: leaseMs,
    });
    const text = replaceOnce(waits, "with t as", "with wait as materialized (select pg_sleep(1)), t as");
    const late = slow.query<ClaimedRow>({ text, values: [...values] });
    await this.#sleeping();
    const first = new Set((await this.claim(limit, null)).map(({ id }) => id));
    const both = (await late).rows.filter(({ id }) => first.has(id));
    await slow.end();
    return both.length;
  }

  async #sleeping(): Promise<void> {
    for (let found = 0; found === 0; ) {
      const { rows } = await this.#client.query(
        "select 1 from pg_stat_activity where wait_event = 'PgSleep'",
      );
      found = rows.length;
    }
  }

  async close(): Promise<void> {
    await this.#client.end();
  }
}

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  return client;
}

/** @throws {TypeError} when it is not there */
function replaceOnce(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new TypeError(`The statement has no part ${JSON.stringify(from)}`);
  return text.replace(from, () => to);
}

const serverEpochMs = 946_684_800_000;

/** The latest time at which one of the rows became due, rounded down. */
export function latestMs(rows: readonly ClaimedRow[]): number {
  const times = rows.map(({ available_at: hex }) => Number(BigInt(`0x${hex}`) / 1000n));
  return serverEpochMs + Math.max(...times);
}
