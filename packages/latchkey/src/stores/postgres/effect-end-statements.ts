/**
 * Statements that end claims on effects. Each write is guarded row by row, so that one row whose guard does not hold leaves
 * the others alone; the statement commits as one.
 */
import { commitSettingsOnce, onPrimary, type SqlNames, standbys, timeOf } from "./sql-parts.ts";
import { template } from "./template.ts";

export function effectEndStatements(names: SqlNames) {
  return {
    deliverEffects: template("deliver_effects", deliver(names)),
    endEffects: template("end_effects", end(names)),
    effectsEnded: template("effects_ended", ended(names)),
  };
}

/**
 * The column `claimed_at` says what `state = 'claimed'` would, but keeps the planner on the primary key: the index of
 * claimed rows may be full of dead ones.
 */
export const claimIs = "o.id = c.id and o.attempt = c.attempt and o.token = c.token";

const ends = `pg_catalog.jsonb_to_recordset(@ends::text::jsonb) as c(id uuid, attempt int, token uuid, event text,
  result text, keep_ms float8, error_code text, after_ms float8, doubtful boolean, returned boolean,
  downstream_key text, unsent boolean)`;
const stateAfter =
  "case c.event when 'keep_result' then 'claimed' when 'deliver' then 'delivered' when 'die' then 'dead' else 'pending' end";

/** It was started under this claim, and nothing was sent. A start leaves a doubt that is there as it is. */
const isTakenBack = "(c.unsent is true and o.started_at is not null)";

/**
 * A send is counted as returned once: a result that is there was counted when it was kept. The state that this writes
 * leaves the columns of a claim only to `keep_result`.
 */
function end(names: SqlNames): string {
  const later = (column: string) => `case when c.event = 'keep_result' then o.${column} end`;
  const fromNow = (column: string) => `t.at + c.${column} * interval '1 millisecond'`;
  return `with ${timeOf(names)},
    o as (
      update ${names.outbox} o set state = ${stateAfter},
        ended = case when c.event <> 'keep_result' then c.event end,
        claimed_at = ${later("claimed_at")}, locked_until = ${later("locked_until")},
        started_at = ${later("started_at")},
        result = coalesce(pg_catalog.decode(c.result, 'hex'), o.result),
        returns = case when o.result is null and o.started_at is not null and c.unsent is not true
          and (c.returned or c.event in ('deliver', 'keep_result')) then o.returns + 1 else o.returns end,
        available_at = case c.event when 'retry' then ${fromNow("after_ms")} when 'reopen' then t.at
          else o.available_at end,
        sends = o.sends - ${isTakenBack}::int,
        doubtful_since = case when c.event = 'reopen' or (${isTakenBack} and c.doubtful is not true) then null
          when c.event = 'retry' then case when c.doubtful then coalesce(o.doubtful_since, t.at) end
          else o.doubtful_since end,
        generation = o.generation + (c.event = 'reopen')::int,
        downstream_key = coalesce(c.downstream_key, o.downstream_key),
        last_error_code = coalesce(c.error_code, o.last_error_code),
        finished_at = case when c.event in ('deliver', 'die') then t.at end,
        expires_at = case when c.event = 'deliver' then ${fromNow("keep_ms")} end
      from ${ends}, t
      where ${claimIs} and o.claimed_at is not null and (c.event <> 'give_back' or c.unsent or o.started_at is null)
      returning o.id)
    select o.id::text as id, ${commitSettingsOnce(names)} from o`;
}

const delivered = `unnest(@ids::text::uuid[], @attempts::text::int[], @tokens::text::uuid[], @results::text::text[],
  @keeps_ms::text::float8[]) as c(id, attempt, token, result, keep_ms)`;

/** What `end` does with most of what it gets, for a third less: lists of one kind of value, and nothing to choose. */
function deliver(names: SqlNames): string {
  return `with ${timeOf(names)},
    o as (
      update ${names.outbox} o set state = 'delivered', ended = 'deliver', claimed_at = null, locked_until = null,
        started_at = null, result = coalesce(pg_catalog.decode(c.result, 'hex'), o.result),
        returns = o.returns + (o.result is null and o.started_at is not null)::int,
        finished_at = t.at, expires_at = t.at + c.keep_ms * interval '1 millisecond'
      from ${delivered}, t
      where ${claimIs} and o.claimed_at is not null
      returning o.id)
    select o.id::text as id, ${commitSettingsOnce(names)} from o`;
}

/** Which ends that found nothing to do repeat one that has been done. */
function ended(names: SqlNames): string {
  return onPrimary(`select o.id::text as id, ${standbys(names)} from ${ends} join ${names.outbox} o on ${claimIs}
    where o.ended = c.event`);
}
