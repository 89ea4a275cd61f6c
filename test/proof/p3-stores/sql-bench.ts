/** What the stores over SQL share: a schema of their own, whose clock is a sequence that is set. */
import { wholeShapes } from "../../support/whole-shapes.ts";
import type { Subject } from "./bench.ts";

/** Runs any number of statements, outside of the store. The rows are those of the last one. */
export type RunSql = (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

const tables = ["records", "leases", "steps", "outbox", "audit", "business"];
/** Dead rows are in the way of every statement, so the tables are made anew from time to time. */
const truncateEvery = 100;

interface Queries {
  query(text: string, values: readonly string[]): Promise<unknown>;
}

export class SqlSchema {
  readonly schema: string;
  readonly timeFunction: string;
  readonly #run: RunSql;
  #begun = 0;

  constructor(schema: string, run: RunSql) {
    this.schema = schema;
    this.timeFunction = `${schema}.now_is()`;
    this.#run = run;
  }

  /** After the migrations. A sequence is the same for every snapshot. */
  async prepare(): Promise<void> {
    const { schema } = this;
    await this.#run(wholeShapes(schema));
    await this.#run(`
      create sequence ${schema}.clock;
      create function ${schema}.now_is() returns timestamptz language sql volatile as $$
        select pg_catalog.to_timestamp(pg_catalog.pg_sequence_last_value('${schema}.clock'::regclass) / 1000.0) $$;
      create table ${schema}.business (row text not null, position bigint generated always as identity);`);
  }

  async version(): Promise<string> {
    const [row] = await this.#run("show server_version");
    return String(row?.server_version);
  }

  async empty(nowMs: number): Promise<void> {
    this.#begun += 1;
    const all = tables.map((table) => `${this.schema}.${table}`);
    const isWhole = this.#begun % truncateEvery === 0;
    const emptied = isWhole ? [`truncate ${all.join(", ")}`] : all.map((table) => `delete from ${table}`);
    await this.#run(`${emptied.join("; ")}; ${this.#clockSet(nowMs)}`);
  }

  /** All that a subject has beside its store. */
  get door(): Pick<Subject, "setTime" | "write" | "rows"> {
    const { schema } = this;
    return {
      setTime: async (ms) => {
        await this.#run(this.#clockSet(ms));
      },
      write: async (tx, row) => {
        await (tx as Queries).query(`insert into ${schema}.business (row) values ($1)`, [row]);
      },
      rows: async () => {
        const rows = await this.#run(`select row from ${schema}.business order by position`);
        return rows.map(({ row }) => String(row));
      },
    };
  }

  #clockSet(ms: number): string {
    return `select setval('${this.schema}.clock', ${ms})`;
  }
}
