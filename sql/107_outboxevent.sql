-- matrix: H9
-- outbox.outboxevent, which Debezium's own libraries write: INSERT emits, DELETE counts the row and does nothing, UPDATE is
-- refused; the trace's context becomes headers; views of one's own with other columns; rights; every refusal.
\set VERBOSITY default
SET client_min_messages = warning;
CREATE ROLE regress_quarkus;
SELECT outbox.grant_emit('regress_quarkus');
-- What Quarkus' extension sends, in one transaction: an INSERT and the DELETE of what it inserted. Both count one row.
SET ROLE regress_quarkus;
BEGIN;
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, "timestamp", payload, tracingspancontext, id)
VALUES ('Order', '1', 'OrderCreated', '2020-01-01 00:00:00+00', '{"id":1, "x" : [1,2]}',
        E'#Sun Nov 22 10:00:00 UTC 2026\ntraceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\ntracestate=a\\=1,b\\:2\nuber-trace-id=x\n',
        '01890000-0000-7000-8000-000000000001');
SELECT id, aggregatetype, aggregateid, type, payload, "timestamp" > '2021-01-01' AS ours, tracingspancontext FROM outbox.outboxevent;
WITH gone AS (DELETE FROM outbox.outboxevent WHERE id = '01890000-0000-7000-8000-000000000001' RETURNING id)
SELECT count(*) AS counted FROM gone;
SELECT id, aggregate_type, aggregate_id, event_type, payload, headers, content_type FROM outbox.event;
-- text that is no JSON, blank, tombstone, no key, an id of the server's
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload)
VALUES ('Order', '2', 'text', 'not {json'), ('Order', '2', 'blank', ' '), ('Order', '2', 'empty', ''), ('Order', '2', 'gone', NULL), ('Order', NULL, 'no key', '[1]');
SELECT aggregate_id, event_type, payload, payload_text, content_type, id IS NOT NULL AS id FROM outbox.event WHERE aggregate_type = 'Order' AND event_type <> 'OrderCreated' ORDER BY event_type;
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('Order', '2', 'r', '{}') RETURNING id IS NOT NULL AS id, "timestamp" > '2021-01-01' AS ours, payload;
-- a trace that nobody could read is left out, and its event is emitted; properties as java.util.Properties reads them
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload, tracingspancontext) VALUES
 ('Trace', '1', 'a', '{}', 'traceparent=nonsense' || E'\ntracestate=a'), ('Trace', '1', 'b', '{}', ''), ('Trace', '1', 'c', '{}', E'tracestate=a\nbaggage=b'),
 ('Trace', '1', 'd', '{}', E'  ! comment\r\n traceparent : 00-4bf92f3577b34da6a3ce929d0e0e4736-\\\n   00f067aa0ba902b7-01\r\nbaggage\tuser\\u003Dme\n\\'),
 ('Trace', '1', 'e', '{}', E'traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\ntracestate=\\u00e9\nbaggage=' || repeat('x', 5000));
SELECT event_type, headers FROM outbox.event WHERE aggregate_type = 'Trace' ORDER BY event_type;
-- as long as the settings' may be, and no longer
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload, tracingspancontext) VALUES
 ('Trace', '1', 'f', '{}', E'traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\ntracestate=' || repeat('x', 512) || E'\nbaggage=' || repeat('y', 3000)),
 ('Trace', '1', 'g', '{}', E'traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\ntracestate=' || repeat('x', 513) || E'\nbaggage=' || repeat('y', 3001));
SELECT event_type, length(headers ->> 'tracestate') AS tracestate, length(headers ->> 'baggage') AS baggage FROM outbox.event WHERE aggregate_type = 'Trace' AND event_type > 'e' ORDER BY 1;
ROLLBACK;
SELECT count(*) FROM outbox.outboxevent;
-- what is gone is not counted, and what another transaction emitted is not seen
DELETE FROM outbox.outboxevent;
-- refused
UPDATE outbox.outboxevent SET type = 'x';
INSERT INTO outbox.outboxevent (aggregateid, type, payload) VALUES ('1', 'x', '{}');
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, payload) VALUES ('Order', '1', '{}');
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('', '1', 'x', '{}');
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('Order', NULL, 'x', NULL);
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('Order', repeat('k', 1001), 'x', '{}');
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload, id) VALUES ('Order', '1', 'x', '{}', 'no uuid');
RESET ROLE;
-- without the right; taken back
CREATE ROLE regress_other;
SET ROLE regress_other;
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('Order', '1', 'x', '{}');
RESET ROLE;
SELECT outbox.grant_emit('regress_other', '{shop.*}');
SET ROLE regress_other;
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('Order', '1', 'x', '{}');
RESET ROLE;
SELECT outbox.revoke_emit('regress_other');
SELECT has_table_privilege('regress_other', 'outbox.outboxevent', 'INSERT, SELECT, UPDATE, DELETE') AS may,
  has_function_privilege('regress_other', 'outbox.emit_outboxevent()', 'EXECUTE') AS function_too;
-- a view in the place of a table of one's own: its name, its columns, types that are not text
CREATE SCHEMA regress_shop;
CREATE VIEW regress_shop.outboxevent AS SELECT id::text, aggregatetype, aggregateid::bigint AS aggregateid, type, payload::jsonb AS payload,
  NULL::int AS shard, NULL::boolean AS urgent, NULL::timestamptz AS seen_at, NULL::text AS tenant, "timestamp"::text AS "timestamp" FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT OR UPDATE OR DELETE ON regress_shop.outboxevent FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
