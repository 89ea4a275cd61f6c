/** Deferred work on a job queue: the job is added with the service's rows, and writes the answer. */
import pg from "pg";
import type { Asked } from "./queue.ts";

const tables = `
  create table requests (name text primary key, asked_at timestamptz not null default now());
  create table answers (name text primary key, body jsonb not null)`;

export interface Answers {
  prepare(): Promise<void>;
  /** `add` adds the job in the transaction of the request. */
  request(add: (client: pg.PoolClient, asked: Asked) => Promise<unknown>): Promise<string>;
  /** What the job does. */
  answer(asked: Asked): Promise<void>;
  isAnswered(name: string): Promise<boolean>;
  close(): Promise<void>;
}

export function openAnswers(connectionString: string): Answers {
  const pool = new pg.Pool({ connectionString });
  const request = async (
    client: pg.PoolClient,
    add: (client: pg.PoolClient, asked: Asked) => Promise<unknown>,
  ) => {
    const asked = { name: crypto.randomUUID() };
    await client.query("begin");
    await client.query({
      name: "ask",
      text: "insert into requests (name) values ($1)",
      values: [asked.name],
    });
    await add(client, asked);
    await client.query("commit");
    return asked.name;
  };
  return {
    prepare: async () => void (await pool.query(tables)),
    async request(add) {
      const client = await pool.connect();
      try {
        return await request(client, add);
      } finally {
        client.release();
      }
    },
    async answer(asked) {
      const text = "insert into answers (name, body) values ($1, $2)";
      await pool.query({ name: "answer", text, values: [asked.name, asked] });
    },
    async isAnswered(name) {
      const text = "select body from answers where name = $1";
      const { rows } = await pool.query({ name: "read", text, values: [name] });
      return rows.length > 0;
    },
    close: () => pool.end(),
  };
}
