/** Statements about messages. None of them runs inside a business transaction. */
import { after, commitSettings, exactly, onPrimary, type SqlNames, standbys, timeOf } from "./sql-parts.ts";
import { template } from "./template.ts";

export function messageStatements(names: SqlNames) {
  return {
    findMessage: template("find_message", find(names)),
    countMessage: template("count_message", count(names)),
    forgetMessage: template("forget_message", forget(names)),
    buryMessage: template("bury_message", bury(names)),
    condemnMessage: template("condemn_message", condemn(names)),
    messageIsDead: template("message_is_dead", isDead(names)),
    listMessages: template("list_messages", list(names)),
    removeMessage: template("remove_message", remove(names)),
    messageRemoved: template("message_removed", removed(names)),
    cleanMessages: template("clean_messages", clean(names)),
  };
}

const tally = "m.state, m.starts, m.returns, m.failures, m.last_error_code";
const digestIs = "m.digest = pg_catalog.decode(@digest::text, 'hex')";
const facts = `pg_catalog.decode(@digest::text, 'hex'), @id::uuid, @source::text, @operation::text, @tenant::text, @key::text`;
const factColumns = "digest, id, source, operation, tenant, key";
const epoch = "'1970-01-01 00:00:00+00'::timestamptz";

function find({ messages }: SqlNames): string {
  return onPrimary(`select ${tally} from ${messages} m where ${digestIs}`);
}

function count(names: SqlNames): string {
  return `with ${timeOf(names)},
    m as (
      insert into ${names.messages} as m (${factColumns}, state, starts, returns, failures, last_error_code, created_at,
        expires_at)
      select ${facts}, 'watched', @starts::int, @returns::int, @failures::int, @error_code::text, t.at,
        ${after("t.at", "keep_ms")}
      from t
      on conflict (digest) do update set starts = m.starts + excluded.starts, returns = m.returns + excluded.returns,
        failures = m.failures + excluded.failures,
        last_error_code = coalesce(excluded.last_error_code, m.last_error_code),
        expires_at = case when m.state = 'watched' then excluded.expires_at end
      returning m.*)
    select ${tally}, ${commitSettings(names)} from m`;
}

function forget(names: SqlNames): string {
  return `with m as (
      delete from ${names.messages} m where ${digestIs} and m.state = 'watched' returning 1)
    select pg_catalog.count(*)::int as forgotten, ${commitSettings(names)} from m`;
}

function bury(names: SqlNames): string {
  return `with ${timeOf(names)},
    m as (
      insert into ${names.messages} as m (${factColumns}, state, starts, returns, failures, reason, content_type, payload,
        created_at, died_at)
      select ${facts}, 'dead', 0, 0, 0, @reason::text, @content_type::text, @payload::bytea, t.at, t.at
      from t
      on conflict (digest) do update set state = 'dead', id = excluded.id, reason = excluded.reason,
        content_type = excluded.content_type, payload = excluded.payload, died_at = excluded.died_at, expires_at = null
        where m.state = 'watched'
      returning 1)
    select pg_catalog.count(*)::int as buried, ${commitSettings(names)} from m`;
}

/** Only if the tally is unchanged since it was read; a consumer that returned in between did not crash. */
function condemn(names: SqlNames): string {
  return `with ${timeOf(names)},
    m as (
      update ${names.messages} m set state = 'dead', id = @id::uuid, reason = @reason::text,
        content_type = @content_type::text, payload = @payload::bytea, died_at = t.at, expires_at = null
      from t
      where ${digestIs} and m.state = 'watched' and m.starts = @starts::int and m.returns = @returns::int
      returning 1)
    select pg_catalog.count(*)::int as buried, ${commitSettings(names)} from m`;
}

function isDead(names: SqlNames): string {
  return onPrimary(
    `select ${standbys(names)} from ${names.messages} m where ${digestIs} and m.state = 'dead'`,
  );
}

function list({ messages }: SqlNames): string {
  return onPrimary(`select pg_catalog.encode(m.digest, 'hex') as digest, m.id::text as id, m.source, m.operation, m.tenant,
      m.key, m.reason, m.content_type, pg_catalog.encode(m.payload, 'hex') as payload, ${tally},
      ${exactly("m.died_at")} as died_at
    from ${messages} m
    where m.state = 'dead'
      and (m.died_at, m.id) > (
        coalesce(${after(epoch, "after_ms")}, '-infinity'::timestamptz),
        coalesce(@after_id::uuid, '00000000-0000-0000-0000-000000000000'::uuid))
      and (@only_tenant::text is null or m.tenant = @only_tenant::text)
      and (@only_operation::text is null or m.operation = @only_operation::text)
    order by m.died_at, m.id limit @limit::int`);
}

function remove(names: SqlNames): string {
  return `with ${timeOf(names)},
    m as (
      delete from ${names.messages} m where m.id = @id::uuid and m.state = 'dead'
        and not exists (select 1 from ${names.audit} a where a.id = @audit_id::uuid)
      returning m.*),
    note as (
      insert into ${names.audit} (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason)
      select @audit_id::uuid, t.at, coalesce(m.tenant, ''), m.operation, coalesce(m.key, ''), m.id, @event::text, 'dead',
        'none', @actor::text, 'operator', @reason::text
      from m, t
      returning 1)
    select 1 as removed, ${commitSettings(names)} from m`;
}

function removed(names: SqlNames): string {
  return onPrimary(
    `select ${standbys(names)} from ${names.audit} a where a.id = @audit_id::uuid and a.record_id = @id::uuid`,
  );
}

function clean(names: SqlNames): string {
  return `with ${timeOf(names)},
    due as materialized (
      select m.ctid as row_id from ${names.messages} m
      where m.state = 'watched' and m.expires_at <= (select at from t)
      order by m.expires_at limit @limit::int
      for update skip locked),
    done as (
      delete from ${names.messages} m
      where m.ctid = any (array(select row_id from due)) and m.state = 'watched'
      returning 1)
    select pg_catalog.count(*)::int as messages from done`;
}
