-- Sent before the statement that completes the record; that one raises if this is another transaction.
insert into latchkey.outbox (id, aggregatetype, aggregateid, type, payload, tenant, scope, key, record_id,
    fingerprint, step, index, downstream_key, aggregate, ordered, available_at, created_at/*[traced*/, trace/*]*/)
select :'effect_id'::uuid, :'effect'::text, coalesce(:'aggregate'::text, :'downstream_key'::text),
  :'operation'::text, :'effect_input'::bytea, :'tenant'::text, :'scope'::text, :'key'::text, :'id'::uuid,
  :'fingerprint'::bytea, :'step'::text, :'index'::int, :'downstream_key'::text, :'aggregate'::text,
  :'ordered'::boolean, t.at + :'delay_ms'::float8 * interval '1 millisecond', t.at/*[traced*/, :'trace'::text/*]*/
from (select pg_catalog.clock_timestamp() as at offset 0) t;