GRANT USAGE ON SCHEMA regress_shop TO regress_other;
GRANT INSERT, SELECT, UPDATE, DELETE ON regress_shop.outboxevent TO regress_other;
SET ROLE regress_other;
SET datestyle = 'German';
SET timezone = 'UTC';
BEGIN;
INSERT INTO regress_shop.outboxevent VALUES ('01890000-0000-7000-8000-000000000002', 'Order', 7, 'x', '{"a":1}', 3, true, '2026-01-02 03:04:05+00', NULL, 'then')
RETURNING id, "timestamp";
DELETE FROM regress_shop.outboxevent WHERE id = '01890000-0000-7000-8000-000000000002';
SAVEPOINT s;
RESET ROLE;
SELECT id, aggregate_id, payload, headers FROM outbox.event;
UPDATE regress_shop.outboxevent SET type = 'y' WHERE id = '01890000-0000-7000-8000-000000000002';
ROLLBACK;
RESET ROLE;
RESET datestyle;
RESET timezone;
-- and over the view itself, which PostgreSQL makes updatable; bytes
CREATE VIEW regress_shop.same AS SELECT * FROM outbox.outboxevent;
BEGIN;
INSERT INTO regress_shop.same (aggregatetype, aggregateid, type, payload) VALUES ('Order', '1', 'same', '{}');
CREATE VIEW regress_shop.bytes AS SELECT aggregatetype, type, payload::bytea AS payload FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT ON regress_shop.bytes FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
INSERT INTO regress_shop.bytes VALUES ('Order', 'bytes', '\x00ff');
SELECT event_type, aggregate_id, payload, payload_bytes, content_type FROM outbox.event ORDER BY event_type;
ROLLBACK;
-- one key, and the same headers, whatever a session has set; a domain is what it is made of
CREATE DOMAIN regress_shop.blob AS bytea;
CREATE DOMAIN regress_shop.moment AS timestamptz;
CREATE VIEW regress_shop.keyed AS SELECT aggregatetype, ''::bytea AS aggregateid, type, ''::regress_shop.blob AS payload, now()::regress_shop.moment AS at,
  now() - now() AS span, tstzrange(now(), NULL) AS range FROM outbox.outboxevent;
CREATE VIEW regress_shop.timed AS SELECT aggregatetype, now() AS aggregateid, type, payload FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT ON regress_shop.keyed FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
CREATE TRIGGER emit INSTEAD OF INSERT ON regress_shop.timed FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
BEGIN;
SET LOCAL timezone = 'UTC';
INSERT INTO regress_shop.keyed VALUES ('Keyed', 'abc', 'one', '\x00ff', '2026-02-01 00:00+00', '1 day 2:03', '[2026-02-01 00:00+00,)');
INSERT INTO regress_shop.timed VALUES ('Timed', '2026-02-01 00:00+00', 'one', '{}');
SET LOCAL timezone = 'Asia/Tokyo';
SET LOCAL datestyle = 'SQL, DMY';
SET LOCAL intervalstyle = 'iso_8601';
SET LOCAL bytea_output = 'escape';
INSERT INTO regress_shop.keyed VALUES ('Keyed', 'abc', 'two', '\x00ff', '2026-02-01 00:00+00', '1 day 2:03', '[2026-02-01 00:00+00,)');
INSERT INTO regress_shop.timed VALUES ('Timed', '2026-02-01 00:00+00', 'two', '{}');
SHOW bytea_output;
SET LOCAL bytea_output = 'hex';
SELECT event_type, aggregate_id, payload_bytes, content_type, headers FROM outbox.event ORDER BY aggregate_type, event_type;
ROLLBACK;
-- a view that lacks what an event needs, a header whose name is taken, and other uses
CREATE VIEW regress_shop.lacks AS SELECT id, aggregatetype, payload FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT ON regress_shop.lacks FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
INSERT INTO regress_shop.lacks VALUES (NULL, 'Order', '{}');
CREATE VIEW regress_shop.taken AS SELECT aggregatetype, type, payload, ''::text AS key FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT ON regress_shop.taken FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
INSERT INTO regress_shop.taken VALUES ('Order', 'x', '{}', 'k');
CREATE TABLE regress_shop.plain (aggregatetype text, type text, payload text);
CREATE TRIGGER emit AFTER INSERT ON regress_shop.plain FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
INSERT INTO regress_shop.plain VALUES ('Order', 'x', '{}');
SELECT outbox.emit_outboxevent();
BEGIN READ ONLY;
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('Order', '1', 'x', '{}');
ROLLBACK;
-- where triggers of others do not fire, these do; COPY says that it cannot; nobody switches them off
CREATE VIEW regress_shop.mine AS SELECT aggregatetype, type, payload FROM outbox.outboxevent;
CREATE TRIGGER emit INSTEAD OF INSERT OR DELETE ON regress_shop.mine FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
BEGIN;
SET LOCAL session_replication_role = replica;
INSERT INTO outbox.outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('Order', '1', 'replica', '{}');
INSERT INTO regress_shop.mine VALUES ('Order', 'replica, mine', '{}');
DELETE FROM regress_shop.mine;
SELECT event_type FROM outbox.event ORDER BY 1;
COPY outbox.outboxevent (aggregatetype, type, payload) FROM '/dev/null';
ROLLBACK;
ALTER TABLE outbox.outboxevent DISABLE TRIGGER ALL;
CREATE RULE lost AS ON INSERT TO outbox.outboxevent DO INSTEAD NOTHING;
DROP TRIGGER outboxevent ON outbox.outboxevent;
DROP VIEW outbox.outboxevent;
DROP SCHEMA regress_shop CASCADE;
SELECT outbox.revoke_emit('regress_quarkus');
DROP ROLE regress_quarkus;
DROP ROLE regress_other;
