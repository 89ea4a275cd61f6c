with t as materialized (select pg_catalog.clock_timestamp() as at)
insert into latchkey.audit
  (id, at, tenant, scope, key, record_id, event, from_state, to_state, actor, proof, reason, effect_id)
select :'audit_id'::uuid, t.at, :'tenant'::text, '', '', :'audit_id'::uuid, 'delete_tenant', 'none', 'none',
  :'actor'::text, 'operator', :'reason'::text, null::uuid
from t
on conflict (id) do nothing;
