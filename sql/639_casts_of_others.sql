-- Casts that somebody made implicit, with which a call of emit() fits more than one of its forms: doctor() names them, with what to write, which works; and
-- no others.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\set VERBOSITY terse
\pset format unaligned
BEGIN;
-- What is to be written is tried in all forms that the function has, with what doctor() says of the casts that are there.
CREATE FUNCTION pg_temp.fits(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SELECT outbox.%s', call);
  RETURN 'fits';
EXCEPTION WHEN ambiguous_function THEN
  RETURN 'is not unique';
END $$;
CREATE VIEW pg_temp.told AS SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'casts';
CREATE VIEW pg_temp.tried AS
SELECT key, string_agg(fits, ', ' ORDER BY n) FROM (
  SELECT key, n, pg_temp.fits(format(call, key)) AS fits FROM unnest(ARRAY['42', '42::smallint', '42::bigint', $q$'42'$q$, $q$'42'::text$q$, $q$'42'::text::varchar$q$, 'gen_random_uuid()']) key,
    unnest(ARRAY[$q$emit('o', %s, 'x', '{}')$q$, $q$emit('o', %s, 'x', '{}'::json)$q$, $q$emit('o'::varchar, %s, 'x'::varchar, '{}'::varchar)$q$, $q$emit('o'::text, %s, 'x'::text, '{}'::text)$q$,
      $q$emit_text('o', %s, 'x', 'y')$q$, $q$emit_bytes('o', %s, 'x', '\x00')$q$, $q$emit_tombstone('o', %s, 'x')$q$]) WITH ORDINALITY c (call, n)) t GROUP BY key ORDER BY key;
SELECT * FROM pg_temp.told;
SELECT * FROM pg_temp.tried;
SAVEPOINT none;
CREATE CAST (integer AS text) WITH INOUT AS IMPLICIT;
CREATE CAST (smallint AS varchar) WITH INOUT AS IMPLICIT;
SELECT * FROM pg_temp.told;
SELECT * FROM pg_temp.tried;
ROLLBACK TO none;
CREATE CAST (text AS uuid) WITH INOUT AS IMPLICIT;
SELECT * FROM pg_temp.told;
SELECT * FROM pg_temp.tried;
ROLLBACK TO none;
-- No matter of emit().
CREATE CAST (integer AS text) WITH INOUT AS ASSIGNMENT;
CREATE CAST (bigint AS text) WITH INOUT AS IMPLICIT;
CREATE CAST (uuid AS text) WITH INOUT AS IMPLICIT;
CREATE CAST (varchar AS uuid) WITH INOUT AS IMPLICIT;
CREATE CAST (numeric AS text) WITH INOUT AS IMPLICIT;
SELECT * FROM pg_temp.told;
SELECT count(*), count(*) FILTER (WHERE string_agg LIKE '%not unique%') AS ambiguous FROM pg_temp.tried;
ROLLBACK;
