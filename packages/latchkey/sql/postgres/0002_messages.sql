-- Messages that did not go through at their first delivery, and those that are no longer delivered. A message that goes
-- through at once leaves nothing here. `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

create table :"schema".messages (
  -- Over operation, tenant, key and payload: the same for every delivery and every copy.
  digest bytea primary key,
  id uuid not null,
  source text collate "C" not null,
  operation text collate "C" not null,
  -- Null where the message does not say.
  tenant text collate "C",
  key text collate "C",
  state text collate "C" not null,
  starts integer not null,
  returns integer not null,
  failures integer not null,
  last_error_code text collate "C",
  reason text collate "C",
  content_type text collate "C",
  payload bytea,
  created_at timestamptz(3) not null,
  died_at timestamptz(3),
  expires_at timestamptz(3),
  constraint messages_state_shape check (
    case state
      when 'watched' then expires_at is not null and num_nonnulls(reason, payload, died_at) = 0
      when 'dead' then expires_at is null and num_nulls(reason, payload, died_at) = 0
      else false
    end
    and starts >= 0 and returns >= 0 and failures >= 0
  )
);

create index messages_dead on :"schema".messages (died_at, id) where state = 'dead';
create index messages_id on :"schema".messages (id) where state = 'dead';
create index messages_expire on :"schema".messages (expires_at) where state = 'watched';

update :"schema".settings set value = '2' where name = 'schema_version';
