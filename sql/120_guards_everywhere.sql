-- Guards hold wherever a statement runs: inside what PostgreSQL runs as a security-restricted operation (materialized views,
-- indexes), inside the query of a user's own foreign key. What goes with its route goes all the same.
-- matrix: C19
\set db :DBNAME
CREATE DATABASE regress_everywhere;
\c regress_everywhere
CREATE EXTENSION outbox;
CREATE SERVER regress_everywhere FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.create_route('one', 'regress_everywhere') > 0 AS made;
SELECT outbox.pause('one', reason => 'test') AS paused;
SELECT outbox.pause(server => 'regress_everywhere', reason => 'test') AS paused;
SET outbox.lone_emit = allow;
SELECT outbox.emit('one', 1, 'e', '{}') IS NOT NULL AS emitted;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused

-- in a security-restricted operation
CREATE VIEW commands AS SELECT command FROM unnest(ARRAY[
  'DELETE FROM outbox_internal.log', 'UPDATE outbox_internal.log SET payload = ''2''', 'TRUNCATE outbox_internal.log',
  'DELETE FROM outbox.route', 'DELETE FROM outbox_internal.lane', 'UPDATE outbox_internal.lane SET window_from = pg_current_snapshot(), window_to = NULL',
  'DELETE FROM outbox.pause', 'ALTER TABLE outbox_internal.log DISABLE TRIGGER USER', 'DROP TRIGGER log_loss ON outbox_internal.log',
  'ALTER TABLE outbox_internal.log DETACH PARTITION ' || (SELECT i.inhrelid::regclass FROM pg_inherits i WHERE i.inhparent = 'outbox_internal.log'::regclass LIMIT 1),
  'ALTER TABLE outbox_internal.lane ADD COLUMN x int', 'DROP INDEX outbox_internal.log_spare_xid',
  'CREATE OR REPLACE FUNCTION outbox_internal.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS ''BEGIN RETURN NULL; END''']) command;
CREATE MATERIALIZED VIEW restricted AS SELECT regexp_replace(command, '_[0-9]{8}', '_YYYYMMDD') AS command, tried(command) AS answer FROM commands;
SELECT * FROM restricted;
CREATE TABLE indexed (command text);
INSERT INTO indexed VALUES ('DELETE FROM outbox_internal.log');
CREATE FUNCTION steady(command text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN tried(command); END';
CREATE INDEX ON indexed (steady(command));
SET enable_seqscan = off;
SELECT count(*) AS refused FROM indexed WHERE steady(command) LIKE '55000 cannot delete from outbox_internal.log';
RESET enable_seqscan;

-- functions of outbox do there what they do elsewhere
CREATE MATERIALIZED VIEW called AS SELECT outbox.pause('one', aggregate_type => 'a', aggregate_id => '1', reason => 'test') AS paused,
  outbox.resume('one', aggregate_type => 'a', aggregate_id => '1') AS resumed;
SELECT * FROM called;

-- in the query of a foreign key that is somebody else's
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE answer (command text, answer text);
CREATE FUNCTION try_all() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO answer SELECT command, tried(command) FROM commands WHERE command ~ '^(DELETE|UPDATE|TRUNCATE)';
  RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER try_all BEFORE UPDATE OR DELETE ON child FOR EACH ROW EXECUTE FUNCTION try_all();
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1);
UPDATE parent SET id = 2;
DELETE FROM parent;
SELECT count(*), command, answer FROM answer GROUP BY 2, 3 ORDER BY 2, 3;

-- what hangs on a route goes with it, pauses and places of lanes included, and the audit has one row
CALL outbox.seek('one', 'infinity', dry_run => false);
SELECT outbox.pause('one', topic => 't', reason => 'test') AS paused;
DELETE FROM outbox.route;
SELECT (SELECT count(*) FROM outbox_internal.lane) AS lanes, (SELECT count(*) FROM outbox.pause) AS pauses, (SELECT count(*) FROM outbox.pause WHERE server IS NOT NULL) AS of_the_server;
SELECT action, count(*) FROM outbox.audit WHERE action IN ('drop_route', 'allow_loss') GROUP BY 1;
\c :db
DROP DATABASE regress_everywhere;
