with page as materialized (
  select a.scope, a.key, a.id, case when a.event <> 'delete_tenant' then 'over' end as status
  from latchkey.audit a
  where a.tenant = :'tenant'::text
    and (a.scope, a.key, a.id) > (:'after_scope'::text, :'after_key'::text, :'after_id'::uuid)
  order by a.scope, a.key, a.id
  limit :'limit'::int),
done as (
  delete from latchkey.audit a
  where a.id = any (array(select id from page where :'remove'::boolean and status = 'over'))
  returning a.id)
select p.scope as after_scope, p.key as after_key, p.id::text as after_id, p.status,
  p.id = any (array(select id from done)) as removed
from page p
order by p.scope, p.key, p.id;
