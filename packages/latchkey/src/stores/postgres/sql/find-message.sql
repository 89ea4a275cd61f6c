select b.standby, x.*
from (select pg_catalog.pg_is_in_recovery() as standby) b
left join lateral (select m.state, m.starts, m.returns, m.failures, m.last_error_code
  from latchkey.messages m
  where m.digest = pg_catalog.decode(:'digest'::text, 'hex')) x on true;
