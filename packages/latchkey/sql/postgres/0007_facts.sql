-- What happened around a record and changes nothing of it: requests that came again, look-ups. A row holds the first ten and
-- the last twenty of a kind. `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

create table :"schema".facts (
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  kind text collate "C" not null,
  -- The life of the key that they belong to.
  record_id uuid not null,
  count integer not null,
  -- An array of objects: at (milliseconds since the epoch), what, because, trace_id.
  facts jsonb not null,
  primary key (tenant, scope, key, kind)
) with (fillfactor = 70);

update :"schema".settings set value = '7' where name = 'schema_version';
