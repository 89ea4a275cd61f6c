-- Audit rows go when they are old enough, and are listed newest first. `:"schema"` and `:'schema'` stand for the schema's name, as in psql.

create index audit_at on :"schema".audit (at, id);

update :"schema".settings set value = '4' where name = 'schema_version';
