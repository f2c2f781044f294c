-- Trace context: from headers, settings, comments, in this order; what cannot be used is left out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\pset null '(null)'
BEGIN;
CREATE TEMP VIEW got AS SELECT event_type, headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id_if_assigned() ORDER BY created_at;
SET LOCAL outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
SET LOCAL outbox.tracestate = 'congo=t61rcWkgMzE';
SET LOCAL outbox.baggage = 'userId=alice,isProduction=false';
SELECT outbox.emit('o', 1, 'settings', '1') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'headers before', '1', '{"traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-00"}') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'baggage', '1', '{"baggage": "a=b", "x": "y"}') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'state of another parent', '1', '{"tracestate": "a=b", "x": "y"}') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'state and parent', '1', '{"traceparent": "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-00", "tracestate": "a=b"}') IS NOT NULL AS emitted;
SET LOCAL outbox.traceparent = '';
SELECT outbox.emit('o', 1, 'no parent', '1') IS NOT NULL AS emitted;
SET LOCAL outbox.baggage = '';
SELECT outbox.emit('o', 1, 'state alone', '1', '{"tracestate": "a=b"}') IS NOT NULL AS emitted;
SET LOCAL outbox.baggage = 'ä';
SELECT outbox.emit('o', 1, 'not ASCII', '1') IS NOT NULL AS emitted;
SET LOCAL outbox.baggage = '';
SELECT outbox.emit('o', 1, 'comments are off', '1') IS NOT NULL AS emitted /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/;
SET LOCAL outbox.trace_from_comment = on;
SELECT outbox.emit('o', 1, 'end', '1') IS NOT NULL AS emitted /*db_driver='x',traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',tracestate='rojo%3D1%2Ccongo%3D2',baggage='a%3D1'*/;
/*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/ SELECT outbox.emit('o', 1, 'beginning', '1') IS NOT NULL AS emitted;
SELECT outbox.emit('o', 1, 'garbage', '1') IS NOT NULL AS emitted /*traceparent='00-00000000000000000000000000000000-00f067aa0ba902b7-01',tracestate='x',baggage='%0a'*/;
-- A zero byte ends nothing: what has one is left out, whatever stands before it.
SELECT outbox.emit('o', 1, 'zero bytes', '1') IS NOT NULL AS emitted /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',tracestate='a=b%00c',baggage='a=%00b'*/;
SELECT outbox.emit('o', 1, 'zero byte behind', '1') IS NOT NULL AS emitted /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01%00garbage',tracestate='a=b',baggage='a=b'*/;
SELECT outbox.emit('o', 1, 'in data', to_jsonb('/*traceparent=''00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01''*/'::text)) IS NOT NULL AS emitted;
SET LOCAL outbox.traceparent = '00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-00f067aa0ba902b7-01';
SELECT outbox.emit('o', 1, 'setting before', '1') IS NOT NULL AS emitted /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',tracestate='other'*/;
SET LOCAL outbox.traceparent = '';
SET LOCAL outbox.tracestate = '';
DO $$ BEGIN PERFORM outbox.emit('o', 1, 'in a function', '1'); END $$ /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/;
PREPARE p AS SELECT outbox.emit('o', 1, $1, '1') IS NOT NULL AS emitted /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/;
EXECUTE p ('executed');
EXECUTE p ('with its own') /*traceparent='00-cccccccccccccccccccccccccccccccc-00f067aa0ba902b7-01'*/;
\pset format unaligned
TABLE got;
ROLLBACK;
DEALLOCATE ALL;
