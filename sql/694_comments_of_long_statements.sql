-- outbox.trace_from_comment and statements so long that their comment is remembered: of each its own, in the same transaction, too.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\pset null '(null)'
SELECT repeat('x', 20000) AS pad, repeat('y', 400) AS state, repeat('z', 3001) AS too_long \gset
BEGIN;
CREATE TEMP VIEW got AS SELECT event_type, headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id_if_assigned() ORDER BY created_at, event_type;
SET LOCAL outbox.trace_from_comment = on;
-- Of one length: they come to the same place in memory.
SELECT outbox.emit('o', n, 'a1 one', '1') IS NOT NULL AS emitted FROM generate_series(1, 2) n WHERE :'pad' <> '' /*traceparent='00-11111111111111111111111111111111-00f067aa0ba902b7-01',tracestate='a%3D1',baggage='b%3D1'*/;
SELECT outbox.emit('o', n, 'a2 two', '1') IS NOT NULL AS emitted FROM generate_series(1, 2) n WHERE :'pad' <> '' /*traceparent='00-22222222222222222222222222222222-00f067aa0ba902b7-01',tracestate='a%3D2',baggage='b%3D2'*/;
SELECT outbox.emit('o', n, 'a3 not', '1') IS NOT NULL AS emitted FROM generate_series(1, 2) n WHERE :'pad' <> '' /*Traceparent='00-33333333333333333333333333333333-00f067aa0ba902b7-01',Tracestate='a%3D3',Baggage='b%3D3'*/;
/*traceparent='00-44444444444444444444444444444444-00f067aa0ba902b7-01'*/ SELECT outbox.emit('o', n, 'a4 beginning', '1') IS NOT NULL AS emitted FROM generate_series(1, 2) n WHERE :'pad' <> '';
SELECT outbox.emit('o', 1, 'a5 short', '1') IS NOT NULL AS emitted /*traceparent='00-55555555555555555555555555555555-00f067aa0ba902b7-01'*/;
SELECT outbox.emit('o', 1, 'a6 two in one message', '1') IS NOT NULL AS emitted \; SELECT outbox.emit('o', 1, 'a7 two in one message', '1') IS NOT NULL AS emitted WHERE :'pad' <> '' /*traceparent='00-66666666666666666666666666666666-00f067aa0ba902b7-01'*/;
SELECT format($$DO $do$ BEGIN PERFORM outbox.emit('o', 1, 'a9 in a block', '1'); PERFORM outbox.emit('o', 2, 'a9 in a block', '1'); PERFORM '%s'; END $do$ /*traceparent='00-99999999999999999999999999999999-00f067aa0ba902b7-01',tracestate='%s',baggage='%s'*/$$, :'pad', :'state', :'too_long') AS block \gset
:block;
SAVEPOINT s;
SELECT outbox.emit('o', 1, 'rolled back', '1') IS NOT NULL AS emitted WHERE :'pad' <> '' /*traceparent='00-cccccccccccccccccccccccccccccccc-00f067aa0ba902b7-01'*/;
ROLLBACK TO s;
PREPARE p AS SELECT outbox.emit('o', 1, $1, '1') IS NOT NULL AS emitted WHERE :'pad' <> '';
EXECUTE p ('b1 executed') /*traceparent='00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01'*/;
EXECUTE p ('b2 executed') /*traceparent='00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-00f067aa0ba902b7-01'*/;
\pset format unaligned
TABLE got;
ROLLBACK;
DEALLOCATE p;
