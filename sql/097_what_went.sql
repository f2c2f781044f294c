-- By hand, once more: what outbox.allow_loss lets go is told exactly, and nothing where nothing went; events of the own transaction
-- count; routes changed by hand are audited; what is no row of routes, lanes or parked events, and functions that guard.
-- matrix: C19 R73
\set db :DBNAME
CREATE DATABASE regress_went;
\c regress_went
CREATE ROLE regress_went_owner;
CREATE EXTENSION outbox;
CREATE SERVER regress_went FOREIGN DATA WRAPPER outbox_log;
CREATE SERVER regress_used FOREIGN DATA WRAPPER outbox_log;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
CREATE FUNCTION day() RETURNS text LANGUAGE sql AS $$ SELECT 'outbox_internal.log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') $$;
CREATE VIEW told AS SELECT action, route, regexp_replace((detail - '{xid,clock}'::text[])::text, '_[0-9]{8}', '_YYYYMMDD') AS detail FROM outbox.audit
  WHERE at >= now() AND action !~ '^(create_route|pause)$' ORDER BY at;
BEGIN;
SELECT outbox.create_route(name, 'regress_went', aggregate_types => types::text[]) > 0 AS made
FROM (VALUES ('all', '{one,two}'), ('two', '{two}'), ('none', '{three}')) r (name, types);
SELECT count(outbox.pause(name, reason => 'test')) FROM outbox.route;
COMMIT;
SELECT outbox.emit('zero', 1, 'e', '{}') IS NOT NULL AS day_made;

-- Events of this very transaction: nobody else can know of them.
\x on
BEGIN;
SELECT count(outbox.emit('one', n, 'e', '{}')) FROM generate_series(1, 3) n;
SELECT * FROM refused('TRUNCATE outbox_internal.log');
SELECT code, message, detail FROM refused('TRUNCATE ' || day());
SELECT code, message, detail FROM refused('DROP EXTENSION outbox CASCADE');
SELECT code, message, detail FROM refused('DELETE FROM outbox.route WHERE name = ''all''');
SELECT code, message, detail FROM refused('TRUNCATE outbox.route CASCADE');
SELECT outbox.drop_route('all');
SELECT outbox.drop_route('two');
ROLLBACK;
\x off

-- Exactly what went; and nothing when nothing went.
SELECT count(outbox.emit('one', n, 'e', '{}')) FROM generate_series(1, 3) n;
SELECT count(outbox.emit('two', n, 'e', '{}')) FROM generate_series(1, 2) n;
SELECT count(outbox.emit('zero', n, 'e', '{}')) FROM generate_series(1, 2) n;
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, aggregate_id, event_type, topic)
SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 second', gen_random_uuid(), (ARRAY['dead', 'scheduled', 'retrying', 'blocked'])[n % 4 + 1],
  CASE WHEN n % 4 IN (1, 2) THEN timestamptz 'infinity' END, 'x', n, 'e', 't'
FROM outbox.route r, generate_series(0, 8) n WHERE r.name IN ('two', 'none');
INSERT INTO outbox_internal.log (created_at, id, xid, aggregate_type, aggregate_id, event_type, payload)
SELECT now(), gen_random_uuid(), '5', 'one', n, 'by hand', '1' FROM generate_series(1, 3) n;
SET outbox.allow_loss = on;
BEGIN;
DELETE FROM outbox_internal.log WHERE false;
UPDATE outbox_internal.log SET payload = payload WHERE false;
DELETE FROM outbox_internal.log WHERE aggregate_type = 'nothing';
DELETE FROM outbox_internal.parked WHERE false;
DELETE FROM outbox_internal.foreign_event WHERE false;
DELETE FROM outbox.route WHERE false;
DELETE FROM outbox_internal.lane WHERE false;
MERGE INTO outbox_internal.log l USING (VALUES (1)) v ON false WHEN MATCHED THEN DELETE;
-- nor does what an error took back count for the next statement
SAVEPOINT s;
DELETE FROM outbox_internal.parked WHERE 1 / (aggregate_id::int - 5) < 9;
ROLLBACK TO s;
DELETE FROM outbox_internal.parked WHERE false;
DELETE FROM outbox_internal.foreign_event WHERE 1 / (aggregate_id::int - 3) < 9;
ROLLBACK TO s;
DELETE FROM outbox_internal.foreign_event WHERE false;
SELECT count(*) AS told_of_nothing FROM told;
ROLLBACK;
BEGIN;
DELETE FROM outbox_internal.log WHERE aggregate_type = 'zero';
DELETE FROM outbox_internal.log WHERE aggregate_id = '1';
UPDATE outbox_internal.log SET payload = '2' WHERE aggregate_type = 'two';
DELETE FROM outbox_internal.log WHERE aggregate_type = 'two';
DO $$ BEGIN EXECUTE 'DELETE FROM ' || day() || ' WHERE aggregate_id = ''2'''; END $$;
TRUNCATE outbox_internal.log;
SELECT * FROM told;
ROLLBACK;
BEGIN;
DELETE FROM outbox_internal.parked USING outbox.route r WHERE r.id = route_id AND r.name = 'two' AND aggregate_id IN ('0', '1');
DELETE FROM outbox_internal.parked WHERE state = 'dead';
SAVEPOINT s;
DELETE FROM outbox_internal.parked WHERE state IN ('retrying', 'blocked') AND 1 / (aggregate_id::int - 3) < 2;
ROLLBACK TO s;
DELETE FROM outbox_internal.parked WHERE state = 'retrying';
DELETE FROM outbox_internal.foreign_event WHERE aggregate_id = '3';
DELETE FROM outbox.route WHERE name = 'two';
DELETE FROM outbox_internal.lane USING outbox.route r WHERE r.id = route_id AND r.name = 'all';
SELECT * FROM told;
SELECT status, detail, hint FROM outbox.doctor() WHERE detail LIKE '%no lanes%';
ROLLBACK;
RESET outbox.allow_loss;

