select s.value from latchkey.settings s where s.name = 'schema_version';
