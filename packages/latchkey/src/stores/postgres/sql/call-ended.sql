-- Whether a write that changed nothing repeats an earlier one.
select exists (
  select 1
  from latchkey.records r
  join latchkey.steps s on s.record_id = r.id
  where r.tenant = :'tenant'::text and r.scope = :'scope'::text and r.key = :'key'::text
    and r.id = :'id'::uuid and r.state = 'in_progress' and r.attempt = :'attempt'::int
    and r.token = :'token'::uuid and s.name = :'name'::text and s.kind = 'call'
    and s.generation = :'generation'::int and s.state = :'state'::text and s.result is not distinct from
    :'result'::bytea) as ended;
