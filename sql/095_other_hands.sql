-- By other ways than the log's own rows: what says which events are undelivered, what guards them, and the shape of the
-- tables. Refused with numbers while something is undelivered; the extension's own functions go on working.
-- matrix: C19 R17 R60 R61
\set db :DBNAME
CREATE DATABASE regress_hands;
\c regress_hands
CREATE ROLE regress_hands_owner SUPERUSER;
SET ROLE regress_hands_owner;
CREATE EXTENSION outbox;
RESET ROLE;
CREATE SERVER regress_hands FOREIGN DATA WRAPPER outbox_log;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
CREATE FUNCTION day() RETURNS text LANGUAGE sql AS $$ SELECT 'outbox_internal.log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') $$;
BEGIN;
SELECT outbox.create_route(name, 'regress_hands', aggregate_types => types::text[]) > 0 AS made
FROM (VALUES ('log', '{one}'), ('parked', '{two}'), ('empty', '{three}'), ('dead', '{four}')) r (name, types);
SELECT count(outbox.pause(name, reason => 'test')) FROM outbox.route;
COMMIT;
-- Nothing undelivered: nobody is in anybody's way.
SELECT command, tried(command) FROM unnest(ARRAY['DELETE FROM outbox.route', 'DELETE FROM outbox_internal.lane', 'TRUNCATE outbox.route CASCADE',
  'ALTER EXTENSION outbox DROP TABLE outbox_internal.log', 'ALTER TABLE outbox_internal.log DISABLE TRIGGER ALL', 'DROP TRIGGER no_loss ON outbox_internal.lane',
  'DROP OWNED BY regress_hands_owner CASCADE']) command;
-- But of guards that keep something else than undelivered events, and of lanes: without them a route delivers nothing.
CREATE FUNCTION empties() RETURNS void LANGUAGE sql AS 'TRUNCATE outbox_internal.side_topic; TRUNCATE outbox_internal.lane CASCADE';
SELECT command, tried(command) FROM unnest(ARRAY['ALTER TABLE outbox.audit DISABLE TRIGGER ALL', 'ALTER TABLE outbox.pause DISABLE TRIGGER no_change', 'DROP TRIGGER no_change ON outbox.audit',
  'ALTER TABLE outbox_internal.identity DISABLE TRIGGER USER', 'ALTER TABLE outbox_internal.foreign_event ENABLE REPLICA TRIGGER no_loss',
  'ALTER TABLE outbox_internal.inbox_undated_a DISABLE TRIGGER ALL', 'TRUNCATE outbox_internal.lane CASCADE', 'TRUNCATE outbox_internal.side_topic, outbox_internal.lane CASCADE', 'SELECT empties()']) command;
BEGIN;
SELECT outbox.receive('regress', md5('1')::uuid) AS fresh;
SELECT tried('ALTER TABLE outbox_internal.inbox_undated_a DISABLE TRIGGER ALL'), tried('ALTER TABLE outbox_internal.inbox_stream DISABLE TRIGGER ALL');
\x on
SELECT * FROM refused('ALTER TABLE outbox.audit DISABLE TRIGGER ALL');
\x off
SET LOCAL outbox.allow_loss = on;
ALTER TABLE outbox.audit DISABLE TRIGGER ALL;
SELECT detail FROM outbox.audit WHERE action = 'allow_loss';
ROLLBACK;
-- Dead letters stay where they are: nothing is told of them.
BEGIN;
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, aggregate_type, event_type, topic)
SELECT id, 0, now(), gen_random_uuid(), 'dead', 'x', 'e', 't' FROM outbox.route WHERE name = 'dead';
ALTER TABLE outbox_internal.log DISABLE TRIGGER ALL;
TRUNCATE outbox_internal.side_topic;
TRUNCATE outbox_internal.parked;
ROLLBACK;
SELECT count(outbox.emit('one', n, 'e', '{}')) FROM generate_series(1, 3) n;
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, event_type, topic)
SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 second', gen_random_uuid(), (ARRAY['dead', 'scheduled', 'retrying', 'blocked'])[n % 4 + 1],
  CASE WHEN n % 4 IN (1, 2) THEN timestamptz 'infinity' END, 'x', 'e', 't'
