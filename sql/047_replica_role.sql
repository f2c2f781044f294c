-- matrix: C13
-- session_replication_role = replica and triggers that users switch off: what emits still emits, the log's guard still
-- guards, and only triggers of users obey.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE TABLE regress_role (id int PRIMARY KEY);
CREATE TRIGGER events AFTER INSERT ON regress_role FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('regress_role', 'id');
BEGIN;
SET LOCAL session_replication_role = replica;
SELECT outbox.emit('regress_role', 1, 'emit', '{}') IS NOT NULL AS emit, outbox.emit_tombstone('regress_role', 1, 'tombstone') IS NOT NULL AS tombstone,
  cardinality(outbox.emit_many('regress_role', NULL, 'many', '{1,2}')) AS many;
-- through the view, too, whose triggers would not fire
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('regress_role', '1', 'view', '{}')
  RETURNING id IS NOT NULL AS id, created_at IS NOT NULL AS created_at;
DO $$ BEGIN INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) SELECT 'regress_role', '1', 'in a function', '{}'; END $$;
PREPARE through_the_view AS INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('regress_role', '1', 'prepared', '{}');
EXECUTE through_the_view;
WITH made AS (INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('regress_role', '1', 'in a CTE', '{}') RETURNING id)
SELECT count(*) FROM made;
SELECT event_type, count(*) FROM outbox.event GROUP BY 1 ORDER BY 1;
SAVEPOINT s;
UPDATE outbox.event SET payload = '1';
ROLLBACK TO s;
DELETE FROM outbox.event;
ROLLBACK TO s;
-- COPY would lose them, and says so
\set VERBOSITY default
COPY outbox.event (aggregate_type, event_type, payload) FROM '/dev/null';
ROLLBACK TO s;
-- a user's own view is left alone
CREATE VIEW regress_role_view AS SELECT id FROM regress_role;
CREATE FUNCTION regress_role_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''fired''; END';
CREATE TRIGGER refuse INSTEAD OF INSERT ON regress_role_view FOR EACH ROW EXECUTE FUNCTION regress_role_refuse();
INSERT INTO regress_role_view VALUES (99);
-- so is his trigger
INSERT INTO regress_role VALUES (1);
SELECT count(*) AS of_the_trigger FROM outbox.event WHERE event_type = 'regress_role.created';
ALTER TABLE regress_role ENABLE ALWAYS TRIGGER events;
INSERT INTO regress_role VALUES (2);
SELECT count(*) AS of_the_trigger FROM outbox.event WHERE event_type = 'regress_role.created';
-- the guard of the log fires in any role
INSERT INTO outbox_internal.log SELECT created_at, id, xid, aggregate_type, aggregate_id, 'by hand', payload FROM outbox_internal.log WHERE aggregate_type = 'regress_role' LIMIT 1;
SELECT count(*) FILTER (WHERE event_type = 'by hand') AS in_the_log FROM outbox_internal.log;
SELECT event_type FROM outbox_internal.foreign_event WHERE event_type = 'by hand';
ROLLBACK;
-- switched off: the user's trigger is silent, emit() is not
BEGIN;
ALTER TABLE regress_role DISABLE TRIGGER ALL;
INSERT INTO regress_role VALUES (3);
SELECT count(*) AS of_the_trigger FROM outbox.event;
SELECT outbox.emit('regress_role', 3, 'emit', '{}') IS NOT NULL AS emit;
SELECT count(*) AS all FROM outbox.event;
ROLLBACK;
-- the view's cannot be switched off
ALTER TABLE outbox.event DISABLE TRIGGER ALL;
DROP TABLE regress_role;
