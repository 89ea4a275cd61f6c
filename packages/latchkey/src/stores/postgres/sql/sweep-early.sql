with page as materialized (
  select e.record_id, e.audit_id, case when e.tenant = :'tenant'::text
    and (select r.id from latchkey.records r where r.id = e.record_id limit 1) is null then 'over' end as
    status
  from latchkey.early e
  where (e.record_id, e.audit_id) > (:'after_id'::uuid, :'after_audit_id'::uuid)
  order by e.record_id, e.audit_id
  limit :'limit'::int),
done as (
  delete from latchkey.early e
  where e.record_id = any (array(select record_id from page where :'remove'::boolean and status = 'over'))
    and e.tenant = :'tenant'::text
  returning e.record_id)
select '' as after_scope, p.audit_id::text as after_key, p.record_id::text as after_id, p.status,
  p.record_id = any (array(select record_id from done)) as removed
from page p
order by p.record_id, p.audit_id;
