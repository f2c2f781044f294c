-- What only outbox itself writes is refused to everybody's hand: an event as it waits (what it holds, whose turn it is, when), and
-- how far lanes have come. With outbox.allow_loss it is done and audited; the functions for it go on working.
-- matrix: C19 R75
\set db :DBNAME
CREATE DATABASE regress_by_hand;
\c regress_by_hand
CREATE EXTENSION outbox;
CREATE SERVER regress_by_hand FOREIGN DATA WRAPPER outbox_log;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
CREATE FUNCTION day(kind text) RETURNS text LANGUAGE sql AS $$ SELECT 'outbox_internal.' || kind || to_char(now() AT TIME ZONE 'UTC', '_YYYYMMDD') $$;
BEGIN;
SELECT outbox.create_route('one', 'regress_by_hand') > 0 AS made;
SELECT outbox.pause('one', reason => 'test') AS paused;
SELECT outbox.pause('one', aggregate_type => 'a', aggregate_id => '1', reason => 'test') AS paused;
COMMIT;
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 second', ('018e5d0c-7a2b-7c33-9d1e-00000000000' || n)::uuid,
  (ARRAY['dead', 'scheduled', 'retrying', 'blocked'])[n % 4 + 1], CASE WHEN n % 4 IN (1, 2) THEN timestamptz 'infinity' END, 'b', n, 'e', '1', 't'
FROM outbox.route r, generate_series(0, 3) n;
SELECT outbox.emit('one', 1, 'e', '{}') IS NOT NULL AS emitted;
INSERT INTO outbox_internal.log (created_at, id, xid, aggregate_type, event_type, payload) VALUES (now(), gen_random_uuid(), '5', 'one', 'by hand', '1');
-- days of positions and ticks: the keeper makes them; one transaction would never learn that
DO $$ BEGIN
  FOR i IN 1..1200 LOOP
    EXIT WHEN to_regclass(day('progress')) IS NOT NULL AND to_regclass(day('tick')) IS NOT NULL;
    COMMIT;
    PERFORM pg_sleep(0.05);
  END LOOP;
