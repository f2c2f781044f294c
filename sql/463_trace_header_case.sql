-- Trace headers are the same header whatever the case of their letters: the call's wins, is checked, and is in lower case.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\set VERBOSITY default
\set SHOW_CONTEXT never
\pset null '(null)'
BEGIN;
CREATE TEMP VIEW got AS SELECT event_type, headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id_if_assigned() ORDER BY created_at;
SET LOCAL outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
SET LOCAL outbox.tracestate = 'congo=t61rcWkgMzE';
SET LOCAL outbox.baggage = 'userId=alice';
\set ON_ERROR_ROLLBACK on
SELECT outbox.emit('o', 1, 'parent', '1', '{"Traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01", "X-Id": "7"}') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'all three', '1', '{"TRACEPARENT": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01", "TraceState": "a=b", "Baggage": "c=d"}') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'baggage', '1', '{"BAGGAGE": "c=d"}') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'state of another parent', '1', '{"Tracestate": "a=b"}') IS NOT NULL AS emitted;
-- In two spellings: the one that is on the wire.
SELECT outbox.emit('o', 1, 'both', '1', '{"Traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01", "traceparent": "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-00f067aa0ba902b7-01"}') IS NOT NULL AS emitted;
-- By the other ways in.
INSERT INTO outbox.event (aggregate_type, event_type, payload, headers) VALUES ('o', 'insert', '1', '{"traceParent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01"}');
SELECT count(*) FROM outbox.emit_many('[{"aggregate_type": "o", "event_type": "many", "payload": 1, "headers": {"Traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01"}}]');
SELECT outbox.emit_text('o', 1, 'text', 'x', headers => '{"Traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01"}') IS NOT NULL AS emitted;
-- Checked as lower case is; others that look alike are not.
SELECT outbox.emit('o', 1, 'bad', '1', '{"Traceparent": "00-AAAA-01"}');
SELECT outbox.emit('o', 1, 'bad', '1', '{"TraceParent": "x", "traceparent": "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-00f067aa0ba902b7-01"}');
SELECT outbox.emit('o', 1, 'others', '1', '{"X-Traceparent": "x", "Trace-State": "y", "Baggages": "z"}') IS NOT NULL AS emitted;
SET LOCAL outbox.traceparent = '';
SET LOCAL outbox.baggage = '';
SELECT outbox.emit('o', 1, 'without settings', '1', '{"Traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01", "Baggage": "c=d"}') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'state alone', '1', '{"TraceState": "a=b"}') IS NOT NULL AS emitted;
\pset format unaligned
TABLE got;
ROLLBACK;
-- A column of a view that stands where an outbox table stood is such a header, too.
BEGIN;
CREATE TEMP VIEW traced AS SELECT id, aggregatetype, aggregateid, type, payload, tracingspancontext, NULL::text AS "Traceparent" FROM outbox.outboxevent;
CREATE TRIGGER emits INSTEAD OF INSERT ON traced FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
INSERT INTO traced VALUES ('01890000-0000-7000-8000-000000000463', 'o', '1', 'column', '{}', 'traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', '00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01');
SELECT headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id_if_assigned();
ROLLBACK;
