-- Records, their leases, their steps, their effects, and what was settled. `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

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
  attempt integer not null,
  token uuid not null,
  recovery_point text collate "C",
  -- What the work is resumed with, while there is something to resume.
  input bytea,
  answer bytea,
  response_schema_version smallint,
  last_error_code text collate "C",
  -- Whole milliseconds, so that a time compares the same here and in the process.
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  expires_at timestamptz(3),
  forget_at timestamptz(3),
  -- Of an unknown record: when reconciliation asks next. Of a retryable one: from when on a worker may resume it.
  reconcile_after timestamptz(3),
  -- How often this life was claimed for reconciliation.
  reconcile_tries integer not null default 0,
  -- Whether a status resource finds this life by its id.
  addressable boolean not null default false,
  constraint records_pkey primary key (tenant, scope, key),
  -- Which times a state has. Postgres reads a check again for every statement, so this one is short: the state, and
  -- for each of six columns whether it has a value (t), has none (f), or may have one (_).
  constraint records_state_shape check (
    concat(state, ' ', answer is not null, finished_at is not null, expires_at is not null, forget_at is not null,
      reconcile_after is not null, input is not null) like any (E'{
        completed ttttff, failed _tttff, pending fftff_, in\\\\_progress fftff_, retryable ffff__, unknown ffff__,
        expired ft_tff}'::text[])
    and forget_at >= expires_at and attempt >= 0
  )
);

-- The record-cleaner's work, each part by its own time. An answer that goes together with its key needs no purge.
-- The second condition always holds; without it the planner takes this index for claims of pending work, too.
create index records_abandon on :"schema".records (expires_at) where state = 'pending' and forget_at is null;
create index records_purge on :"schema".records (expires_at)
  where state in ('completed', 'failed') and expires_at < forget_at;
create index records_forget on :"schema".records (forget_at) where forget_at is not null;

-- The work of the outcome-reconciler and of the workers that resume, each for the operations it knows.
create index records_reconcile on :"schema".records (state, operation, reconcile_after)
  where reconcile_after is not null;
-- Deferred work, for the workers that know the operation.
create index records_pending on :"schema".records (operation, created_at) where state = 'pending';
create index records_addressable on :"schema".records (id) where addressable;
-- What an operator looks for.
create index records_parked on :"schema".records (state, created_at, id) where state in ('retryable', 'unknown');

-- Apart from the records, so that heartbeats never meet a phase that holds its record's row.
create table :"schema".leases (
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  record_id uuid not null,
  operation text collate "C" not null,
  attempt integer not null,
  token uuid not null,
  locked_until timestamptz(3) not null,
  lease_end text collate "C" not null check (lease_end in ('reconcile', 'resume', 'rerun')),
  attempts_max integer not null check (attempts_max >= 1),
  -- After this a dead attempt is not taken over any more.
  abandon_at timestamptz(3) not null,
  -- From then on only the lease-rescuer ends this attempt, if nothing else happens.
  rescue_at timestamptz(3) not null generated always as (
    case
      when lease_end = 'reconcile' or attempt >= attempts_max then locked_until
      else greatest(locked_until, abandon_at)
    end
  ) stored,
  primary key (tenant, scope, key)
);

create index leases_rescue on :"schema".leases (rescue_at);
create index leases_resume on :"schema".leases (operation, locked_until)
  where lease_end = 'resume' and attempt < attempts_max;

-- A step goes in the statement that ends its record's life, so there is no foreign key to check.
create table :"schema".steps (
  record_id uuid not null,
  name text collate "C" not null,
  -- Where the record is found.
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  position integer not null check (position >= 0),
  version text collate "C" not null,
  kind text collate "C" not null,
  state text collate "C" not null,
  effect text collate "C",
  generation integer check (generation >= 0),
  downstream_key text collate "C",
  input bytea,
  result bytea,
  sends integer check (sends >= 0),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  primary key (record_id, name),
  constraint steps_shape check (
    case kind
      when 'phase' then
        state = 'finished' and num_nulls(result, finished_at) = 0
        and num_nonnulls(effect, generation, downstream_key, input, sends, started_at) = 0
      when 'call' then
        num_nulls(effect, generation, downstream_key, input, sends, started_at) = 0
        and case
          when state in ('started', 'not_executed') then num_nonnulls(result, finished_at) = 0
          when state in ('finished', 'refused') then num_nulls(result, finished_at) = 0
          else false
        end
      else false
    end
  )
);

create index steps_downstream_key on :"schema".steps (downstream_key) where kind = 'call';
create index steps_finished_calls on :"schema".steps (effect, finished_at, downstream_key)
  where kind = 'call' and state = 'finished';

-- Effects to be delivered after their transaction. The five columns at the top are those of Debezium's outbox event router:
-- topics go by the effect's name, messages by the aggregate or, without one, by the downstream key; the payload is the
-- input as the codec stored it.
--
-- A delivery writes four row versions: enqueued, claimed, started, delivered; three where the claim is the start, too. All
-- but the last of them are dead in the end, and that one goes with the clean-up; each further try adds three, a result
-- that is kept apart one. While a transaction holds them back, an index has one dead entry for each version but the
-- started one.
create table :"schema".outbox (
  id uuid primary key,
  aggregatetype text collate "C" not null,
  aggregateid text collate "C" not null,
  -- The operation that enqueued it.
  type text collate "C" not null,
  payload bytea not null,
  -- Order within an aggregate: the clocks of processes differ, and so do the identifiers that they make.
  position bigint not null generated always as identity,
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  record_id uuid not null,
  fingerprint bytea not null,
  step text collate "C" not null,
  index integer not null check (index >= 0),
  generation integer not null default 0,
  downstream_key text collate "C" not null,
  aggregate text collate "C",
  ordered boolean not null,
  state text collate "C" not null default 'pending',
  available_at timestamptz(3) not null,
  attempt integer not null default 0,
  token uuid,
  claimed_at timestamptz(3),
  -- What the write before each send changes is in no index and in no index's predicate, so that it is a HOT update.
  locked_until timestamptz(3),
  started_at timestamptz(3),
  doubtful_since timestamptz(3),
  sends integer not null default 0,
  returns integer not null default 0,
  -- How the last claim was ended by its owner, so that the same end a second time is known.
  ended text collate "C",
  result bytea,
  last_error_code text collate "C",
  created_at timestamptz(3) not null,
  finished_at timestamptz(3),
  expires_at timestamptz(3),
  -- Which of six columns a state has, and short, as in `records`: for an effect that is enqueued the check takes as long
  -- to read as its row to write.
  constraint outbox_state_shape check (
    concat(state, ' ', token is not null, claimed_at is not null, locked_until is not null, started_at is not null,
      finished_at is not null, expires_at is not null) like any (E'{
        pending _fffff, claimed ttt_ff, delivered _ffftt, dead _ffftf}'::text[])
    and returns <= sends
  )
) with (fillfactor = 50);

create index outbox_due on :"schema".outbox (aggregatetype, available_at, position)
  where state = 'pending' and not ordered;
-- Few at any time: what is being delivered.
create index outbox_claimed on :"schema".outbox (claimed_at) where state = 'claimed';
create index outbox_ordered on :"schema".outbox (aggregatetype, tenant, aggregateid, position)
  where ordered and state <> 'delivered';
create index outbox_record on :"schema".outbox (record_id, position);
create index outbox_dead on :"schema".outbox (created_at, id) where state = 'dead';
create index outbox_delivered on :"schema".outbox (expires_at) where state = 'delivered';

-- What was settled or decided, by whom and with which proof. It outlives the records.
create table :"schema".audit (
  id uuid primary key,
  at timestamptz(3) not null,
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  record_id uuid not null,
  event text collate "C" not null,
  from_state text collate "C" not null,
  to_state text collate "C" not null,
  actor text collate "C" not null,
  proof text collate "C" not null,
  reason text collate "C",
  -- Of a decision on a dead effect.
  effect_id uuid
);

create index audit_key on :"schema".audit (tenant, scope, key);

-- The secret keeps clients from choosing keys whose advisory locks collide. 244 random bits.
insert into :"schema".settings (name, value) values
  ('schema_version', '1'),
  ('lock_secret', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));
