/**
 * Those who watch and belong to nobody: business tables without a constraint, triggers that write down what becomes of each
 * record and step, and a clock that can be moved on. All of it lies beside Latchkey's schema.
 */
import type pg from "pg";

export const observersSql = `
create table public.placed (name text);
create table public.settled (name text);
create table public.noted (name text);

-- A sequence is in no transaction, so that nobody waits for it, and nobody is refused because of it.
create sequence public.proof_offset minvalue 0 start 0;
create function public.proof_clock() returns timestamptz language sql volatile as
  'select pg_catalog.clock_timestamp() + (select last_value from public.proof_offset) * interval ''1 millisecond''';

create table public.seen_records (
  at bigint generated always as identity, key text, record_id uuid, was text, now text, was_attempt int, now_attempt int,
  now_point text
);
create function public.see_record() returns trigger language plpgsql as $$
begin
  insert into public.seen_records (key, record_id, was, now, was_attempt, now_attempt, now_point) values (
    coalesce(new.key, old.key), coalesce(new.id, old.id), coalesce(old.state, 'none'), coalesce(new.state, 'none'),
    old.attempt, new.attempt, new.recovery_point);
  return null;
end $$;
create trigger see_records after insert or update or delete on latchkey.records
  for each row execute function public.see_record();

create table public.seen_steps (key text, record_id uuid, name text, did text);
create function public.see_step() returns trigger language plpgsql as $$
begin
  insert into public.seen_steps (key, record_id, name, did) values (old.key, old.record_id, old.name, lower(tg_op));
  return null;
end $$;
create trigger see_step_changes after update on latchkey.steps for each row
  when (old.state in ('finished', 'refused') and old is distinct from new) execute function public.see_step();
create trigger see_step_ends after delete on latchkey.steps for each row
  when (old.state in ('finished', 'refused')) execute function public.see_step();
`;

export interface SeenRecord {
  readonly recordId: string;
  readonly was: string;
  readonly now: string;
  readonly wasAttempt: number | null;
  readonly nowAttempt: number | null;
  readonly point: string | null;
}

export interface SeenStep {
  readonly name: string;
  readonly state: string;
  readonly sends: number | null;
}

export interface SeenEffect {
  readonly id: string;
  readonly effect: string;
  /** What the other side knows it by. */
  readonly name: string;
  readonly state: string;
  /** A send may have happened of which nobody knows. */
  readonly doubtful: boolean;
  readonly attempt: number;
  readonly sends: number;
  readonly errorCode: string | null;
  readonly hasResult: boolean;
  readonly reopened: boolean;
}

/** Everything that is kept of one key, read by SQL of our own. */
export interface Seen {
  readonly record: {
    readonly id: string;
    readonly state: string;
    readonly attempt: number;
    readonly errorCode: string | null;
    readonly waitsForPerson: boolean;
  } | null;
  readonly steps: readonly SeenStep[];
  readonly effects: readonly SeenEffect[];
  readonly placed: number;
  readonly settled: number;
  readonly noted: readonly string[];
  readonly history: readonly SeenRecord[];
  readonly stepChanges: readonly { readonly name: string; readonly did: string }[];
  readonly audit: readonly { readonly from: string; readonly to: string; readonly proof: string }[];
}

const seenSql = `select json_build_object(
  'record', (select json_build_object('id', id, 'state', state, 'attempt', attempt, 'errorCode', last_error_code,
      'waitsForPerson', state = 'unknown' and reconcile_after is null)
    from latchkey.records where key = $1),
  'steps', (select coalesce(json_agg(json_build_object('name', name, 'state', state, 'sends', sends) order by position), '[]')
    from latchkey.steps where key = $1),
  'effects', (select coalesce(json_agg(json_build_object('id', id, 'effect', aggregatetype,
      'name', convert_from(payload, 'UTF8')::json ->> 'name', 'state', state, 'doubtful', doubtful_since is not null,
      'attempt', attempt, 'sends', sends, 'errorCode', last_error_code, 'hasResult', result is not null, 'reopened', generation > 0)
      order by position), '[]')
    from latchkey.outbox where starts_with(convert_from(payload, 'UTF8')::json ->> 'name', $1 || ', ')),
  'placed', (select count(*) from placed where name = $1),
  'settled', (select count(*) from settled where name = $1),
  'noted', (select coalesce(json_agg(name), '[]') from noted where starts_with(name, $1 || ', ')),
  'history', (select coalesce(json_agg(json_build_object('recordId', record_id, 'was', was, 'now', now,
      'wasAttempt', was_attempt, 'nowAttempt', now_attempt, 'point', now_point) order by at), '[]')
    from seen_records where key = $1),
  'stepChanges', (select coalesce(json_agg(json_build_object('name', name, 'did', did)), '[]')
    from seen_steps where key = $1),
  'audit', (select coalesce(json_agg(json_build_object('from', from_state, 'to', to_state, 'proof', proof) order by at), '[]')
    from latchkey.audit where key = $1)) as seen`;

export async function see(pool: pg.Pool, key: string): Promise<Seen> {
  const { rows } = await pool.query<{ seen: Seen }>({ name: "see", text: seenSql, values: [key] });
  const [row] = rows;
  if (row === undefined) throw new Error("one row always");
  return row.seen;
}

/**
 * What others than a client will do something about, of all keys: two equal texts say that nothing has moved. What is
 * `retryable` without a time waits for the next request.
 */
export interface Unfinished {
  readonly text: string;
  readonly isQuiet: boolean;
}

const unfinishedSql = `select coalesce(json_agg(row), '[]')::text as text from (
  select key, state, attempt, reconcile_tries as tries, last_error_code as code, null::int as sends
    from latchkey.records
    where state in ('pending', 'in_progress')
      or (state in ('retryable', 'unknown') and reconcile_after is not null)
  union all
  select key, state, attempt, generation, last_error_code, sends from latchkey.outbox
    where state in ('pending', 'claimed')
  order by 1, 2, 3) row`;

export async function unfinishedOf(pool: pg.Pool): Promise<Unfinished> {
  const { rows } = await pool.query<{ text: string }>({ name: "unrest", text: unfinishedSql });
  const text = rows[0]?.text ?? "";
  return { text, isQuiet: text === "[]" };
}

/** Sessions of a process, and whether one of them has a transaction open. */
export async function sessionsOf(
  pool: pg.Pool,
  name: string,
): Promise<{ readonly count: number; readonly open: boolean }> {
  const { rows } = await pool.query<{ count: number; open: boolean }>({
    name: "sessions",
    text: `select count(*)::int as count, coalesce(bool_or(xact_start is not null), false) as open
      from pg_stat_activity where application_name = $1`,
    values: [name],
  });
  return rows[0] ?? { count: 0, open: false };
}
