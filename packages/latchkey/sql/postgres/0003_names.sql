-- Records are found by their ids, whoever asks: a webhook, an operator, a status resource; and what was said of a record before
-- it was unknown is kept. `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

create index records_id on :"schema".records (id);
drop index :"schema".records_addressable;

-- Settlements that came before anybody knew that the outcome is in doubt. What is left of a life that is over goes with the
-- next clean-up.
create table :"schema".early (
  record_id uuid not null,
  -- Of the audit row that it gets when it is used.
  audit_id uuid not null,
  tenant text collate "C" not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  kept_at timestamptz(3) not null,
  -- JSON; what passed the codec in base64.
  said text not null,
  primary key (record_id, audit_id)
);

create index early_kept on :"schema".early (kept_at);

-- What a ledger is compared with.
create index outbox_finished on :"schema".outbox (aggregatetype, finished_at, downstream_key) where state = 'delivered';

update :"schema".settings set value = '3' where name = 'schema_version';
