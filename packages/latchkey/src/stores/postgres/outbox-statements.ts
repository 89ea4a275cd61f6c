/**
 * Statements on the outbox. Lists come as JSON. Each write is guarded row by row, so that one row whose guard does not
 * hold leaves the others alone; the statement commits as one.
 */
import { claimIs, effectEndStatements } from "./effect-end-statements.ts";
import {
  after,
  commitSettings,
  commitSettingsOnce,
  exactly,
  onPrimary,
  type SqlNames,
  standbys,
  timeOf,
} from "./sql-parts.ts";
import { template } from "./template.ts";

export function outboxStatements(names: SqlNames) {
  return {
    claimEffects: template("claim_effects", claim(names)),
    dueEffects: template("due_effects", dueEffects(names)),
    claimEffect: template("claim_effect", claimOne(names)),
    startEffects: template("start_effects", start(names)),
    effectsStarted: template("effects_started", started(names)),
    ...effectEndStatements(names),
    rescueEffects: template("rescue_effects", rescue(names, `${notBefore} and ${isNotSpared}`)),
    endedClaims: template("ended_claims", endedClaims(names)),
    rescueEffect: template("rescue_effect", rescue(names, "o.id = @id::uuid")),
    listDead: template("list_dead", list(names, "x.state = 'dead'")),
    listEffects: template(
      "list_effects",
      list(names, "x.state = @state::text and (x.started_at is not null) = @started::boolean"),
    ),
    effectsByKey: template("effects_by_key", byKey(names)),
    finishedEffects: template("finished_effects", finished(names)),
    effectsOfRecord: template("effects_of_record", ofRecord(names)),
    confirmEffect: template("confirm_effect", confirm(names)),
    decideEffect: template("decide_effect", decide(names)),
    effectDecided: template("effect_decided", decided(names)),
    cleanEffects: template("clean_effects", clean(names)),
  };
}

/** An effect as `effectOf` reads it, from `o`. */
const effectColumns = `
  o.id::text as id, o.tenant, o.scope, o.key, o.record_id::text as record_id, o.type as operation,
  pg_catalog.encode(o.fingerprint, 'hex') as fingerprint, o.aggregatetype as effect, o.step, o.index, o.generation,
  o.downstream_key, o.aggregate, o.ordered, pg_catalog.encode(o.payload, 'hex') as input, o.state,
  o.started_at is not null as started, o.attempt, o.token::text as token, o.sends, o.returns,
  pg_catalog.encode(o.result, 'hex') as result, o.last_error_code, ${exactly("o.created_at")} as created_at,
  ${exactly("o.available_at")} as available_at, ${exactly("o.doubtful_since")} as doubtful_since,
  ${exactly("o.finished_at")} as finished_at, o.trace`;

/** Of an ordered aggregate, which is its tenant's own, only the first that is not delivered. */
function isFirst({ outbox }: SqlNames): string {
  return `(not o.ordered or o.position = (
      select x.position from ${outbox} x
      where x.ordered and x.state <> 'delivered' and x.aggregatetype = o.aggregatetype
        and x.tenant = o.tenant and x.aggregateid = o.aggregateid
      order by x.position limit 1))`;
}

const epoch = "timestamptz 'epoch'";
const wants = `pg_catalog.json_to_recordset(@wants::text::json)
  as w(effect text, room int, from_ms float8, after_tenant text, after_aggregate text)`;

/** Rows that this process could not claim are left out for a while, so that they do not block other rows. */
const isNotSpared = `o.id <> all (array(
  select s.id::uuid from pg_catalog.json_array_elements_text(@spared::text::json) s(id)))`;

/** Of each wanted effect those due first. There is no cursor: `from_ms` only says where the index is entered. */
function unordered({ outbox }: SqlNames, lock: string): string {
  return `select o.ctid as row_id, o.id, o.available_at, o.position from ${outbox} o
      where o.state = 'pending' and not o.ordered and o.aggregatetype = w.effect
        and o.available_at <= (select at from t)
        and o.available_at >= coalesce(${epoch} + w.from_ms * interval '1 millisecond', '-infinity'::timestamptz)
        and ${isNotSpared}
      order by o.available_at, o.position limit w.room ${lock}`;
}

