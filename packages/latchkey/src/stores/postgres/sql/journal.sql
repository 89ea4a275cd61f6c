-- Always one row, and one per step if there are any.
-- A step as `stepOf` reads it, from `s`.
select pg_catalog.encode(pg_catalog.timestamptz_send(t.at), 'hex') as now,
  pg_catalog.pg_is_in_recovery() as standby, r.id is not null as present,
  pg_catalog.encode(r.input, 'hex') as input, r.recovery_point, s.name as step, s.position, s.version, s.kind,
  s.state as step_state, s.effect, s.generation, s.downstream_key,
  pg_catalog.encode(s.input, 'hex') as step_input, pg_catalog.encode(s.result, 'hex') as result, s.sends,
  pg_catalog.encode(pg_catalog.timestamptz_send(s.started_at), 'hex') as started_at,
  pg_catalog.encode(pg_catalog.timestamptz_send(s.finished_at), 'hex') as finished_at
from (select pg_catalog.clock_timestamp() as at) t
left join latchkey.records r on r.tenant = :'tenant'::text and r.scope = :'scope'::text
  and r.key = :'key'::text and r.id = :'id'::uuid
left join latchkey.steps s on s.record_id = r.id
order by s.position;