FROM outbox.route r, generate_series(0, 8) n WHERE r.name = 'parked' OR (r.name = 'dead' AND n % 4 = 0);
\x on
-- each with its own numbers
SELECT * FROM refused('DELETE FROM outbox.route WHERE name = ''log''');
SELECT * FROM refused('DELETE FROM outbox.route WHERE name = ''parked''');
SELECT * FROM refused('DELETE FROM outbox_internal.lane USING outbox.route r WHERE r.id = route_id AND r.name = ''log''');
-- A route's new name is one that create_route() takes; one that stays as it is was asked before.
SELECT * FROM refused('UPDATE outbox.route SET name = '''' WHERE name = ''log''');
SELECT code, message FROM refused('UPDATE outbox.route SET name = repeat(''x'', 64) WHERE name = ''log''');
SELECT tried('UPDATE outbox.route SET name = name WHERE name = ''log''');
-- However the session has names quoted.
SET quote_all_identifiers = on;
SELECT code, message FROM refused('DELETE FROM outbox.route WHERE name = ''log''');
SELECT code, message FROM refused('DELETE FROM outbox_internal.log');
SELECT code, message FROM refused('DELETE FROM outbox_internal.lane USING outbox.route r WHERE r.id = route_id AND r.name = ''log''');
SELECT code, message FROM refused('UPDATE outbox_internal.identity SET instance = ''another''');
SELECT code, message FROM refused('DELETE FROM outbox_internal.parked');
RESET quote_all_identifiers;
SELECT * FROM refused('DELETE FROM outbox_internal.parked WHERE state = ''scheduled''');
SELECT * FROM refused('TRUNCATE outbox_internal.parked');
SELECT * FROM refused('ALTER TABLE outbox_internal.log DISABLE TRIGGER log_loss');
SELECT * FROM refused('ALTER EXTENSION outbox DROP TABLE outbox_internal.log');
SELECT * FROM refused('ALTER TABLE outbox_internal.log ADD COLUMN extra int');
\x off
CREATE TABLE kid (LIKE outbox_internal.lane);
CREATE TABLE whole (LIKE outbox_internal.side_topic) PARTITION BY LIST (topic);
SELECT regexp_replace(command, '[0-9]{8}', 'YYYYMMDD') AS command, tried(command) FROM unnest(ARRAY[
  -- what holds nothing
  'DELETE FROM outbox.route WHERE name = ''empty''',
  'DELETE FROM outbox_internal.parked WHERE state = ''dead''',
  'DELETE FROM outbox.route WHERE name = ''dead''',
  -- rows
  'DELETE FROM outbox.route', 'DELETE FROM outbox_internal.lane', 'DELETE FROM outbox_internal.parked',
  'WITH gone AS (DELETE FROM outbox_internal.parked RETURNING 1) SELECT count(*) FROM gone',
  'MERGE INTO outbox_internal.parked p USING (VALUES (1)) v ON true WHEN MATCHED THEN DELETE',
  -- tables
  'TRUNCATE outbox.route CASCADE', 'TRUNCATE outbox_internal.lane CASCADE', 'TRUNCATE outbox_internal.side_lane CASCADE', 'TRUNCATE outbox_internal.side_topic', 'TRUNCATE outbox_internal.adopted',
  'TRUNCATE ' || day(),
  -- all of it
  'DROP EXTENSION outbox CASCADE', 'DROP SCHEMA outbox CASCADE', 'DROP OWNED BY regress_hands_owner CASCADE', 'DROP SERVER regress_hands CASCADE',
  'DROP FOREIGN DATA WRAPPER outbox_log CASCADE',
  -- out of the extension first
  'ALTER EXTENSION outbox DROP FUNCTION outbox_internal.refuse_loss()', 'ALTER EXTENSION outbox DROP TABLE outbox_internal.side_topic',
  -- a day
  'ALTER TABLE outbox_internal.log DETACH PARTITION ' || day(), 'DROP TABLE ' || day(),
  -- guards
  'ALTER TABLE outbox_internal.log DISABLE TRIGGER ALL', 'ALTER TABLE ' || day() || ' DISABLE TRIGGER USER', 'ALTER TABLE outbox_internal.parked DISABLE TRIGGER no_loss',
  'ALTER TABLE outbox_internal.log ENABLE REPLICA TRIGGER log_loss', 'ALTER TABLE outbox.route ENABLE ALWAYS TRIGGER no_loss',
  'DROP TRIGGER log_loss ON outbox_internal.log', 'DROP TRIGGER log_loss ON ' || day(), 'DROP TRIGGER no_loss ON outbox_internal.parked', 'ALTER TRIGGER no_loss ON outbox_internal.parked RENAME TO x',
  -- the shape of tables
  'ALTER TABLE outbox_internal.log DROP COLUMN topic', 'ALTER TABLE outbox_internal.log ALTER COLUMN aggregate_id TYPE varchar', 'ALTER TABLE outbox_internal.log ADD CHECK (event_type <> '''')',
  'ALTER TABLE ' || day() || ' ALTER COLUMN aggregate_id SET NOT NULL', 'ALTER TABLE outbox.route ADD COLUMN mine int', 'ALTER TABLE outbox_internal.parked RENAME COLUMN topic TO t',
  'ALTER TABLE outbox_internal.log RENAME TO events', 'ALTER TABLE outbox_internal.log SET SCHEMA public', 'ALTER SCHEMA outbox RENAME TO x', 'ALTER TABLE outbox_internal.lane ENABLE ROW LEVEL SECURITY',
  'CREATE UNIQUE INDEX ON outbox_internal.parked (event_type)', 'CREATE UNIQUE INDEX ON outbox_internal.inbox_undated_a (event_id)', 'CREATE UNIQUE INDEX ON ' || day() || ' (id)',
  'CREATE TABLE child () INHERITS (outbox_internal.parked)', 'CREATE TABLE child () INHERITS (kid, outbox_internal.parked)', 'CREATE FOREIGN TABLE child () INHERITS (outbox_internal.lane) SERVER regress_hands',
  'ALTER TABLE kid INHERIT outbox_internal.lane', 'ALTER TABLE outbox_internal.lane INHERIT kid', 'ALTER TABLE whole ATTACH PARTITION outbox_internal.side_topic DEFAULT',
  'ALTER TABLE outbox_internal.parked REPLICA IDENTITY NOTHING', 'ALTER TABLE outbox.audit REPLICA IDENTITY DEFAULT', 'ALTER TABLE outbox_internal.lane REPLICA IDENTITY USING INDEX lane_pkey',
  'ALTER TABLE outbox.route ALTER COLUMN id SET GENERATED ALWAYS', 'ALTER TABLE outbox.route SET ACCESS METHOD heap',
  -- and what changes none of it
  'ALTER TABLE outbox_internal.parked REPLICA IDENTITY FULL', 'CREATE TABLE child () INHERITS (kid)', 'CREATE STATISTICS statistics ON route_id, lane FROM outbox_internal.parked',
  'ALTER TABLE outbox_internal.log ALTER COLUMN payload SET STORAGE EXTERNAL', 'ALTER TABLE outbox_internal.parked SET (fillfactor = 70)', 'ALTER TABLE outbox.route ALTER COLUMN name SET STATISTICS 10',
  'ALTER TABLE outbox_internal.log OWNER TO regress_hands_owner', 'CREATE INDEX ON ' || day() || ' (created_at)']) command;
-- in a session whose triggers do not fire
SET session_replication_role = replica;
SELECT tried('DELETE FROM outbox_internal.parked'), tried('DELETE FROM outbox.route'), tried('TRUNCATE outbox.route CASCADE');
RESET session_replication_role;
-- a trigger of somebody's own, and an object of somebody's own
CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER mine AFTER INSERT ON outbox.audit EXECUTE FUNCTION mine();
ALTER TABLE outbox.audit DISABLE TRIGGER mine;
DROP TRIGGER mine ON outbox.audit;
-- a table of somebody's own with the same trigger
CREATE TABLE parked (route_id bigint);
CREATE TRIGGER no_loss BEFORE DELETE ON parked FOR EACH ROW EXECUTE FUNCTION outbox_internal.refuse_loss();
INSERT INTO parked VALUES (1);
DELETE FROM parked;
DROP TABLE parked;
-- A unique index of somebody else's, where it got there, is not taken for a mark.
BEGIN;
SET LOCAL outbox.allow_loss = on;
CREATE UNIQUE INDEX regress_unique ON outbox_internal.inbox_undated_a (event_id);
SELECT outbox.receive('billing', md5('1')::uuid) AS fresh;
SELECT outbox.receive('search', md5('1')::uuid) AS fresh;
ROLLBACK;
-- Somebody who may not is told so, and nothing else.
CREATE ROLE regress_hands;
SET ROLE regress_hands;
ALTER TABLE outbox_internal.log ADD COLUMN extra int;
DROP TRIGGER log_loss ON outbox_internal.log;
SET outbox.allow_loss = on;
RESET ROLE;
-- A superuser who says so: told once, whatever it takes along.
SET outbox.allow_loss = on;
BEGIN; TRUNCATE outbox_internal.log; TRUNCATE outbox_internal.log; ROLLBACK;
BEGIN; TRUNCATE outbox.route CASCADE; ROLLBACK;
BEGIN; DELETE FROM outbox_internal.parked; DELETE FROM outbox_internal.parked; ROLLBACK;
BEGIN; DELETE FROM outbox.route; SELECT count(*) FROM outbox_internal.parked; ROLLBACK;
BEGIN; ALTER TABLE outbox_internal.log DISABLE TRIGGER ALL; ROLLBACK;
BEGIN; ALTER TABLE outbox_internal.log ADD COLUMN extra int; ROLLBACK;
BEGIN; SET client_min_messages = error; ALTER EXTENSION outbox DROP TABLE outbox_internal.side_topic; ROLLBACK;
RESET outbox.allow_loss;
-- What was let through goes back with a savepoint, and is asked about again.
CREATE TABLE mine (a int);
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
CREATE TRIGGER fails BEFORE TRUNCATE ON mine EXECUTE FUNCTION fails();
BEGIN;
SAVEPOINT a;
SET LOCAL outbox.allow_loss = on;
TRUNCATE outbox_internal.log, mine;
ROLLBACK TO a;
TRUNCATE outbox_internal.log;
ROLLBACK TO a;
SET LOCAL outbox.allow_loss = on;
TRUNCATE outbox_internal.log, mine;
ROLLBACK TO a;
DELETE FROM outbox_internal.lane USING outbox.route r WHERE r.id = route_id AND r.name = 'log';
ROLLBACK TO a;
SET LOCAL outbox.allow_loss = on;
DELETE FROM outbox_internal.lane USING outbox.route r WHERE r.id = route_id AND r.name = 'log';
ROLLBACK TO a;
DELETE FROM outbox_internal.lane USING outbox.route r WHERE r.id = route_id AND r.name = 'log';
ROLLBACK;
DROP TABLE mine;
-- A column that came by another way (a session that had not loaded the library): in nobody's way, in whatever is made of
-- the row: short, long, toasted, many at once, read as own event, erased; nor when it is dropped again.
SET outbox.allow_loss = on;
ALTER TABLE outbox_internal.log ADD COLUMN extra int;
ALTER TABLE outbox_internal.log ADD COLUMN filled int NOT NULL DEFAULT 7;
ALTER TABLE outbox_internal.log_spare ADD COLUMN extra int;
CREATE INDEX ON outbox_internal.log (extra, filled);
RESET outbox.allow_loss;
BEGIN;
SELECT outbox.emit('one', 'k', 'short', '{"n": 1}') IS NOT NULL AS emitted;
SELECT outbox.emit_text('one', 'long', 'long', string_agg(md5(n::text), '')) IS NOT NULL AS emitted FROM generate_series(1, 1000) n;
SELECT count(*) FROM outbox.emit_many('one', '{a,b}', 'many', '{"1","2"}');
SELECT aggregate_id, event_type, payload FROM outbox.event WHERE event_type <> 'long' ORDER BY created_at;
COMMIT;
SELECT event_type, extra, filled, length(payload) FROM outbox_internal.log WHERE event_type IN ('short', 'long', 'many') ORDER BY created_at;
SELECT count(*) FROM outbox_internal.log WHERE filled = 7 AND event_type = 'many';
CREATE FUNCTION peeked() RETURNS TABLE (event_type text, aggregate_id text) LANGUAGE sql AS $$
  SELECT event_type, aggregate_id FROM outbox.peek('log') $$;
SELECT * FROM peeked();
SET outbox.allow_loss = on;
ALTER TABLE outbox_internal.log DROP COLUMN extra, DROP COLUMN filled;
RESET outbox.allow_loss;
SELECT outbox.emit('one', 'k', 'dropped again', '{"n": 2}') IS NOT NULL AS emitted;
SELECT * FROM peeked();
SELECT pg_catalog.string_agg(detail, ' ') FROM outbox.doctor() WHERE "check" = 'guards';
CALL outbox.forget('one', 'long', undelivered => true, dry_run => false);
CALL outbox.forget('one', 'k', undelivered => true, dry_run => false);
SELECT event_type, payload = '' AS erased FROM outbox_internal.log WHERE event_type IN ('short', 'long', 'dropped again') ORDER BY created_at;
-- The extension's own functions do what they are for.
SELECT outbox.drop_route('empty');
SELECT outbox.drop_route('dead');
SELECT outbox.discard(id, 'test') FROM outbox.dead_letter;
DO $$ BEGIN PERFORM outbox.skip(id, 'test') FROM outbox_internal.parked; END $$;
SELECT outbox.alter_route('log', lanes => 2);
SELECT outbox.drop_route('log');
SELECT outbox.drop_route('parked');
SELECT count(*) FROM outbox.route;
DROP EXTENSION outbox CASCADE;
\c :db
DROP DATABASE regress_hands;
DROP OWNED BY regress_hands_owner;
DROP ROLE regress_hands_owner, regress_hands;
