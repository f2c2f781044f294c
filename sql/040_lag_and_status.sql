-- What waits, and what became of one event. Routes made in a transaction that is still open: no worker can see them, so
-- that everything waits and nothing depends on time.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_events FOREIGN DATA WRAPPER outbox_log;
CREATE VIEW pg_temp.lag AS
  SELECT route, sum(pending) AS pending, count(*) AS lanes, bool_or(pending_capped) AS capped, min(state) AS state,
         min(oldest_pending) AS oldest, bool_and((delay IS NULL) = (oldest_pending IS NULL)) AS delay_fits,
         sum(inflight) AS inflight, sum(parked) AS parked
  FROM outbox.lag WHERE route LIKE 'regress%' GROUP BY route ORDER BY route;

SELECT clock_timestamp() AS before_all \gset
SELECT outbox.emit('regress_order', '1', 'order.created', '{}') AS first \gset
SELECT outbox.emit('regress_order', '2', 'order.paid', '{}') AS second \gset
SELECT outbox.emit('regress_item', NULL::text, 'item.added', '{}') AS third \gset
BEGIN;
SELECT outbox.emit('regress_item', '9', 'item.added', '{}') AS never \gset
ROLLBACK;

SELECT clock_timestamp() AS before_the_routes \gset
BEGIN;
-- each route counts what it wants, wherever it starts
SELECT outbox.create_route('regress all', 'regress_events', aggregate_types => '{regress_*}', start => :'before_all') > 0 AS made;
SELECT outbox.create_route('regress created', 'regress_events', aggregate_types => '{regress_*}',
  event_types => '{*.created,*.added}', lanes => 3, start => :'before_all') > 0 AS made;
SELECT outbox.create_route('regress now', 'regress_events', aggregate_types => '{regress_*}') > 0 AS made;
SELECT created_at AS of_second FROM outbox.status(:'second') LIMIT 1 \gset
SELECT outbox.create_route('regress from second', 'regress_events', aggregate_types => '{regress_*}', start => :'of_second') > 0 AS made;
SELECT outbox.create_route('regress nothing', 'regress_events', aggregate_types => '{regress_none*}', start => 'earliest') > 0 AS made;
SELECT route, pending, lanes, capped, state, oldest IS NOT NULL AS has_oldest, delay_fits, inflight, parked FROM pg_temp.lag;
-- they have waited since the route is there, not since they were emitted (but where the clock of events is ahead of the machine's)
SELECT l.oldest >= :'before_the_routes' AS since_the_route FROM pg_temp.lag l WHERE l.route = 'regress all';

-- events of one's own are not waiting yet: they are not committed
SELECT outbox.emit('regress_order', '3', 'order.created', '{}') AS mine \gset
SELECT route, pending FROM pg_temp.lag;

-- one row per route that takes the event, with the topic it gets there
SELECT route, state, topic, attempts, error_class FROM outbox.status(:'first') WHERE route LIKE 'regress%' ORDER BY route;
SELECT route, state FROM outbox.status(:'second') WHERE route LIKE 'regress%' ORDER BY route;
SELECT route, state FROM outbox.status(:'third') WHERE route LIKE 'regress%' ORDER BY route;
SELECT route, state FROM outbox.status(:'mine') WHERE route LIKE 'regress%' ORDER BY route;
SELECT count(DISTINCT created_at) FROM outbox.status(:'first');
-- the lane that status names is the one that counts it
SELECT bool_and(l.pending > 0) AS counted_there
FROM outbox.status(:'first') s JOIN outbox.lag l USING (route, lane) WHERE route LIKE 'regress%';
-- rolled back, never there, no id at all
SELECT * FROM outbox.status(:'never');
SELECT * FROM outbox.status('00000000-0000-4000-8000-000000000000');
SELECT * FROM outbox.status(NULL);
-- an explicit topic, and an id that the client gave
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload, topic)
VALUES ('11111111-2222-4333-8444-555555555555', 'regress_order', '4', 'order.created', '{}', 'my.topic');
SELECT route, state, topic FROM outbox.status('11111111-2222-4333-8444-555555555555') WHERE route = 'regress all';

-- dead on one route
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, topic,
  error_class, error_code, error_message, attempts)
SELECT r.id, s.lane, s.created_at, :'first', 'regress_order', '1', 'order.created', s.topic, 'message', 'MSG_SIZE_TOO_LARGE', 'too large', 1
FROM outbox.status(:'first') s JOIN outbox.route r ON r.name = s.route WHERE s.route = 'regress all';
SELECT route, state, attempts, error_class, error_code, error_message, error_since IS NOT NULL AS since
FROM outbox.status(:'first') WHERE route LIKE 'regress%' ORDER BY route;
SELECT route, parked FROM pg_temp.lag WHERE parked > 0;

-- passed: a position that sees the first event, and is half way through what follows
SET outbox.allow_loss = on;
UPDATE outbox_internal.lane SET window_from = '3:3:', window_to = pg_current_snapshot(), done_to = :'of_second'
WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'regress from second');
SELECT outbox.create_route('regress passed', 'regress_events', aggregate_types => '{regress_*}', start => :'before_all') > 0 AS made;
UPDATE outbox_internal.lane SET done_to = :'of_second' WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'regress passed');
SELECT route, pending FROM pg_temp.lag WHERE route = 'regress passed';
SELECT state FROM outbox.status(:'first') WHERE route = 'regress passed';
SELECT state FROM outbox.status(:'second') WHERE route = 'regress passed';
SELECT state FROM outbox.status(:'third') WHERE route = 'regress passed';
-- the newest row of progress counts (the keeper makes its day tables; it may not have come to that yet)
DO $$ BEGIN
  FOR i IN 1..40 LOOP
    EXIT WHEN EXISTS (SELECT FROM pg_inherits WHERE inhparent = 'outbox_internal.progress'::regclass);
    PERFORM pg_sleep(0.05);
  END LOOP;
  IF NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = 'outbox_internal.progress'::regclass) THEN
    CREATE TABLE outbox.progress_regress PARTITION OF outbox_internal.progress FOR VALUES FROM ('-infinity') TO ('infinity');
  END IF;
END $$;
INSERT INTO outbox_internal.progress (at, route_id, lane, window_from)
SELECT clock_timestamp(), id, 0, pg_current_snapshot() FROM outbox.route WHERE name = 'regress passed';
RESET outbox.allow_loss;
SELECT route, pending FROM pg_temp.lag WHERE route = 'regress passed';
SELECT state FROM outbox.status(:'third') WHERE route = 'regress passed';

-- drop_route says what it leaves behind
SELECT outbox.drop_route('regress all');
SELECT outbox.drop_route('regress created');
SELECT outbox.drop_route('regress now');
ROLLBACK;
SELECT route, state FROM outbox.status(:'first') WHERE route IS NULL OR route LIKE 'regress%';

-- a route in the same transaction as its first event: the event is its own, before and after
BEGIN;
SELECT outbox.emit('regress_same', '1', 'x', '{}') AS before_route \gset
SELECT outbox.create_route('regress same', 'regress_events', aggregate_types => '{regress_same}') > 0 AS made;
SELECT outbox.emit('regress_same', '1', 'x', '{}') AS after_route \gset
SELECT route, state FROM outbox.status(:'before_route') WHERE route LIKE 'regress%';
SELECT route, state FROM outbox.status(:'after_route') WHERE route LIKE 'regress%';
ROLLBACK;
DROP SERVER regress_events;
