-- Where lanes stood before a seek is written by outbox only: what a Redis has lost of that time is found by it. By hand it is refused
-- like positions; with outbox.allow_loss it is done and audited; it goes with its route.
-- matrix: R75
\set db :DBNAME
CREATE DATABASE regress_lane_starts;
\c regress_lane_starts
CREATE EXTENSION outbox;
CREATE SERVER regress_lane_starts FOREIGN DATA WRAPPER outbox_log;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
-- (what is older than all events is deleted by the next seek: there is none here)
SELECT outbox.emit('x', 1, 'e', '{}') IS NOT NULL AS emitted;
SET client_min_messages = error; -- how many processes there is room for is not asked here
SELECT outbox.create_route('one', 'regress_lane_starts') > 0 AS made, outbox.create_route('two', 'regress_lane_starts') > 0 AS made;
SET client_min_messages = warning;
CALL outbox.seek('one', 'infinity', reason => 'test', dry_run => false);
CALL outbox.seek('two', 'infinity', reason => 'test', dry_run => false);
RESET client_min_messages;
\x on
SELECT * FROM refused('DELETE FROM outbox_internal.lane_start');
\x off
SELECT command, code, message FROM unnest(ARRAY[
  'UPDATE outbox_internal.lane_start SET start_done_to = now()', 'UPDATE outbox_internal.lane_start SET lanes = 7', 'TRUNCATE outbox_internal.lane_start',
  'INSERT INTO outbox_internal.lane_start SELECT route_id, now(), lane, topic, reason, lanes, start_time, start_from, start_to, start_done_to, stood_from FROM outbox_internal.lane_start',
  'SELECT outbox_internal.note_lane_start(id, now(), ''seek'', ''3:3:'') FROM outbox.route']) command, refused(command);
-- the functions go on writing it
SET client_min_messages = warning;
CALL outbox.seek('one', 'infinity', reason => 'test', dry_run => false);
RESET client_min_messages;
SELECT r.name, count(*) > 0 AS has_them FROM outbox_internal.lane_start s JOIN outbox.route r ON r.id = s.route_id GROUP BY 1 ORDER BY 1;
-- a superuser who says so
SET outbox.allow_loss = on;
BEGIN;
UPDATE outbox_internal.lane_start SET lanes = lanes;
DELETE FROM outbox_internal.lane_start;
TRUNCATE outbox_internal.lane_start;
SELECT action, detail FROM outbox.audit WHERE at >= now() ORDER BY at;
ROLLBACK;
RESET outbox.allow_loss;
-- it goes with its route, which is asked about by itself
SELECT outbox.drop_route('two') AS undelivered;
BEGIN;
DELETE FROM outbox.route;
SELECT count(*) FROM outbox_internal.lane_start;
ROLLBACK;
SET client_min_messages = warning;
BEGIN;
TRUNCATE outbox.route CASCADE;
SELECT count(*) FROM outbox_internal.lane_start;
SELECT action, detail->>'command' AS command FROM outbox.audit WHERE at >= now() ORDER BY at;
ROLLBACK;
SET outbox.allow_loss = on;
SET client_min_messages = error;
DROP EXTENSION outbox CASCADE;
\c :db
DROP DATABASE regress_lane_starts;
