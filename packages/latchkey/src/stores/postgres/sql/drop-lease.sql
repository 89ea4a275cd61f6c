delete from latchkey.leases l
where l.tenant = :'tenant'::text and l.scope = :'scope'::text and l.key = :'key'::text
  and l.record_id = :'id'::uuid and l.attempt = :'attempt'::int and l.token = :'token'::uuid;
