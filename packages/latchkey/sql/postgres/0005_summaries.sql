-- What a request asked for, in short, for people who support its sender. `:"schema"` and `:'schema'` stand for the schema's
-- name, as in psql.

alter table :"schema".records add column summary bytea;

update :"schema".settings set value = '5' where name = 'schema_version';
