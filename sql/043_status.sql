-- outbox.status(): each state, where an event was delivered, and what people said about it. In a transaction that is
-- still open, so that no worker sees the routes.
SET outbox.allow_loss = on;  -- parked events are deleted by hand below, to begin again
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
SET timezone = 'UTC';
CREATE SERVER regress_status FOREIGN DATA WRAPPER outbox_log;
-- a route that takes nothing: with it comes the keeper, which makes the day tables
SELECT outbox.create_route('regress keeper', 'regress_status', '{regress_nothing}') > 0 AS made;
SELECT clock_timestamp() AS before_all \gset
SELECT outbox.emit('status_regress', 'k', 'e.happened', '{}') AS e1 \gset
SELECT outbox.emit('status_regress', 'k', 'e.happened', '{}', topic => 'own') AS e2 \gset
SELECT pg_current_snapshot() AS done \gset
SELECT outbox.emit('status_regress', 'k', 'e.happened', '{}') AS e3 \gset
DO $$
BEGIN
  FOR i IN 1 .. 300 LOOP
    EXIT WHEN 2 = (SELECT count(*) FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
      AND relname IN ('progress_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'), 'outcome_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')));
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$;
BEGIN;
SELECT outbox.create_route('regress status', 'regress_status', '{status_regress}', start => :'before_all') > 0 AS made;
SELECT id AS route_id FROM outbox.route WHERE name = 'regress status' \gset
CREATE FUNCTION pg_temp.status(uuid, OUT state text, OUT topic text, OUT attempts int, OUT error_class text, OUT error_code text,
  OUT error_message text, OUT next_try timestamptz, OUT delivered boolean, OUT place text, OUT places jsonb, OUT replay bigint, OUT reason text)
RETURNS SETOF record LANGUAGE sql AS $$
  SELECT s.state, s.topic, s.attempts, s.error_class, s.error_code, s.error_message, s.next_try, s.delivered_at IS NOT NULL, s.place, s.places,
    s.replay, s.reason FROM outbox.status($1) s WHERE s.route = 'regress status' $$;
SELECT * FROM pg_temp.status(:'e1');
-- the clock of events, which may be ahead of the server's
SELECT created_at AS last FROM outbox.status(:'e3') LIMIT 1 \gset

-- delivered: the row of progress that first covers it says between which offsets; only its own topic's are shown
INSERT INTO outbox_internal.progress (at, route_id, lane, window_from, places)
  VALUES (:'last', :route_id, 0, '3:3:', '{"outbox.event.status_regress/0": ["1", "2"]}'),
         (:'last'::timestamptz + interval '1 us', :route_id, 0, :'done',
          '{"outbox.event.status_regress/0": ["3", "7"], "outbox.event.status_regress/2": ["100", "104"], "own/1": ["5", "5"], "outbox.event.status_regress.x/0": ["9", "9"]}'),
         (:'last'::timestamptz + interval '2 us', :route_id, 0, :'done', '{"outbox.event.status_regress/0": ["8", "9"]}');
SELECT * FROM pg_temp.status(:'e1');
SELECT * FROM pg_temp.status(:'e2');
SELECT window_from, window_to::text = :'done' AS window_to, delivered_at > created_at AS later FROM outbox.status(:'e1') WHERE route = 'regress status';
-- of a topic that had left the lane the side lane's row tells, though the lane's covers it, and only if the lane's does not know it
INSERT INTO outbox_internal.progress (at, route_id, lane, side, window_from, places)
  VALUES (:'last'::timestamptz + interval '3 us', :route_id, 0, 1, :'done', '{"own/1": ["6", "6"], "elsewhere/0": ["1", "1"]}');
SELECT places FROM pg_temp.status(:'e2');
UPDATE outbox_internal.progress SET places = places - 'own/1' WHERE route_id = :route_id AND side = 0;
SELECT places FROM pg_temp.status(:'e2');
SELECT places FROM pg_temp.status(:'e1');
SELECT * FROM pg_temp.status(:'e3');

