-- Records are found by their ids, for webhooks, operators and status resources, and early settlements are kept.
-- `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

create index records_id on :"schema".records (id);
drop index :"schema".records_addressable;

-- Early settlements. Those of a life that is over go with the next clean-up.
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