-- What is kept of events that nobody has sent, and whose the outbox is.
\x on
SELECT * FROM refused('DELETE FROM outbox_internal.foreign_event WHERE aggregate_id = ''1''');
SELECT * FROM refused('TRUNCATE outbox_internal.foreign_event');
SELECT * FROM refused('DELETE FROM outbox_internal.identity');
SELECT code, message FROM refused('UPDATE outbox_internal.identity SET instance = ''x''');
SELECT code, message FROM refused('TRUNCATE outbox_internal.identity');
\x off
SELECT message FROM refused('DELETE FROM outbox_internal.foreign_event WHERE false');
SET session_replication_role = replica;
SELECT message FROM refused('DELETE FROM outbox_internal.identity');
RESET session_replication_role;

-- A route that is changed or dropped by hand.
DO $$ BEGIN PERFORM outbox.skip(id, 'test') FROM outbox_internal.parked WHERE state <> 'dead'; END $$;
SELECT outbox.drop_route('two');
SELECT outbox.create_route('two', 'regress_went', '{four}') > 0 AS made;
BEGIN;
UPDATE outbox.route SET topic = 'by.hand' WHERE name = 'two';
UPDATE outbox.route SET topic = topic;
UPDATE outbox.route SET created_by = 'nobody';
DELETE FROM outbox.route WHERE name = 'two';
DELETE FROM outbox.route WHERE name = 'none';
SELECT * FROM told;
ROLLBACK;
DO $$ BEGIN PERFORM outbox.drop_route('all'); END $$;
BEGIN;
TRUNCATE outbox.route CASCADE;
SELECT action, route, detail FROM told;
ROLLBACK;

-- A server that is renamed, and one that goes with all that its owner has.
SELECT outbox.create_route('used', 'regress_used', '{five}') > 0 AS made;
BEGIN;
ALTER SERVER regress_used RENAME TO regress_renamed;
SELECT * FROM told;
ROLLBACK;
GRANT CREATE ON DATABASE regress_went TO regress_went_owner;
ALTER SERVER regress_used OWNER TO regress_went_owner;
\x on
SELECT * FROM refused('DROP OWNED BY regress_went_owner');
\x off
BEGIN;
REASSIGN OWNED BY regress_went_owner TO CURRENT_USER;
DROP OWNED BY regress_went_owner;
SELECT name, server FROM outbox.route WHERE name = 'used';
ROLLBACK;
CREATE SERVER regress_unused FOREIGN DATA WRAPPER outbox_log;
ALTER SERVER regress_unused OWNER TO regress_went_owner;
BEGIN;
SELECT outbox.drop_route('used');
SELECT message FROM refused('DROP OWNED BY regress_went_owner');
ROLLBACK;
SET outbox.allow_loss = on;
BEGIN;
DROP OWNED BY regress_went_owner;
ROLLBACK;
RESET outbox.allow_loss;

-- A function that guards, or any other of the extension's.
\x on
SELECT * FROM refused($$CREATE OR REPLACE FUNCTION outbox_internal.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'$$);
\x off
SELECT message FROM unnest(ARRAY[
  $$CREATE OR REPLACE FUNCTION outbox_internal.divert() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'$$,
  $$SET LOCAL search_path = outbox; CREATE OR REPLACE FUNCTION version() RETURNS record LANGUAGE sql AS 'SELECT 1, 2'$$,
  $$CREATE OR REPLACE FUNCTION outbox.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'$$,
  $$CREATE OR REPLACE FUNCTION outbox.mine() RETURNS int LANGUAGE sql AS 'SELECT 2'$$,
  $$CREATE OR REPLACE FUNCTION public.emit() RETURNS int LANGUAGE sql AS 'SELECT 2'$$]) command, refused(command);
DROP FUNCTION outbox.mine(), public.emit();
SET ROLE regress_went_owner;
CREATE OR REPLACE FUNCTION outbox_internal.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
RESET ROLE;
\x on
SELECT status FROM outbox.doctor() WHERE "check" = 'guards';
SET outbox.allow_loss = on;
CREATE OR REPLACE FUNCTION outbox_internal.refuse_loss() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS 'BEGIN RETURN OLD; END';
SELECT status, detail, regexp_replace(hint, 'AS ''[^'']*''', 'AS ''LIBRARY''') AS hint FROM outbox.doctor() WHERE "check" = 'guards';
-- as doctor() says
SELECT hint AS mend FROM outbox.doctor() WHERE "check" = 'guards' \gset
:mend;
RESET outbox.allow_loss;
SELECT status FROM outbox.doctor() WHERE "check" = 'guards';
SELECT message FROM refused('DELETE FROM outbox_internal.log');
\x off
SET outbox.allow_loss = on;
SET client_min_messages = error;
DROP EXTENSION outbox CASCADE;
-- Without the extension a schema of that name is anybody's.
RESET outbox.allow_loss;
CREATE SCHEMA IF NOT EXISTS outbox;
CREATE FUNCTION outbox.mine() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE OR REPLACE FUNCTION outbox.mine() RETURNS int LANGUAGE sql AS 'SELECT 2';
SELECT outbox.mine();
\c :db
DROP DATABASE regress_went;
DROP ROLE regress_went_owner;
