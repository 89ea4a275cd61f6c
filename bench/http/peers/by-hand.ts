/**
 * A solution without a library: a table of keys and answers, written in the handler's own transaction; or a `Map`, which is
 * the fastest possible and is lost on every restart. Both treat a repeated body as the same if its JSON is equal.
 */
import { hash } from "node:crypto";
import type pg from "pg";
import { fixedAnswer, type Order, writeOrder } from "../jobs.ts";
import { openPool } from "../services.ts";
import type { ByHand, Job } from "../subject.ts";

export interface KeyedRequest {
  readonly tenant: string | undefined;
  readonly key: string | undefined;
  readonly body: unknown;
}

export interface Answer {
  readonly status: number;
  /** JSON. */
  readonly text: string;
}

type AnswerOnce = (request: KeyedRequest) => Promise<Answer>;

interface Finished extends Answer {
  readonly fingerprint: string;
}

export const byHandSchema = `
  create table by_hand (
    tenant text,
    key text,
    fingerprint text not null,
    status integer,
    text text,
    primary key (tenant, key)
  );
`;

const misuse: Answer = { status: 422, text: '{"title":"The key was used for another request"}' };

export function answerByHand(job: Job, guard: ByHand): AnswerOnce {
  if (guard === "by-hand-memory") return inMap();
  const pool = openPool();
  return job === "order"
    ? (request) => placeOrderOnce(pool, request)
    : (request) => answerOnce(pool, request);
}

function inMap(): AnswerOnce {
  const answers = new Map<string, Finished>();
  return async ({ tenant, key, body }) => {
    const place = `${tenant}\n${key}`;
    const fingerprint = fingerprintOf(body);
    const before = answers.get(place);
    if (before !== undefined) return before.fingerprint === fingerprint ? before : misuse;
    const answer = { fingerprint, status: 201, text: JSON.stringify(fixedAnswer()) };
    answers.set(place, answer);
    return answer;
  };
}

/** Reserves the key, and completes its row: BEGIN, four statements, COMMIT. */
async function placeOrderOnce(pool: pg.Pool, request: KeyedRequest): Promise<Answer> {
  const { tenant, key, body } = request;
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const reserved = await client.query(
      "insert into by_hand (tenant, key, fingerprint) values ($1, $2, $3) on conflict do nothing",
      [tenant, key, fingerprintOf(body)],
    );
    if (reserved.rowCount === 0) {
      const before = await lookUp(client, request);
      await client.query("COMMIT");
      return before ?? misuse;
    }
    const text = JSON.stringify(await writeOrder(client, body as Order));
    await client.query("update by_hand set status = 201, text = $3 where tenant = $1 and key = $2", [
      tenant,
      key,
      text,
    ]);
    await client.query("COMMIT");
    return { status: 201, text };
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

/** Reads first, because the handler writes nothing: a repetition costs one statement. */
async function answerOnce(pool: pg.Pool, request: KeyedRequest): Promise<Answer> {
  const before = await lookUp(pool, request);
  if (before !== null) return before;
  const { tenant, key, body } = request;
  const text = JSON.stringify(fixedAnswer());
  await pool.query("insert into by_hand values ($1, $2, $3, 201, $4)", [
    tenant,
    key,
    fingerprintOf(body),
    text,
  ]);
  return { status: 201, text };
}

async function lookUp(
  client: Pick<pg.ClientBase, "query">,
  { tenant, key, body }: KeyedRequest,
): Promise<Answer | null> {
  const { rows } = await client.query<Finished>(
    "select fingerprint, status, text from by_hand where tenant = $1 and key = $2",
    [tenant, key],
  );
  const [row] = rows;
  if (row === undefined) return null;
  return row.fingerprint === fingerprintOf(body) ? row : misuse;
}

function fingerprintOf(body: unknown): string {
  return hash("sha256", JSON.stringify(body));
}