END $$;
\x on
SELECT * FROM refused($$UPDATE outbox_internal.parked SET payload = '2' WHERE aggregate_id = '1'$$);
SELECT * FROM refused('UPDATE outbox_internal.lane SET done_to = now()');
SELECT * FROM refused('UPDATE outbox.route SET lanes = 7');
SELECT * FROM refused('DELETE FROM outbox.pause');
SELECT * FROM refused('TRUNCATE outbox.pause');
-- (whoever has routes locked does not empty them)
BEGIN;
LOCK TABLE outbox.route IN ACCESS EXCLUSIVE MODE;
SELECT code, message FROM refused('TRUNCATE outbox.pause');
ROLLBACK;
\x off
SELECT regexp_replace(command, '_[0-9]{8}', '_YYYYMMDD') AS command, code, message
FROM unnest(ARRAY[
  -- an event that waits: each part of it
  'UPDATE outbox_internal.parked SET headers = NULL', 'UPDATE outbox_internal.parked SET aggregate_id = ''x''', 'UPDATE outbox_internal.parked SET due_at = now()',
  'UPDATE outbox_internal.parked SET state = ''dead''', 'UPDATE outbox_internal.parked SET order_key = 5', 'UPDATE outbox_internal.parked SET lane = 1',
  'UPDATE outbox_internal.parked SET topic = ''x''', 'UPDATE outbox_internal.parked SET own_topic = ''x''', 'UPDATE outbox_internal.parked SET xid = ''5''',
  'UPDATE outbox_internal.parked SET payload = payload', 'UPDATE outbox_internal.parked SET payload = NULL WHERE false',
  'WITH n AS (UPDATE outbox_internal.parked SET content_type = ''x'' RETURNING 1) SELECT count(*) FROM n',
  'MERGE INTO outbox_internal.parked p USING (VALUES (1)) v ON true WHEN MATCHED THEN UPDATE SET payload = NULL',
  'INSERT INTO outbox_internal.parked SELECT * FROM outbox_internal.parked ON CONFLICT (route_id, created_at, id, replay) DO UPDATE SET payload = NULL',
  'UPDATE outbox_internal.foreign_event SET payload = NULL',
  -- whose turn it is, and how far lanes are
  'UPDATE outbox.route SET start_time = now()', 'UPDATE outbox.route SET lanes_wanted = 2', 'UPDATE outbox_internal.lane SET window_from = pg_current_snapshot()',
  'UPDATE outbox_internal.lane SET home = NULL', 'UPDATE outbox_internal.side_lane SET done_to = now()', 'UPDATE outbox_internal.side_topic SET start_done_to = now()',
  'UPDATE outbox_internal.adoption SET phase = ''history''', 'UPDATE outbox_internal.adopted SET wanted = ''{}''',
  'INSERT INTO outbox_internal.progress (at, route_id, lane, window_from) SELECT now(), id, 0, pg_current_snapshot() FROM outbox.route',
  'INSERT INTO ' || day('progress') || ' (at, route_id, lane, window_from) SELECT now(), id, 0, pg_current_snapshot() FROM outbox.route',
  'INSERT INTO outbox_internal.tick VALUES (now(), pg_current_snapshot())', 'TRUNCATE outbox_internal.progress', 'TRUNCATE outbox_internal.tick',
  -- what people have decided, what a Redis had, and whose transaction ids these are
  'DELETE FROM outbox_internal.outcome', 'UPDATE outbox_internal.outcome SET outcome = ''delivered''', 'TRUNCATE outbox_internal.outcome',
  'DELETE FROM outbox_internal.server_run', 'UPDATE outbox_internal.server_run SET number = 0', 'TRUNCATE outbox_internal.server_run',
  'DELETE FROM outbox_internal.origin', 'UPDATE outbox_internal.origin SET database = 0', 'TRUNCATE outbox_internal.origin',
  'CREATE POLICY p ON outbox_internal.log USING (false)', 'ALTER TABLE outbox_internal.log ENABLE ROW LEVEL SECURITY', 'ALTER TABLE outbox.route FORCE ROW LEVEL SECURITY',
  'CREATE TABLE public.mine (); ALTER EXTENSION outbox ADD TABLE public.mine', 'ALTER EXTENSION outbox DROP TABLE outbox.pause',
  'INSERT INTO outbox.pause (server, reason, paused_by) VALUES (''x'', ''y'', ''z'')', 'UPDATE outbox.pause SET reason = ''x''',
  'UPDATE outbox.audit SET who = ''nobody''', 'DELETE FROM outbox.audit WHERE false',
  -- and what is nobody's event, nor position
  'UPDATE outbox_internal.parked SET attempts = attempts', 'UPDATE outbox.route SET max_attempts = max_attempts', 'UPDATE outbox_internal.lane SET owner = owner',
  'DELETE FROM outbox_internal.progress WHERE false', 'DELETE FROM outbox_internal.tick WHERE false']) command, refused(command);
-- whatever the session's triggers do, and who it is
SET session_replication_role = replica;
SELECT message FROM refused('UPDATE outbox_internal.parked SET payload = NULL');
SELECT message FROM refused('DELETE FROM outbox.pause');
RESET session_replication_role;
CREATE ROLE regress_by_hand;
GRANT USAGE ON SCHEMA outbox, outbox_internal TO regress_by_hand;
-- (again where another process changes one of them at that moment)
DO $$ BEGIN
  LOOP
    BEGIN
      GRANT ALL ON ALL TABLES IN SCHEMA outbox, outbox_internal TO regress_by_hand;
      EXIT;
    EXCEPTION WHEN internal_error THEN
      CONTINUE WHEN SQLERRM = 'tuple concurrently updated';
      RAISE;
    END;
  END LOOP;