/**
 * The first row that is not delivered of each ordered aggregate after `after_…`, one probe of the index for each: what is
 * queued behind it costs nothing, however much it is. Read only as far as there is room.
 */
function heads({ outbox }: SqlNames): string {
  const next = (
    tenant: string,
    aggregate: string,
  ) => `select o.ctid as row_id, o.id, o.tenant, o.aggregateid, o.state,
      o.available_at, o.position
    from ${outbox} o
    where o.ordered and o.state <> 'delivered' and o.aggregatetype = w.effect
      and (o.tenant, o.aggregateid) > (${tenant}, ${aggregate})
    order by o.tenant, o.aggregateid, o.position limit 1`;
  return `heads as (
      select f.* from (${next("coalesce(w.after_tenant, '')", "coalesce(w.after_aggregate, '')")}) f
      union all
      select n.* from heads p cross join lateral (${next("p.tenant", "p.aggregateid")}) n)`;
}

/** An aggregate of which something is under way is left alone: a row that was committed late may lie before it. */
function ordered(names: SqlNames, lock: string): string {
  return `with recursive ${heads(names)}
      select o.ctid as row_id, o.id, o.available_at, o.position
      from (
        select h.id from heads h
        where h.state = 'pending' and h.available_at <= (select at from t) and not exists (
          select 1 from held x
          where x.aggregatetype = w.effect and x.tenant = h.tenant and x.aggregateid = h.aggregateid)
        limit w.room) e
      join ${names.outbox} o on o.id = e.id
      where o.state = 'pending' and ${isNotSpared} ${lock}`;
}

function due(names: SqlNames, lock: "" | "for update of o skip locked"): string {
  return `select d.* from ${wants} cross join lateral (
      select * from (${unordered(names, lock)}) u
      union all
      select * from (${ordered(names, lock)}) q
      limit w.room) d`;
}

/** Ordered aggregates of which something is claimed. The last condition always holds, and names the index of the few. */
function held({ outbox }: SqlNames): string {
  return `held as materialized (
      select o.aggregatetype, o.tenant, o.aggregateid from ${outbox} o
      where o.state = 'claimed' and o.ordered and o.claimed_at <= (select at from t))`;
}

/** The claim is the start, too: what that changes is what `start` does. */
const isStarted = `(o.doubtful_since is null and o.result is null and o.aggregatetype = any (array(
  select s.effect from pg_catalog.json_array_elements_text(@starting::text::json) s(effect))))`;

function take({ outbox }: SqlNames, which: string): string {
  return `update ${outbox} o set state = 'claimed', attempt = o.attempt + 1, token = @token::uuid,
      claimed_at = t.at, locked_until = ${after("t.at", "lease_ms")}, ended = null,
      started_at = case when ${isStarted} then t.at end, sends = o.sends + ${isStarted}::int,
      doubtful_since = case when ${isStarted} then t.at else o.doubtful_since end
    from t where ${which} and o.state = 'pending'
    returning o.*`;
}

function claim(names: SqlNames): string {
  return `with ${timeOf(names)},
    ${held(names)},
    due as materialized (${due(names, "for update of o skip locked")}),
    o as (${take(names, "o.ctid = any (array(select row_id from due))")})
    select ${effectColumns}, ${commitSettingsOnce(names)} from o order by o.available_at, o.position`;
}

/** What `claimEffects` would take, without touching what may be wrong with a row. */
function dueEffects(names: SqlNames): string {
  return onPrimary(
    `with ${timeOf(names)}, ${held(names)} select d.id::text as id from (${due(names, "")}) d`,
  );
}

function claimOne(names: SqlNames): string {
  return `with ${timeOf(names)},
    due as materialized (
      select o.ctid as row_id from ${names.outbox} o
      where o.id = @id::uuid and o.state = 'pending' and o.available_at <= (select at from t) and ${isFirst(names)}
      for update skip locked),
    o as (${take(names, "o.ctid = any (array(select row_id from due))")})
    select ${effectColumns}, ${commitSettings(names)} from o`;
}