-- paused: the route, its topic, its key, its destination
SELECT outbox.pause('regress status', aggregate_type => 'status_regress', aggregate_id => 'k', reason => 'the key');
SELECT state, reason FROM pg_temp.status(:'e3');
SELECT outbox.resume('regress status', aggregate_type => 'status_regress', aggregate_id => 'k');
SELECT outbox.pause('regress status', topic => 'own', reason => 'another topic');
SELECT state, reason FROM pg_temp.status(:'e3');
SELECT outbox.pause('regress status', topic => 'outbox.event.status_regress', reason => 'the topic');
SELECT state, reason FROM pg_temp.status(:'e3');
SELECT outbox.pause(server => 'regress_status', reason => 'the destination');
SELECT state, reason FROM pg_temp.status(:'e3');
SELECT route, state, error_class, error_code, error_message, error_since IS NOT NULL AS since FROM outbox.lag WHERE route = 'regress status';
SELECT "check", status, detail, hint FROM outbox.doctor() WHERE "check" = 'pause' AND detail LIKE '%regress_status%';
SELECT outbox.pause('regress status', reason => 'the route');
SELECT state, reason FROM pg_temp.status(:'e3');
SELECT "check", status, detail, hint FROM outbox.doctor() WHERE "check" = 'pause' AND detail LIKE '%regress status%';
SELECT outbox.resume('regress status'), outbox.resume(server => 'regress_status'), outbox.resume('regress status', topic => 'own'),
  outbox.resume('regress status', topic => 'outbox.event.status_regress');
-- what is delivered is not paused
SELECT state, reason FROM pg_temp.status(:'e1');

-- parked, in each state, beside a replay of it
CREATE FUNCTION pg_temp.park(id uuid, s text, replay bigint DEFAULT 0) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, replay, state, due_at, aggregate_type, aggregate_id, event_type, payload, topic,
    attempts, error_class, error_code, error_message, failed_at)
  SELECT r.id, 0, e.created_at, $1, replay, s, CASE WHEN s IN ('retrying', 'scheduled') THEN timestamptz '2099-01-01' END, 'status_regress', 'k',
    'e.happened', '{}', 'parked.topic', 4, 'solo-retry', 'TIMED_OUT', 'no answer', timestamptz '2026-01-01'
  FROM outbox.route r, (SELECT min(created_at) AS created_at FROM outbox.status($1)) e WHERE r.name = 'regress status' $$;
SELECT pg_temp.park(:'e1', 'retrying');
SELECT * FROM pg_temp.status(:'e1');
-- behind that one, as they are of one key
SELECT pg_temp.park(:'e2', 'blocked');
UPDATE outbox_internal.parked SET order_key = 7;
SELECT state, next_try, replace(reason, :'e1', 'e1') AS reason FROM pg_temp.status(:'e2');
UPDATE outbox_internal.parked SET state = 'dead', due_at = NULL WHERE id = :'e1';
SELECT state, reason FROM pg_temp.status(:'e2');
UPDATE outbox.route SET on_failure = 'block' WHERE id = :route_id;
SELECT state, replace(reason, :'e1', 'e1') AS reason FROM pg_temp.status(:'e2');
UPDATE outbox.route SET on_failure = 'skip' WHERE id = :route_id;
DELETE FROM outbox_internal.parked WHERE id = :'e2';
UPDATE outbox_internal.parked SET state = 'blocked', due_at = NULL;
SELECT state, next_try FROM pg_temp.status(:'e1');
SELECT outbox.pause('regress status', aggregate_type => 'status_regress', aggregate_id => 'k', reason => 'the key');
SELECT state, reason FROM pg_temp.status(:'e1');
UPDATE outbox_internal.parked SET state = 'dead';
SELECT pg_temp.park(:'e1', 'scheduled', 12);
SELECT state, replay, next_try, attempts FROM pg_temp.status(:'e1');
-- given up, with the reason; the replay has been delivered, and where
SELECT outbox.discard(:'e1', 'it was a test');
INSERT INTO outbox_internal.outcome (at, route_id, created_at, id, replay, outcome, attempts, topic, place)
  SELECT clock_timestamp(), :route_id, created_at, :'e1', 12, 'delivered', 1, 'parked.topic', '3:4711' FROM outbox.status(:'e1') LIMIT 1;
SELECT state, topic, attempts, error_class, error_code, error_message, delivered, place, replay, reason FROM pg_temp.status(:'e1');
SELECT state, lane, replay FROM outbox.status(:'e1') WHERE route = 'regress status';
SELECT pg_temp.park(:'e2', 'retrying');
SELECT outbox.skip(:'e2', 'it was a test, too');
SELECT state, topic, attempts, delivered, place, replay, reason FROM pg_temp.status(:'e2');
-- an event whose day has gone from the log
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, payload, topic)
  VALUES (:route_id, 0, '2020-01-01', '00000000-0000-4000-8000-000000000001', 'status_regress', 'e', '{}', 't');
SELECT state, topic, attempts FROM pg_temp.status('00000000-0000-4000-8000-000000000001');
SELECT outbox.discard('00000000-0000-4000-8000-000000000001', 'old');
SELECT state, reason FROM pg_temp.status('00000000-0000-4000-8000-000000000001');
ROLLBACK;
SELECT * FROM outbox.status('00000000-0000-4000-8000-000000000001');
SELECT outbox.drop_route('regress keeper');
DROP SERVER regress_status;
