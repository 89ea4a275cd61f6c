-- The records and their leases. `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

create table :"schema".settings (
  name text collate "C" primary key,
  value text not null
);

create table :"schema".records (
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  id uuid not null,
  operation text collate "C" not null,
  state text collate "C" not null,
  fingerprint_version smallint not null,
  fingerprint bytea not null,
  principal text collate "C",
  attempt integer not null check (attempt >= 0),
  token uuid not null,
  recovery_point text collate "C",
  operation_version text collate "C",
  answer bytea,
  response_schema_version smallint,
  last_error_code text collate "C",
  -- Whole milliseconds, so that a time compares the same here and in the process.
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  expires_at timestamptz(3),
  forget_at timestamptz(3),
  reconcile_after timestamptz(3),
  primary key (tenant, scope, key),
  constraint records_state_shape check (
    case state
      when 'pending' then
        num_nonnulls(answer, finished_at, forget_at, reconcile_after) = 0 and expires_at is not null
      when 'in_progress' then
        num_nonnulls(answer, finished_at, forget_at, reconcile_after) = 0 and expires_at is not null
      when 'completed' then
        num_nulls(answer, finished_at, expires_at, forget_at) = 0
        and reconcile_after is null and forget_at >= expires_at
      when 'failed' then
        num_nulls(finished_at, expires_at, forget_at) = 0
        and reconcile_after is null and forget_at >= expires_at
      when 'retryable' then
        num_nonnulls(answer, finished_at, expires_at, forget_at, reconcile_after) = 0
      when 'unknown' then
        num_nonnulls(answer, finished_at, expires_at, forget_at) = 0
      when 'expired' then
        answer is null and reconcile_after is null and num_nulls(finished_at, forget_at) = 0
      else false
    end
  )
);

-- The record-cleaner's work, each part by its own time. An answer that goes together with its key needs no purge.
create index records_abandon on :"schema".records (expires_at) where state = 'pending';
create index records_purge on :"schema".records (expires_at)
  where state in ('completed', 'failed') and expires_at < forget_at;
create index records_forget on :"schema".records (forget_at)
  where state in ('completed', 'failed', 'expired');

-- Apart from the records, so that heartbeats never meet a phase that holds its record's row.
create table :"schema".leases (
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  record_id uuid not null,
  attempt integer not null,
  token uuid not null,
  locked_until timestamptz(3) not null,
  lease_end text collate "C" not null check (lease_end in ('reconcile', 'rerun')),
  attempts_max integer not null check (attempts_max >= 1),
  -- After this a dead attempt is not taken over any more.
  abandon_at timestamptz(3) not null,
  -- From when on nobody but the lease-rescuer ends this attempt, if nothing else happens.
  rescue_at timestamptz(3) not null generated always as (
    case
      when lease_end = 'reconcile' or attempt >= attempts_max then locked_until
      else greatest(locked_until, abandon_at)
    end
  ) stored,
  primary key (tenant, scope, key)
);

create index leases_rescue on :"schema".leases (rescue_at);

-- The secret keeps clients from choosing keys whose advisory locks collide. 244 random bits.
insert into :"schema".settings (name, value) values
  ('schema_version', '1'),
  ('lock_secret', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));