const claims = "pg_catalog.jsonb_to_recordset(@claims::text::jsonb) as c(id uuid, attempt int, token uuid)";
/** A claim is started once: a second request repeats a call whose reply was lost. */
function start(names: SqlNames): string {
  return `with ${timeOf(names)},
    o as (
      update ${names.outbox} o set started_at = t.at, sends = o.sends + 1,
        doubtful_since = coalesce(o.doubtful_since, t.at), locked_until = ${after("t.at", "lease_ms")}
      from ${claims}, t
      where ${claimIs} and o.locked_until > t.at and o.started_at is null
      returning o.id)
    select o.id::text as id, ${commitSettingsOnce(names)} from o`;
}

function started(names: SqlNames): string {
  const { outbox, clock } = names;
  return onPrimary(`select o.id::text as id, ${standbys(names)} from ${claims} join ${outbox} o on ${claimIs}
    where o.started_at is not null and o.locked_until > (select ${clock})`);
}

const notBefore = `o.claimed_at >= coalesce(${after(epoch, "from_ms")}, '-infinity'::timestamptz)`;
const isOver = (time: string) => `o.state = 'claimed' and o.locked_until <= ${time}`;

/** Also says when the oldest claim was made, so that the next rescue need not look before it. */
function rescue(names: SqlNames, which: string): string {
  return `with ${timeOf(names)},
    due as materialized (
      select o.ctid as row_id, o.id, o.started_at is not null as started from ${names.outbox} o
      where ${which} and ${isOver("(select at from t)")}
      order by o.claimed_at limit @limit::int
      for update skip locked),
    done as (
      update ${names.outbox} o set state = 'pending', claimed_at = null, locked_until = null, started_at = null,
        available_at = case when o.started_at is null then o.available_at else t.at end
      from t where o.ctid = any (array(select row_id from due)) and ${isOver("t.at")}
      returning o.id)
    select (pg_catalog.count(*) filter (where not due.started))::int as unstarted,
      (pg_catalog.count(*) filter (where due.started))::int as started,
      (select ${exactly("coalesce(pg_catalog.min(oldest.claimed_at), pg_catalog.min(t.at))")}
        from t left join lateral (
          select o.claimed_at from ${names.outbox} o where o.state = 'claimed' and ${notBefore}
          order by o.claimed_at limit 1) oldest on true) as oldest,
      ${commitSettings(names)}
    from due join done on done.id = due.id`;
}

/** What `rescueEffects` would free. */
function endedClaims(names: SqlNames): string {
  return onPrimary(`with ${timeOf(names)}
    select o.id::text as id from ${names.outbox} o
    where ${notBefore} and ${isNotSpared} and ${isOver("(select at from t)")}
    order by o.claimed_at limit @limit::int`);
}

/** Only what is dead has an index in this order: a list of another state reads the whole table. */
function list({ outbox }: SqlNames, which: string): string {
  return onPrimary(`select ${effectColumns} from ${outbox} o
    join (
      select x.id from ${outbox} x
      where ${which}
        and (x.created_at, x.id) > (
          coalesce(${after(epoch, "after_ms")}, '-infinity'::timestamptz),
          coalesce(@after_id::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
        and (@only_tenant::text is null or x.tenant = @only_tenant::text)
        and (@only_effect::text is null or x.aggregatetype = @only_effect::text)
      order by x.created_at, x.id limit @limit::int) page on page.id = o.id
    order by o.created_at, o.id`);
}

function finished({ outbox }: SqlNames): string {
  const time = (parameter: string) => after(epoch, parameter);
  return onPrimary(`select ${effectColumns} from ${outbox} o
    where o.state = 'delivered' and o.aggregatetype = @effect::text
      and o.finished_at >= ${time("from_ms")} and o.finished_at < ${time("to_ms")}
      and (o.finished_at, o.downstream_key)
        > (coalesce(${time("after_ms")}, '-infinity'::timestamptz), coalesce(@after_key::text, ''))
    order by o.finished_at, o.downstream_key limit @limit::int`);
}

function byKey({ outbox }: SqlNames): string {
  return onPrimary(`select ${effectColumns} from ${outbox} o
    join pg_catalog.json_to_recordset(@keys::text::json) as w(record_id uuid, downstream_key text)
      on o.record_id = w.record_id and o.downstream_key = w.downstream_key`);
}

