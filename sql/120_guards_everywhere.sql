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
  'ALTER TABLE outbox_internal.log DETACH PARTITION ' || (SELECT l.tableoid::regclass FROM outbox_internal.log l LIMIT 1),
  'ALTER TABLE outbox_internal.lane ADD COLUMN x int', 'DROP INDEX outbox_internal.log_spare_xid',
  'CREATE OR REPLACE FUNCTION outbox_internal.refuse_loss() RETURNS trigger LANGUAGE plpgsql AS ''BEGIN RETURN NULL; END''']) command;
CREATE MATERIALIZED VIEW restricted AS SELECT regexp_replace(command, '_[0-9]{8}', '_YYYYMMDD') AS command, tried(command) AS answer FROM commands;
SELECT * FROM restricted;
CREATE TABLE indexed (command text);
INSERT INTO indexed VALUES ('DELETE FROM outbox_internal.log');
CREATE FUNCTION steady(command text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.tried(command); END';
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

-- replaced, each of them
SELECT DISTINCT regexp_replace(tried(regexp_replace(pg_get_triggerdef(t.oid), '^CREATE ', 'CREATE OR REPLACE ')), '_[0-9]{2}$', '_NN') AS answer
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND NOT t.tgisinternal AND t.tgparentid = 0 ORDER BY 1;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
SELECT command, tried(command) FROM unnest(ARRAY[
  'CREATE OR REPLACE TRIGGER log_loss BEFORE UPDATE ON outbox_internal.log FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION outbox_internal.refuse_loss()',
  'CREATE OR REPLACE TRIGGER no_change BEFORE UPDATE ON outbox_internal.lane FOR EACH STATEMENT EXECUTE FUNCTION nothing()',
  'CREATE OR REPLACE TRIGGER mine AFTER UPDATE ON outbox_internal.lane FOR EACH STATEMENT EXECUTE FUNCTION nothing()']) command;
-- ... one's own as often as one likes
CREATE TRIGGER mine AFTER UPDATE ON outbox_internal.lane FOR EACH STATEMENT EXECUTE FUNCTION nothing();
CREATE OR REPLACE TRIGGER mine AFTER INSERT OR UPDATE ON outbox_internal.lane FOR EACH STATEMENT EXECUTE FUNCTION nothing();
DROP TRIGGER mine ON outbox_internal.lane;
-- ... and it is let through, and audited, once for all partitions
BEGIN;
SET LOCAL outbox.allow_loss = on;
CREATE OR REPLACE TRIGGER no_change_rows BEFORE INSERT ON outbox_internal.progress FOR EACH ROW EXECUTE FUNCTION outbox_internal.refuse_change();
SELECT detail FROM outbox.audit WHERE action = 'allow_loss';
ROLLBACK;

-- switched on, they fire always
ALTER TABLE outbox_internal.log ENABLE TRIGGER log_loss;
ALTER TABLE outbox_internal.lane ENABLE TRIGGER ALL, ENABLE TRIGGER USER;
ALTER TABLE outbox_internal.lane ENABLE ALWAYS TRIGGER ignore_replicated;
ALTER TABLE outbox_internal.log_spare ENABLE TRIGGER USER;
SELECT relation_name, trigger_name FROM outbox_internal.wrong_guard WHERE trigger_name <> 'log_guard';
SET session_replication_role = replica;
SELECT tried('DELETE FROM outbox_internal.log'), tried('DELETE FROM outbox_internal.lane');
RESET session_replication_role;

-- names by which what an index is for is known, and what else is called by name
SELECT command, tried(command) FROM unnest(ARRAY[
  'ALTER INDEX outbox_internal.log_spare_xid RENAME TO y', 'ALTER TABLE outbox_internal.log_spare_xid RENAME TO y',
  'ALTER INDEX outbox_internal.lane_pkey RENAME TO y', 'ALTER TABLE outbox_internal.lane RENAME CONSTRAINT lane_pkey TO y',
  'ALTER INDEX outbox_internal.lane RENAME TO y', 'ALTER INDEX outbox.lag RENAME TO y',
  'ALTER SEQUENCE outbox_internal.clock_ceiling RENAME TO y', 'ALTER TABLE outbox_internal.clock_ceiling RENAME TO y']) command;
CREATE INDEX mine ON outbox_internal.lane (owner);
ALTER INDEX outbox_internal.mine RENAME TO still_mine;
DROP INDEX outbox_internal.still_mine;

-- what hangs on a route goes with it, pauses and places of lanes included, and the audit has one row
CALL outbox.seek('one', 'infinity', dry_run => false);
SELECT outbox.pause('one', topic => 't', reason => 'test') AS paused;
DELETE FROM outbox.route;
SELECT (SELECT count(*) FROM outbox_internal.lane) AS lanes, (SELECT count(*) FROM outbox.pause) AS pauses, (SELECT count(*) FROM outbox.pause WHERE server IS NOT NULL) AS of_the_server;
SELECT action, count(*) FROM outbox.audit WHERE action IN ('drop_route', 'allow_loss') GROUP BY 1;
\c :db
DROP DATABASE regress_everywhere;
