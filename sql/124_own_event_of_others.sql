-- matrix: C19
-- Members of the extension, by other hands: the foreign table of the view outbox.event, and other foreign tables of its wrapper.
\set db :DBNAME
CREATE DATABASE regress_uses;
\c regress_uses
CREATE EXTENSION outbox;
SET outbox.lone_emit = allow;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
\x on
\t on

-- another foreign table of the wrapper: fewer columns, other types, one too many, one that was dropped
CREATE SERVER mine FOREIGN DATA WRAPPER outbox_own_event;
CREATE FOREIGN TABLE few (id int) SERVER outbox_own_event;
CREATE FOREIGN TABLE texts (id text, aggregate_type text, aggregate_id text) SERVER mine;
SELECT string_agg(format('%I %s', attname, atttypid::regtype), ', ' ORDER BY attnum) AS columns
FROM pg_attribute WHERE attrelid = 'outbox_internal.own_event'::regclass AND attnum > 0 \gset
CREATE FOREIGN TABLE more (:columns) SERVER mine;
CREATE FOREIGN TABLE gone (:columns) SERVER mine;
CREATE FOREIGN TABLE same (:columns) SERVER mine;
ALTER FOREIGN TABLE more ADD COLUMN note text;
ALTER FOREIGN TABLE gone DROP COLUMN topic;
ALTER FOREIGN TABLE gone ADD COLUMN topic text;
BEGIN;
SELECT outbox.emit('o', 1, 't', '{}') IS NOT NULL AS emitted;
SELECT * FROM refused('SELECT id FROM few');
SELECT code, message FROM refused('SELECT count(*) FROM (SELECT * FROM few ORDER BY id) f');
SELECT code, message FROM refused('SELECT id, aggregate_type FROM texts');
SELECT code, message FROM refused('SELECT note FROM more');
SELECT code, message FROM refused('SELECT topic FROM gone');
SELECT aggregate_type, aggregate_id, payload FROM same;
EXPLAIN (COSTS OFF) SELECT id FROM same;
ROLLBACK;

-- the foreign table itself, by other hands
SELECT * FROM refused('ALTER FOREIGN TABLE outbox_internal.own_event ADD COLUMN note text');
SELECT tried(command), command FROM unnest(ARRAY['ALTER TABLE outbox_internal.own_event DROP COLUMN topic CASCADE',
  'ALTER FOREIGN TABLE outbox_internal.own_event ALTER COLUMN id TYPE text', 'ALTER FOREIGN TABLE outbox_internal.own_event RENAME TO mine',
  'ALTER FOREIGN TABLE outbox_internal.own_event RENAME COLUMN id TO mine', 'ALTER FOREIGN TABLE outbox_internal.own_event SET SCHEMA public',
  'ALTER SERVER outbox_own_event RENAME TO mine2', 'ALTER SERVER mine RENAME TO mine2',
  'SET LOCAL outbox.allow_loss = on; ALTER FOREIGN TABLE outbox_internal.own_event ADD COLUMN note text']) command;

-- a member is taken out of the extension: a dump would have it, and a restore would meet it
SELECT * FROM refused('ALTER EXTENSION outbox DROP VIEW outbox.event');
SELECT tried(command), command FROM unnest(ARRAY['ALTER EXTENSION outbox DROP FUNCTION outbox.doctor()', 'ALTER EXTENSION outbox DROP FOREIGN TABLE outbox_internal.own_event',
  'ALTER EXTENSION outbox DROP TABLE outbox.pause', 'ALTER EXTENSION outbox DROP SCHEMA outbox_internal',
  'SET LOCAL outbox.allow_loss = on; ALTER EXTENSION outbox DROP VIEW outbox.event']) command;
\x off
\t off
\c :db
DROP DATABASE regress_uses;