function ofRecord({ outbox }: SqlNames): string {
  return onPrimary(
    `select ${effectColumns} from ${outbox} o where o.record_id = @record_id::uuid order by o.position`,
  );
}

function decide(names: SqlNames): string {
  const redriven = (value: string, otherwise: string) =>
    `case when @event::text = 'redrive' then ${value} else ${otherwise} end`;
  return `with ${timeOf(names)},
    o as (
      update ${names.outbox} o set state = ${redriven("'pending'", "'delivered'")},
        available_at = ${redriven("t.at", "o.available_at")}, sends = ${redriven("0", "o.sends")},
        returns = ${redriven("0", "o.returns")},
        doubtful_since = case when not @cleared::boolean then o.doubtful_since end,
        finished_at = ${redriven("null", "t.at")},
        expires_at = ${redriven("null", after("t.at", "keep_ms"))}
      from t where o.id = @id::uuid and o.state = 'dead' and ${isNamedDeath(names)}
        and not exists (select 1 from ${names.audit} a where a.id = @audit_id::uuid)
      returning o.*),
    note as (
      insert into ${names.audit} (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason,
        effect_id)
      select @audit_id::uuid, t.at, o.tenant, o.scope, o.key, o.record_id, @event::text, 'dead', o.state, @actor::text,
        'operator', @reason::text, o.id
      from o, t
      returning 1)
    select 1 as decided, ${commitSettings(names)} from o`;
}

/** Without an attempt it is the first death: nothing has been made of one before. */
function isNamedDeath(names: SqlNames): string {
  return `case when @attempt::int is not null then o.attempt = @attempt::int else not exists (
          select 1 from ${names.audit} d
          where d.tenant = o.tenant and d.scope = o.scope and d.key = o.key
            and d.effect_id = o.id and d.from_state = 'dead') end`;
}

/** What is being sent goes on under its claim: a send that came back is counted here, since its own end finds a result. */
function confirm(names: SqlNames): string {
  const claims = (column: string) => `case when o.started_at is not null then o.${column} end`;
  const counted = (column: string) => `case when o.state = 'dead' then 0 else o.${column} end`;
  return `with ${timeOf(names)},
    was as materialized (
      select o.id, case when o.started_at is not null then 'started' else o.state end as state from ${names.outbox} o
      where o.id = @id::uuid and o.generation = @generation::int and o.state <> 'delivered' and o.result is null
        and not exists (select 1 from ${names.audit} a where a.id = @audit_id::uuid)
      for update),
    o as (
      update ${names.outbox} o set result = pg_catalog.decode(@result::text, 'hex'),
        state = case when o.started_at is not null then o.state else 'pending' end,
        available_at = case when o.started_at is not null then o.available_at else t.at end,
        claimed_at = ${claims("claimed_at")}, locked_until = ${claims("locked_until")},
        sends = ${counted("sends")}, returns = ${counted("returns")} + (o.started_at is not null)::int,
        finished_at = null
      from was, t where o.id = was.id
      returning o.*),
    note as (
      insert into ${names.audit} (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason,
        effect_id)
      select @audit_id::uuid, t.at, o.tenant, o.scope, o.key, o.record_id, 'confirm', was.state,
        case when o.started_at is not null then 'started' else o.state end, @actor::text, @proof::text, @reason::text, o.id
      from o, was, t
      returning 1)
    select 1 as confirmed, ${commitSettings(names)} from o`;
}

function decided(names: SqlNames): string {
  return onPrimary(
    `select ${standbys(names)} from ${names.audit} a where a.id = @audit_id::uuid and a.effect_id = @id::uuid`,
  );
}

function clean(names: SqlNames): string {
  return `with ${timeOf(names)},
    due as materialized (
      select o.ctid as row_id from ${names.outbox} o
      where o.state = 'delivered' and o.expires_at <= (select at from t)
      order by o.expires_at limit @limit::int
      for update skip locked),
    done as (
      delete from ${names.outbox} o
      where o.ctid = any (array(select row_id from due)) and o.state = 'delivered'
      returning 1)
    select pg_catalog.count(*)::int as effects from done`;
}
