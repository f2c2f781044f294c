-- matrix: C13
-- COPY into a view of somebody's own whose INSTEAD OF trigger emits, under session_replication_role = replica: no executor's hook sees
-- COPY, so the trigger would not fire, and the rows be gone without a word. It is refused; INSERT emits.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
\set VERBOSITY default
CREATE VIEW regress_copy AS SELECT id, aggregatetype, aggregateid, type, payload FROM outbox.outboxevent;
CREATE TRIGGER emits INSTEAD OF INSERT OR UPDATE OR DELETE ON regress_copy FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
CREATE VIEW regress_copy_event AS SELECT * FROM outbox.event;
CREATE TRIGGER emits INSTEAD OF INSERT ON regress_copy_event FOR EACH ROW EXECUTE FUNCTION outbox_internal.event_insert();
-- over those: what PostgreSQL inserts into by itself, which COPY does not
CREATE VIEW regress_copy_over AS SELECT * FROM regress_copy;
-- others of somebody's own
CREATE TABLE regress_copy_table (id int PRIMARY KEY);
CREATE TRIGGER events AFTER INSERT ON regress_copy_table FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('regress_copy', 'id');
CREATE VIEW regress_copy_other AS SELECT id FROM regress_copy_table;
CREATE FUNCTION regress_copy_silent() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER silent INSTEAD OF INSERT ON regress_copy_other FOR EACH ROW EXECUTE FUNCTION regress_copy_silent();
CREATE TRIGGER deletes INSTEAD OF DELETE ON regress_copy_other FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
BEGIN;
SET LOCAL outbox.lone_emit = allow;
COPY regress_copy FROM stdin;
11111111-1111-4111-8111-111111111111	regress_copy	1	copied	{}
\.
SET LOCAL session_replication_role = replica;
SAVEPOINT s;
COPY regress_copy FROM '/dev/null';
ROLLBACK TO s;
COPY regress_copy_event (aggregate_type, aggregate_id, event_type, payload) FROM '/dev/null';
ROLLBACK TO s;
COPY regress_copy_over FROM '/dev/null';
ROLLBACK TO s;
INSERT INTO regress_copy VALUES ('33333333-3333-4333-8333-333333333333', 'regress_copy', '1', 'inserted', '{}');
INSERT INTO regress_copy_event (aggregate_type, aggregate_id, event_type, payload) VALUES ('regress_copy', '1', 'inserted into the other', '{}');
INSERT INTO regress_copy_over VALUES ('44444444-4444-4444-8444-444444444444', 'regress_copy', '1', 'inserted over it', '{}');
-- left alone: another's trigger, a trigger of a table, and both ways back
COPY regress_copy_other FROM stdin;
1
\.
COPY regress_copy_table FROM stdin;
2
\.
COPY (SELECT count(*) FROM regress_copy) TO stdout;
SET LOCAL session_replication_role = local;
COPY regress_copy FROM stdin;
55555555-5555-4555-8555-555555555555	regress_copy	1	local	{}
\.
SELECT event_type FROM outbox.event WHERE aggregate_type = 'regress_copy' ORDER BY created_at;
ROLLBACK;
DROP VIEW regress_copy, regress_copy_event, regress_copy_other, regress_copy_over;
DROP TABLE regress_copy_table;
DROP FUNCTION regress_copy_silent;