END $$;
SET ROLE regress_by_hand;
SELECT message FROM refused('UPDATE outbox_internal.parked SET payload = NULL');
SELECT message FROM refused('INSERT INTO outbox_internal.tick VALUES (now(), pg_current_snapshot())');
SET outbox.allow_loss = on;
RESET ROLE;
-- A superuser who says so: done, and told exactly.
CREATE VIEW told AS SELECT action, regexp_replace(detail::text, '_[0-9]{8}', '_YYYYMMDD') AS detail FROM outbox.audit WHERE at >= now() ORDER BY at;
SET outbox.allow_loss = on;
BEGIN;
UPDATE outbox_internal.parked SET payload = '2' WHERE aggregate_id = '7';
UPDATE outbox_internal.parked SET attempts = 1;
UPDATE outbox_internal.lane SET owner = NULL;
DELETE FROM outbox.pause WHERE false;
DELETE FROM outbox_internal.progress WHERE false;
SELECT count(*) AS told_of_nothing FROM told;
UPDATE outbox_internal.parked SET payload = '2' WHERE aggregate_id IN ('0', '1');
UPDATE outbox_internal.parked SET payload = '3' WHERE state = 'dead';
SAVEPOINT s;
UPDATE outbox_internal.parked SET lane = 1 / (aggregate_id::int - 1);
ROLLBACK TO s;
UPDATE outbox_internal.parked SET due_at = NULL WHERE state = 'blocked';
UPDATE outbox_internal.foreign_event SET payload = '2';
UPDATE outbox_internal.lane SET window_from = window_from;
INSERT INTO outbox_internal.progress (at, route_id, lane, window_from) SELECT now() + n * interval '1 us', id, 0, '3:3:' FROM outbox.route, generate_series(0, 1) n;
INSERT INTO outbox_internal.tick VALUES (now(), '3:3:');
DELETE FROM outbox_internal.progress WHERE window_from::text = '3:3:';
DO $$ BEGIN EXECUTE 'DELETE FROM ' || day('tick') || ' WHERE snapshot::text = ''3:3:'''; END $$;
TRUNCATE outbox_internal.progress;
DELETE FROM outbox.pause WHERE aggregate_type IS NOT NULL;
TRUNCATE outbox.pause;
SELECT * FROM told;
ROLLBACK;
-- A statement in another one, two in one, one that ends early: each is told as a whole.
BEGIN;
CREATE FUNCTION touch() RETURNS int LANGUAGE sql AS 'UPDATE outbox_internal.lane SET window_from = window_from RETURNING 1';
CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
  UPDATE outbox_internal.foreign_event SET payload = (1 / 0)::text::bytea;
  RETURN 1;
EXCEPTION WHEN division_by_zero THEN RETURN 0;
END $$;
UPDATE outbox_internal.parked SET payload = '4' RETURNING touch(), fails();
WITH lane AS (UPDATE outbox_internal.lane SET window_from = window_from RETURNING 1)
UPDATE outbox_internal.parked SET payload = '5' WHERE EXISTS (SELECT FROM lane);
WITH foreign_event AS (DELETE FROM outbox_internal.foreign_event RETURNING 1)
DELETE FROM outbox_internal.parked WHERE EXISTS (SELECT FROM foreign_event) AND state <> 'dead';
SELECT * FROM told;
ROLLBACK;
RESET outbox.allow_loss;
-- The functions for it.
BEGIN;
SELECT outbox.retry(id, reason => 'test', payload => '{"n": 1}') FROM outbox_internal.parked WHERE aggregate_id = '0';
SELECT outbox.skip(id, 'test') FROM outbox_internal.parked WHERE aggregate_id = '2';
SELECT outbox.resume('one', aggregate_type => 'a', aggregate_id => '1');
SELECT outbox.alter_route('one', lanes => 2);
SELECT aggregate_id, state, convert_from(payload, 'UTF8') FROM outbox_internal.parked ORDER BY 1;
SELECT action FROM told;
ROLLBACK;
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'guards';
DROP OWNED BY regress_by_hand;
SET outbox.allow_loss = on;
SET client_min_messages = error;
DROP EXTENSION outbox CASCADE;
\c :db
DROP DATABASE regress_by_hand;
DROP ROLE regress_by_hand;
