-- doctor(): says what was looked at, and what is wrong.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_events FOREIGN DATA WRAPPER outbox_log;
CREATE SERVER regress_kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" 'localhost:9092');
-- the first emit makes the outbox belong here
SELECT outbox.emit('regress', '1', 'looked', '{}') IS NOT NULL AS emitted;
SELECT DISTINCT "check" FROM outbox.doctor() WHERE "check" <> 'lane' ORDER BY 1;
SELECT count(*) AS of_no_known_status FROM outbox.doctor() WHERE status NOT IN ('ok', 'warning', 'problem');
SELECT count(*) AS problem_without_hint FROM outbox.doctor() WHERE status <> 'ok' AND hint IS NULL;
SELECT "check", status, detail, hint FROM outbox.doctor() WHERE "check" IN ('preload', 'version', 'identity') ORDER BY 1;
\x on
BEGIN;
SET outbox.allow_loss = on;
UPDATE outbox_internal.identity SET database = 0;
SELECT * FROM outbox.doctor() WHERE "check" = 'identity';
DELETE FROM outbox_internal.identity;
SELECT status FROM outbox.doctor() WHERE "check" = 'identity';
ROLLBACK;
RESET outbox.allow_loss;
BEGIN;
UPDATE pg_extension SET extversion = '9.9' WHERE extname = 'outbox';
SELECT * FROM outbox.doctor() WHERE "check" = 'version';
ROLLBACK;
-- a moment after the first route was made its worker may not run yet: no problem
BEGIN;
SELECT outbox.create_route('regress one', 'regress_events') > 0 AS made;
SELECT count(*) AS problems FROM outbox.doctor() WHERE "check" = 'workers' AND status = 'problem';
ROLLBACK;
BEGIN;
DELETE FROM outbox.route;
SELECT * FROM outbox.doctor() WHERE "check" = 'route';
SELECT count(*) AS lanes FROM outbox.doctor() WHERE "check" = 'lane';
SELECT outbox.create_route('regress one', 'regress_events') > 0 AS made;
SELECT * FROM outbox.doctor() WHERE "check" IN ('route', 'lane') ORDER BY 1;
SELECT outbox.create_route('regress two', 'regress_kafka') > 0 AS made;
ALTER SERVER regress_kafka OPTIONS (DROP "bootstrap.servers");
UPDATE outbox.route SET server = 'regress_nowhere' WHERE name = 'regress one';
SELECT * FROM outbox.doctor() WHERE "check" = 'route' ORDER BY detail COLLATE "C";
-- a route edited by hand
UPDATE outbox.route SET server = 'regress_events', topic = '{' WHERE name = 'regress one';
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'route' AND detail LIKE '%one%';
ROLLBACK;
BEGIN;
DELETE FROM outbox_internal.parked;
SELECT status, detail FROM outbox.doctor() WHERE "check" IN ('parked', 'dead letters');
SELECT outbox.create_route('regress one', 'regress_events') AS route_id \gset
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, topic, error_class, error_code, error_message)
VALUES (:route_id, 0, now(), '11111111-2222-4333-8444-555555555555', 'a', 'e', 't', 'message', 'CODE', 'refused');
SELECT * FROM outbox.doctor() WHERE "check" IN ('parked', 'dead letters');
-- more than are counted, or exactly as many
CREATE FUNCTION pg_temp.park(first int, last int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, due_at, aggregate_type, event_type, topic)
  SELECT r.id, 0, timestamptz '2025-01-01' + n * interval '1 second', gen_random_uuid(), 'scheduled', 'infinity', 'a', 'e', 't'
  FROM (SELECT id FROM outbox.route WHERE name = 'regress one') r, generate_series(first, last) n $$;
SELECT pg_temp.park(1, 10000);
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'parked';
SELECT parked, parked_capped FROM outbox.lag WHERE parked > 1000;
SELECT pg_temp.park(10001, 10001);
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'parked';
SELECT parked, parked_capped FROM outbox.lag WHERE parked > 1000;
ROLLBACK;
BEGIN;
SET outbox.allow_loss = on;
DELETE FROM outbox_internal.foreign_event;
RESET outbox.allow_loss;
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'foreign rows';
INSERT INTO outbox_internal.foreign_event DEFAULT VALUES;
INSERT INTO outbox_internal.foreign_event DEFAULT VALUES;
SELECT * FROM outbox.doctor() WHERE "check" = 'foreign rows';
ROLLBACK;
BEGIN;
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'publications';
CREATE TABLE regress_published (id int PRIMARY KEY);
CREATE PUBLICATION regress_own FOR TABLE regress_published;
SELECT status FROM outbox.doctor() WHERE "check" = 'publications';
CREATE PUBLICATION regress_inside FOR TABLES IN SCHEMA outbox_internal;
SELECT detail FROM outbox.doctor() WHERE "check" = 'publications';
CREATE PUBLICATION "regress All" FOR ALL TABLES;
CREATE PUBLICATION regress_schema FOR TABLES IN SCHEMA outbox;
CREATE PUBLICATION regress_table FOR TABLE outbox_internal.log;
SELECT * FROM outbox.doctor() WHERE "check" = 'publications';
ROLLBACK;
DROP SERVER regress_events, regress_kafka;
