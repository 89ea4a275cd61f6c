/** The tables as they are in the end, and what must hold of them whatever has happened. */
import type { Client, QueryResult } from "pg";

export interface RecordRow {
  readonly key: string;
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly token: string;
  readonly answer: string | null;
  readonly fingerprint: string;
  readonly last_error_code: string | null;
  readonly expires_at: number | null;
  readonly forget_at: number | null;
  readonly reconcile_after: number | null;
  readonly recovery_point: string | null;
  /** When the transaction was committed that has written it last: the same for all rows of one COMMIT, and for no others. */
  readonly committed: string;
}

export interface LeaseRow {
  readonly key: string;
  readonly record_id: string;
  readonly attempt: number;
  readonly token: string;
  readonly locked_until: number;
}

export interface StepRow {
  readonly record_id: string;
  readonly name: string;
  readonly state: string;
  readonly generation: number | null;
  readonly sends: number | null;
}

export interface EffectRow {
  readonly id: string;
  readonly key: string;
  readonly record_id: string;
  readonly state: string;
  readonly started: boolean;
  readonly attempt: number;
  readonly token: string | null;
  readonly sends: number;
  readonly returns: number;
  readonly generation: number;
  readonly ended: string | null;
}

export interface BusinessRow {
  readonly key: string;
  readonly life: string;
  readonly by: string;
  /** As that of a record. */
  readonly committed: string;
}

export interface Seen {
  readonly records: readonly RecordRow[];
  readonly leases: readonly LeaseRow[];
  readonly steps: readonly StepRow[];
  readonly effects: readonly EffectRow[];
  readonly business: readonly BusinessRow[];
  readonly audits: readonly { readonly id: string; readonly event: string }[];
  /** Amounts by name. */
  readonly accounts: readonly { readonly name: string; readonly amount: number }[];
}

const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::float8 as ${column}`;
const hex = (column: string) => `encode(${column}, 'hex') as ${column}`;

/** The transaction, whichever of its savepoints a row was written in: those have ids of their own. */
const committed = "pg_catalog.pg_xact_commit_timestamp(xmin)::text as committed";

function queryOf(schema: string): string {
  const token = "replace(token::text, '-', '') as token";
  return [
    `select key, id::text, state, attempt, ${token}, ${hex("answer")}, ${hex("fingerprint")}, last_error_code,
       ${ms("expires_at")}, ${ms("forget_at")}, ${ms("reconcile_after")}, recovery_point, ${committed} from ${schema}.records order by key`,
    `select key, record_id::text, attempt, ${token}, ${ms("locked_until")} from ${schema}.leases order by key`,
    `select record_id::text, name, state, generation, sends from ${schema}.steps order by record_id, name`,
    `select id::text, key, record_id::text, state, started_at is not null as started, attempt, ${token}, sends, returns,
       generation, ended from ${schema}.outbox order by id`,
    `select key, life, by, ${committed} from ${schema}.business order by key, life, by`,
    `select id::text, event from ${schema}.audit order by id`,
    `select name, amount from ${schema}.accounts order by name`,
  ].join(";\n");
}

/** Reads all tables in one step. */
export async function look(observer: Client, schema: string): Promise<Seen> {
  const results = (await observer.query(queryOf(schema))) as unknown as readonly QueryResult[];
  const [records, leases, steps, effects, business, audits, accounts] = results.map(({ rows }) => rows);
  return { records, leases, steps, effects, business, audits, accounts } as unknown as Seen;
}

const tables = ["records", "leases", "steps", "outbox", "audit", "messages", "business"];

export function emptying(schema: string, how: "delete" | "truncate"): string {
  const empty =
    how === "truncate"
      ? `truncate ${tables.map((table) => `${schema}.${table}`).join(", ")}`
      : tables.map((table) => `delete from ${schema}.${table}`).join(";");
  return `${empty}; update ${schema}.accounts set amount = 0 where amount <> 0`;
}

/** What holds in every scenario. */
export function brokenEverywhere(seen: Seen): readonly string[] {
  const { records, leases, steps, effects, business } = seen;
  const broken: string[] = [];
  const once = new Set<string>();
  for (const row of business) {
    const effect = `${row.life} ${row.key}`;
    if (once.has(effect)) broken.push(`I1: the business effect of life ${row.life} is there twice`);
    once.add(effect);
  }
  for (const record of records.filter(({ state }) => state === "in_progress")) {
    const own = leases.some(({ record_id, token }) => record_id === record.id && token === record.token);
    if (!own) broken.push(`L1: attempt ${record.attempt} of ${record.id} is in progress and has no lease`);
  }
  for (const { record_id, name } of steps) {
    if (!records.some(({ id }) => id === record_id)) broken.push(`I10: step ${name} has outlived its record`);
  }
  const lives = new Set(business.map(({ life }) => life.split("/")[0]));
  for (const { id, record_id } of effects) {
    if (!lives.has(record_id))
      broken.push(`I9: effect ${id} is there, and its transaction has not committed`);
  }
  return [...broken, ...brokenEffects(seen)];
}

/** An effect that is not delivered keeps its key from being forgotten; a new life of the key does not. */
function brokenEffects({ effects, records }: Seen): readonly string[] {
  return effects.flatMap(({ id, key, state, record_id }) => {
    const isKept =
      state === "delivered" || records.some((record) => record.id === record_id || record.key === key);
    return isKept ? [] : [`I12: the record of effect ${id}, which is ${state}, is gone`];
  });
}
