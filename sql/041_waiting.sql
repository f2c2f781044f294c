-- wait_for and wait_until_idle, with real workers and the server log as destination.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_events FOREIGN DATA WRAPPER outbox_log;

-- no route: nothing to wait for
SELECT outbox.emit('regress_wait', '1', 'x', '{}') AS unrouted \gset
SELECT outbox.wait_for(:'unrouted', '0');
SELECT route, state FROM outbox.status(:'unrouted');

-- arguments
SELECT outbox.wait_for(NULL);
SELECT outbox.wait_for(:'unrouted', NULL);
SELECT outbox.wait_for(:'unrouted', '-1 s');
SELECT outbox.wait_until_idle(NULL);
SELECT outbox.wait_until_idle('-1 day');
SELECT outbox.wait_until_idle(include_delayed => NULL);
SELECT outbox.wait_for('00000000-0000-4000-8000-000000000000');

-- an event of one's own transaction, also from a savepoint
BEGIN;
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
VALUES ('11111111-2222-4333-8444-000000000001', 'regress_wait', '1', 'x', '{}');
SAVEPOINT a;
SELECT outbox.wait_for('11111111-2222-4333-8444-000000000001');
ROLLBACK TO a;
SELECT outbox.wait_for('11111111-2222-4333-8444-000000000001');
ROLLBACK;

-- a route that only this transaction can see is not served: the timeout ends the waiting
BEGIN;
SELECT outbox.create_route('regress unseen', 'regress_events', aggregate_types => '{regress_wait}', start => 'earliest') > 0 AS made;
SET client_min_messages = warning;  -- the NOTICE has the id
SELECT outbox.wait_for(:'unrouted', '20 ms');
RESET client_min_messages;
SELECT outbox.wait_until_idle('20 ms');
ROLLBACK;
BEGIN;
SELECT outbox.create_route('regress unseen', 'regress_events', start => 'earliest') > 0 AS made;
SET LOCAL statement_timeout = '100 ms';
SELECT outbox.wait_until_idle('1 hour');
ROLLBACK;

-- delivered
SELECT outbox.create_route('regress wait', 'regress_events', aggregate_types => '{regress_wait}', lanes => 2) > 0 AS made;
SELECT outbox.emit('regress_wait', '1', 'x', '{}') AS routed \gset
SELECT outbox.wait_for(:'routed', '30 s');
SELECT count(outbox.emit('regress_wait', i, 'x', '{}')) FROM generate_series(1, 1000) i;
SELECT outbox.wait_until_idle('30 s');
SELECT sum(pending) AS pending, sum(inflight) AS inflight FROM outbox.lag WHERE route = 'regress wait';
SELECT state FROM outbox.status(:'routed');
SELECT kind, count(*) > 0 AS some FROM outbox.worker WHERE database = current_database() OR kind = 'launcher' GROUP BY kind ORDER BY kind;
SELECT sum(lanes) >= 2 AS owns_lanes FROM outbox.worker WHERE database = current_database();
-- a change of the route reaches the workers by itself
SELECT outbox.alter_route('regress wait', aggregate_types => '{regress_other}');
SELECT outbox.emit('regress_other', '1', 'x', '{}') AS other \gset
SELECT outbox.wait_for(:'other', '30 s');
SELECT route, state FROM outbox.status(:'other');
-- more than is counted through, which nobody wants, lies behind a position that is not saved yet
SELECT count(outbox.emit('regress_nobody', i, 'x', '{}')) FROM generate_series(1, 12000) i;
SELECT outbox.create_route('regress none', 'regress_events', '{regress_none}', start => 'earliest') > 0 AS made;
SELECT clock_timestamp() AS began \gset
SELECT outbox.wait_until_idle('60 s');
SELECT clock_timestamp() - :'began' < interval '6 s' AS soon;
SELECT outbox.drop_route('regress none');
SELECT outbox.drop_route('regress wait');
SELECT outbox.wait_until_idle('30 s');
DROP SERVER regress_events;
