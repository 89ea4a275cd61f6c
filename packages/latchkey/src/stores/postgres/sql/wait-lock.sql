select 1 as held
from pg_catalog.pg_advisory_xact_lock(:'lock'::text::bigint);
