/** Statements on the journal: what a life was begun with, and its steps. Each write locks the record, then its steps. */
import { leaseIsOwned, recordIsOwned } from "./lease-statements.ts";
import { after, commitSettings, exactly, keyIs, onPrimary, type SqlNames, timeOf } from "./sql-parts.ts";
import { template } from "./template.ts";

export function journalStatements(names: SqlNames) {
  return {
    journal: template("journal", journal(names)),
    startCall: template("start_call", startCall(names)),
    endCall: template("end_call", endCall(names)),
    callEnded: template("call_ended", callEnded(names)),
    refence: template("refence", refence(names)),
    callsByKey: template("calls_by_key", callsByKey(names)),
    finishedCalls: template("finished_calls", finishedCalls(names)),
  };
}

/** A step as `stepOf` reads it, from `s`. */
const stepColumns = `
  s.name as step, s.position, s.version, s.kind, s.state as step_state, s.effect, s.generation, s.downstream_key,
  pg_catalog.encode(s.input, 'hex') as step_input, pg_catalog.encode(s.result, 'hex') as result, s.sends,
  ${exactly("s.started_at")} as started_at, ${exactly("s.finished_at")} as finished_at`;

/** One row always, and one per step if there are any. */
function journal({ records, steps, clock }: SqlNames): string {
  return `select ${exactly("t.at")} as now, pg_catalog.pg_is_in_recovery() as standby,
      r.id is not null as present, pg_catalog.encode(r.input, 'hex') as input, r.recovery_point, ${stepColumns}
    from (select ${clock} as at) t
    left join ${records} r on ${keyIs("r")} and r.id = @id::uuid
    left join ${steps} s on s.record_id = r.id
    order by s.position`;
}

/** The owner's record, locked, so that it cannot be taken over before its step is written. */
function own({ records }: SqlNames): string {
  return `own as materialized (
      select r.id from ${records} r where ${keyIs("r")} and ${recordIsOwned} for update)`;
}

/**
 * One of the two SETs that change something always applies to the row as it is now: a repetition that had to wait for
 * its first try has a snapshot from before it.
 */
function startCall(names: SqlNames): string {
  const again =
    "s.kind = 'call' and s.generation = excluded.generation and s.state in ('started', 'not_executed')";
  return `with ${timeOf(names)}, ${own(names)},
    s as (
      insert into ${names.steps} as s (record_id, name, tenant, scope, key, position, version, kind, state, effect,
        generation, downstream_key, input, sends, started_at)
      select own.id, @name::text, @tenant::text, @scope::text, @key::text, @position::int, @version::text, 'call',
        'started', @effect::text, @generation::int, @downstream_key::text, @step_input::bytea, 1, t.at
      from own, t
      on conflict (record_id, name) do update set
        state = case when ${again} then 'started' else s.state end,
        sends = case when ${again} then s.sends + 1 else s.sends end,
        started_at = case when ${again} and s.state = 'not_executed' then excluded.started_at else s.started_at end
      returning s.*)
    select ${stepColumns}, ${exactly("t.at")} as now, ${commitSettings(names)} from s, t`;
}

function endCall(names: SqlNames): string {
  return `with ${timeOf(names)}, ${own(names)},
    s as (
      update ${names.steps} s set state = @state::text, result = @result::bytea,
        finished_at = case when @state::text <> 'not_executed' then t.at end
      from own, t where s.record_id = own.id and s.name = @name::text and s.kind = 'call'
        and s.generation = @generation::int and s.state = 'started'
      returning s.name),
    r as (
      update ${names.records} r set recovery_point = s.name
      from s where ${keyIs("r")} and ${recordIsOwned} and @state::text <> 'not_executed'
      returning 1)
    select 1 as ended, ${commitSettings(names)} from s`;
}

/** Whether a write that found nothing to do repeats one that has been done. */
function callEnded({ records, steps }: SqlNames): string {
  return `select exists (
      select 1 from ${records} r join ${steps} s on s.record_id = r.id
      where ${keyIs("r")} and ${recordIsOwned} and s.name = @name::text and s.kind = 'call'
        and s.generation = @generation::int and s.state = @state::text
        and s.result is not distinct from @result::bytea) as ended`;
}

/**
 * Locks the lease, then the record, and here alone waits for a phase that has already written both. A token that is
 * the new one already comes from an earlier try.
 */
function refence(names: SqlNames): string {
  const renewed = (condition: string, alias: string) =>
    condition.replace(`${alias}.token = @token::uuid`, `${alias}.token in (@token::uuid, @new_token::uuid)`);
  return `with ${timeOf(names)},
    l as (
      update ${names.leases} l set token = @new_token::uuid, locked_until = ${after("t.at", "lease_ms")}
      from t where ${keyIs("l")} and ${renewed(leaseIsOwned, "l")}
      returning 1),
    r as (
      update ${names.records} r set token = @new_token::uuid
      from l where ${keyIs("r")} and ${renewed(recordIsOwned, "r")}
      returning 1)
    select 1 as refenced, ${commitSettings(names)} from r`;
}

/** Calls with the digest of their record's fingerprint. LIMIT 1 keeps the planner on the index. */
function calls({ records }: SqlNames, found: string): string {
  return onPrimary(`select s.tenant, s.scope, s.key, s.record_id::text as record_id, ${stepColumns},
      pg_catalog.encode(life.fingerprint, 'hex') as fingerprint
    from (${found}) s cross join lateral (
      select r.fingerprint from ${records} r
      where r.tenant = s.tenant and r.scope = s.scope and r.key = s.key and r.id = s.record_id limit 1) life
    order by s.finished_at, s.downstream_key`);
}

function callsByKey(names: SqlNames): string {
  return calls(
    names,
    `select * from ${names.steps} where kind = 'call'
      and downstream_key = any (array(select pg_catalog.jsonb_array_elements_text(@keys::text::jsonb)))`,
  );
}

function finishedCalls(names: SqlNames): string {
  const time = (parameter: string) => after("timestamptz 'epoch'", parameter);
  return calls(
    names,
    `select * from ${names.steps} where kind = 'call' and state = 'finished' and effect = @effect::text
      and finished_at >= ${time("from_ms")} and finished_at < ${time("to_ms")}
      and (finished_at, downstream_key)
        > (coalesce(${time("after_ms")}, '-infinity'::timestamptz), coalesce(@after_key::text, ''))
    order by finished_at, downstream_key limit @limit::int`,
  );
}
