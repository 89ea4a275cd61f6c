-- Calls with the digest of their record's fingerprint. LIMIT 1 keeps the planner on the index.
-- A step as `stepOf` reads it, from `s`.
select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select s.tenant, s.scope, s.key, s.record_id::text as record_id, s.name as step,
    s.position, s.version, s.kind, s.state as step_state, s.effect, s.generation, s.downstream_key,
    pg_catalog.encode(s.input, 'hex') as step_input, pg_catalog.encode(s.result, 'hex') as result, s.sends,
    pg_catalog.encode(pg_catalog.timestamptz_send(s.started_at), 'hex') as started_at,
    pg_catalog.encode(pg_catalog.timestamptz_send(s.finished_at), 'hex') as finished_at,
    pg_catalog.encode(life.fingerprint, 'hex') as fingerprint
  from (select *
    from latchkey.steps
    where kind = 'call'
      and downstream_key = any (array(select pg_catalog.jsonb_array_elements_text(:'keys'::text::jsonb)))) s
  cross join lateral (
    select r.fingerprint
    from latchkey.records r
    where r.tenant = s.tenant and r.scope = s.scope and r.key = s.key and r.id = s.record_id
    limit 1) life
  order by s.finished_at, s.downstream_key) x on true;
