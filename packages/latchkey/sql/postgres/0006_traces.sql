-- The spans in which a life began and in which an effect was enqueued, as W3C traceparents, for links to them.
-- `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

alter table :"schema".records add column trace text collate "C";
alter table :"schema".outbox add column trace text collate "C";

update :"schema".settings set value = '6' where name = 'schema_version';
