-- Undelivered events are not lost without a word: what is refused, with which numbers, what is let through.
-- matrix: C19 R17
\set db :DBNAME
CREATE DATABASE regress_loss;
\c regress_loss
CREATE EXTENSION outbox;
CREATE SERVER regress_loss FOREIGN DATA WRAPPER outbox_log;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
CREATE FUNCTION day(days int DEFAULT 0) RETURNS text LANGUAGE sql AS $$
  SELECT 'outbox_internal.log_' || to_char((now() AT TIME ZONE 'UTC')::date + days, 'YYYYMMDD') $$;
-- Nothing emitted yet: by hand all the same not.
\x on
SELECT * FROM refused('DELETE FROM outbox_internal.log');
\x off
BEGIN;
SELECT outbox.create_route('first', 'regress_loss') > 0 AS made;
SELECT outbox.create_route('second', 'regress_loss', '{two}') > 0 AS made;
SELECT outbox.pause('first', reason => 'test'), outbox.pause('second', reason => 'test');
COMMIT;
-- No event: all that is dropped whole may be, a day that holds nothing.
SELECT message FROM refused('TRUNCATE outbox_internal.log');
BEGIN; DROP EXTENSION outbox CASCADE; ROLLBACK;
SELECT outbox.emit('one', n, 'e', '{}') IS NOT NULL AS emitted FROM generate_series(1, 3) n;
SELECT outbox.emit('two', n, 'e', '{}') IS NOT NULL AS emitted FROM generate_series(1, 2) n;
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, event_type, topic)
SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 second', gen_random_uuid(), (ARRAY['dead', 'scheduled', 'retrying', 'blocked'])[n % 4 + 1],
  CASE WHEN n % 4 IN (1, 2) THEN timestamptz 'infinity' END, 'x', 'e', 't'
FROM outbox.route r, generate_series(0, 8) n WHERE r.name = 'second';
\x on
-- each statement, on the log and on its day
SELECT * FROM refused('DELETE FROM outbox_internal.log WHERE created_at < now()');
SELECT * FROM refused('DELETE FROM ' || day());
SELECT code, message FROM refused('UPDATE outbox_internal.log SET payload = NULL');
SELECT code, message FROM refused('UPDATE ' || day() || ' SET payload = NULL WHERE false');
SELECT code, message FROM refused('MERGE INTO outbox_internal.log l USING (VALUES (1)) v ON true WHEN MATCHED THEN DELETE');
SELECT * FROM refused('TRUNCATE outbox_internal.log');
SELECT code, message FROM refused('TRUNCATE ' || day());
SELECT * FROM refused('DROP TABLE ' || day());
SELECT * FROM refused('ALTER TABLE outbox_internal.log DETACH PARTITION ' || day());
-- what goes with more
SELECT * FROM refused('DROP EXTENSION outbox CASCADE');
SELECT * FROM refused('DROP SCHEMA outbox CASCADE');
SELECT * FROM refused('DROP SERVER regress_loss CASCADE');
-- a row trigger that is switched off with the others does not switch this one off
SET session_replication_role = replica;
SELECT code, message FROM refused('DELETE FROM outbox_internal.log');
RESET session_replication_role;
-- What an event trigger runs on the way, and what fails there, makes no other command of it.
CREATE FUNCTION on_the_way() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TAG <> 'DROP TABLE' THEN
    DROP TABLE no_such_table;
  END IF;
  SET LOCAL application_name = 'regress';
EXCEPTION WHEN undefined_table THEN
END $$;
CREATE EVENT TRIGGER regress_on_the_way ON ddl_command_start EXECUTE FUNCTION on_the_way();
SELECT * FROM refused('DROP EXTENSION outbox CASCADE');
ALTER EVENT TRIGGER regress_on_the_way DISABLE;
-- What holds nothing is not checked: another day, another schema, what is in the same command.
DO $$ BEGIN FOR i IN 1 .. 300 LOOP EXIT WHEN to_regclass(day(1)) IS NOT NULL AND to_regclass(day(2)) IS NOT NULL; COMMIT; PERFORM pg_sleep(0.1); END LOOP; END $$;
ALTER EVENT TRIGGER regress_on_the_way ENABLE;
SELECT code, message FROM refused('DROP TABLE ' || day(1));
ALTER EVENT TRIGGER regress_on_the_way DISABLE;
SELECT code, message FROM refused('TRUNCATE ' || day(2));
CREATE SCHEMA mine;
CREATE TABLE mine.log (x int);
SELECT code, message FROM refused('DROP SCHEMA mine CASCADE');
CREATE TABLE mine (x int);
SELECT code, message FROM refused('DROP TABLE mine, ' || day());
SELECT to_regclass('mine') AS still_there;
-- Only a superuser may say that it does not matter.
CREATE ROLE regress_owner;
GRANT CREATE ON DATABASE regress_loss TO regress_owner;
SET ROLE regress_owner;
SET outbox.allow_loss = on;
RESET ROLE;
ALTER SERVER regress_loss OWNER TO regress_owner;
SELECT code, message, detail FROM refused('DROP OWNED BY regress_owner');
\x off
SET outbox.allow_loss = on;
BEGIN;
DROP OWNED BY regress_owner;
ROLLBACK;
BEGIN;
DELETE FROM outbox_internal.log WHERE aggregate_type = 'one';
TRUNCATE outbox_internal.log;
ROLLBACK;
BEGIN;
SET client_min_messages = error;
DROP EXTENSION outbox CASCADE;
ROLLBACK;
RESET outbox.allow_loss;
-- More routes than anybody reads.
DO $$ BEGIN PERFORM outbox.create_route('many ' || lpad(n::text, 2, '0'), 'regress_loss', start => 'earliest') FROM generate_series(1, 65) n;
  PERFORM outbox.pause('many ' || lpad(n::text, 2, '0'), reason => 'test') FROM generate_series(1, 65) n; END $$;
SELECT message, detail FROM refused('DROP EXTENSION outbox CASCADE');
SET client_min_messages = warning;
DO $$ BEGIN PERFORM outbox.drop_route('many ' || lpad(n::text, 2, '0')) FROM generate_series(1, 65) n; END $$;
RESET client_min_messages;
-- Given up in good order: it goes, and tells of the dead letters.
DO $$ BEGIN PERFORM outbox.skip(id, 'test') FROM outbox_internal.parked WHERE state <> 'dead'; END $$;
CALL outbox.seek('first', 'infinity', dry_run => false);
SELECT message, detail FROM refused('DROP EXTENSION outbox CASCADE');
CALL outbox.seek('second', 'infinity', dry_run => false);
-- A server that routes use stays, also where nothing is lost, and an event trigger runs something on the way.
SELECT code, message FROM refused('DROP OWNED BY regress_owner');
ALTER EVENT TRIGGER regress_on_the_way ENABLE;
SELECT code, message FROM refused('DROP OWNED BY regress_owner');
DROP EVENT TRIGGER regress_on_the_way;
DROP FUNCTION on_the_way();
BEGIN;
DELETE FROM outbox_internal.log;
ROLLBACK;
TRUNCATE outbox_internal.log;
-- One of them is one.
DO $$ BEGIN PERFORM outbox.discard(id, 'test') FROM (SELECT id FROM outbox_internal.parked WHERE state = 'dead' LIMIT 2) d; END $$;
DROP EXTENSION outbox CASCADE;
DROP FUNCTION refused(text), day(int);
\c :db
DROP DATABASE regress_loss;
DROP ROLE regress_owner;
