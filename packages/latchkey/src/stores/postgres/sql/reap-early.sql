-- Early settlements of lives that are over. They block nothing, so they are kept for a minute.
-- LIMIT 1 keeps the planner from reading all records.
with t as materialized (select pg_catalog.clock_timestamp() as at),
due as materialized (
  select e.record_id, e.audit_id
  from latchkey.early e
  where e.kept_at <= (select at from t) - interval '1 minute'
    and (
      select r.id
      from latchkey.records r
      where r.tenant = e.tenant and r.scope = e.scope and r.key = e.key and r.id = e.record_id
        and r.state in ('in_progress', 'retryable', 'unknown')
      limit 1) is null
  order by e.kept_at
  limit :'limit'::int)
delete from latchkey.early e using due
where e.record_id = due.record_id and e.audit_id = due.audit_id;
