-- Delayed events whose time has come and that have not gone: counted as waiting, with a delay; status() says what they
-- wait for, doctor() has a row. Routes made in a transaction that is still open: no worker sees them.
\pset null '(null)'
SET outbox.allow_loss = on;  -- parked events are deleted by hand below
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_overdue FOREIGN DATA WRAPPER outbox_log;
CREATE VIEW pg_temp.waits AS
  SELECT lane, side, topic, pending, overdue, parked, delay IS NOT NULL AS delayed, delay > interval '59 minutes' AS an_hour
  FROM outbox.lag WHERE route = 'regress overdue' ORDER BY lane, side NULLS FIRST;
CREATE VIEW pg_temp.findings AS
  SELECT status, regexp_replace(detail, 'since [^,]*', 'since ...') AS detail, hint FROM outbox.doctor() WHERE "check" = 'overdue';
CREATE FUNCTION pg_temp.id(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT ('11111111-0091-4333-8444-' || lpad(n::text, 12, '0'))::uuid $$;
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
  SELECT pg_temp.id(n), 'regress_overdue', CASE WHEN n % 2 = 1 THEN n::text END, 'x', '{}' FROM generate_series(1, 6) n;

BEGIN;
SELECT outbox.create_route('regress overdue', 'regress_overdue', aggregate_types => '{regress_overdue}', start => 'earliest', lanes => 1) > 0 AS made;
-- 1 and 2 are due since an hour, 3 and 4 in an hour; 5 and 6 wait in the log
CREATE FUNCTION pg_temp.park(n int, due interval, to_topic text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, topic, state, due_at, order_key)
  SELECT r.id, 0, l.created_at, l.id, l.aggregate_type, l.aggregate_id, l.event_type, to_topic, 'scheduled', clock_timestamp() + due,
         CASE WHEN l.aggregate_id IS NOT NULL THEN n END
  FROM outbox_internal.log l, outbox.route r WHERE l.id = pg_temp.id(n) AND r.name = 'regress overdue' $$;
SELECT pg_temp.park(3, '1 hour', 'good'), pg_temp.park(4, '1 hour', 'good');
SELECT * FROM pg_temp.waits;
SELECT count(*) AS findings FROM pg_temp.findings;
SELECT state, next_try > now() AS later, reason FROM outbox.status(pg_temp.id(3)) WHERE route = 'regress overdue';
SELECT pg_temp.park(1, '-1 hour', 'bad'), pg_temp.park(2, '-30 minutes', 'bad');
-- each once: in the log, or parked
SELECT * FROM pg_temp.waits;
SELECT * FROM pg_temp.findings;
SELECT state, next_try, error_class, reason FROM outbox.status(pg_temp.id(1)) WHERE route = 'regress overdue';
SELECT route, state, id = pg_temp.id(1) AS first FROM outbox.parked_event WHERE due_at < now() AND route = 'regress overdue' ORDER BY due_at;
-- one of the topic was tried: the other says why, too
UPDATE outbox_internal.parked SET error_class = 'topic', error_code = 'WRONGTYPE', error_message = 'another kind of value', failed_at = now() WHERE id = pg_temp.id(1);
SELECT n, s.state, s.next_try > now() AS later, s.error_class, s.error_code, s.error_message, s.error_since IS NOT NULL AS since, s.reason
FROM generate_series(1, 3) n, outbox.status(pg_temp.id(n)) s WHERE s.route = 'regress overdue' ORDER BY 1;
SELECT * FROM pg_temp.findings;
-- another topic is another row, and not to blame
SELECT pg_temp.park(5, '-1 minute', 'slow');
SELECT * FROM pg_temp.findings ORDER BY detail;
SELECT state, error_class, reason FROM outbox.status(pg_temp.id(5)) WHERE route = 'regress overdue';
-- a topic that has left its lane: its events are counted with it
SET LOCAL outbox.allow_loss = on;
INSERT INTO outbox_internal.side_lane (route_id, lane, side, since, window_from, topic_template)
  SELECT id, 0, 1, now(), '3:3:', topic FROM outbox.route WHERE name = 'regress overdue';
INSERT INTO outbox_internal.side_topic (route_id, lane, topic, side, start_from, error_class, error_code, error_message)
  SELECT id, 0, 'slow', 1, '3:3:', 'topic', 'STALLED', 'no leader' FROM outbox.route WHERE name = 'regress overdue';
SELECT lane, side, topic, overdue, parked, delayed FROM pg_temp.waits;
SELECT state, error_class, error_code, reason FROM outbox.status(pg_temp.id(5)) WHERE route = 'regress overdue';
-- paused: its own words
SELECT outbox.pause('regress overdue', topic => 'bad', reason => 'made anew');
SELECT state, reason FROM outbox.status(pg_temp.id(1)) WHERE route = 'regress overdue';
-- just due is on its way
DELETE FROM outbox_internal.parked WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'regress overdue');
SELECT pg_temp.park(1, '-1 second', 'good');
SELECT overdue, delayed FROM pg_temp.waits WHERE side IS NULL;
SELECT count(*) AS findings FROM pg_temp.findings;
-- as many as are looked at
DELETE FROM outbox_internal.parked WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'regress overdue');
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, topic, state, due_at)
SELECT r.id, 0, now() + n * interval '1 microsecond', gen_random_uuid(), 'a', 'e', 'bad', 'scheduled', now() - interval '1 hour'
FROM outbox.route r, generate_series(1, 10001) n WHERE r.name = 'regress overdue';
SELECT overdue, parked, parked_capped FROM outbox.lag WHERE route = 'regress overdue' AND side IS NULL;
SELECT detail FROM pg_temp.findings;
ROLLBACK;
-- an event that waits in the log is not parked: the error says what to do
BEGIN;
SELECT outbox.create_route('regress overdue', 'regress_overdue', aggregate_types => '{regress_overdue}', start => 'earliest') > 0 AS made;
SAVEPOINT here;
SELECT outbox.skip(pg_temp.id(6), 'not wanted');
ROLLBACK TO here;
SELECT outbox.skip(pg_temp.id(6), 'not wanted', 'regress overdue');
ROLLBACK TO here;
SELECT outbox.skip('00000000-0000-4000-8000-000000000000', 'not wanted');
ROLLBACK TO here;
-- an event without a key; one whose key is paused already, and its route, too; one whose route is paused
\set VERBOSITY default
SELECT outbox.skip(pg_temp.id(5), 'not wanted');
ROLLBACK TO here;
SELECT outbox.pause('regress overdue', aggregate_type => 'regress_overdue', aggregate_id => '5', reason => 'wrong customer');
SAVEPOINT paused;
SELECT outbox.skip(pg_temp.id(5), 'not wanted');
ROLLBACK TO paused;
SELECT outbox.pause(server => 'regress_overdue', reason => 'moves');
SAVEPOINT paused;
SELECT outbox.skip(pg_temp.id(5), 'not wanted');
ROLLBACK TO here;
SELECT outbox.pause('regress overdue', reason => 'upkeep');
SAVEPOINT paused;
SELECT outbox.skip(pg_temp.id(5), 'not wanted');
ROLLBACK TO paused;
-- a pause of the same key on another route, or of another key, is none of it
SELECT outbox.resume('regress overdue');
SELECT outbox.pause('regress overdue', aggregate_type => 'regress_overdue', aggregate_id => '7', reason => 'another');
SAVEPOINT paused;
SELECT outbox.skip(pg_temp.id(5), 'not wanted');
ROLLBACK TO here;
-- doctor(): topics with the same error are one finding, however many; a route with another error has its own
CREATE VIEW pg_temp.topics AS SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'topic' ORDER BY detail;
SET LOCAL outbox.allow_loss = on;
INSERT INTO outbox_internal.side_lane (route_id, lane, side, since, window_from, topic_template)
  SELECT r.id, 0, n, now(), '3:3:', r.topic FROM outbox.route r, generate_series(1, 330) n WHERE r.name = 'regress overdue';
INSERT INTO outbox_internal.side_topic (route_id, lane, topic, side, start_from, error_class, error_code, error_message)
  SELECT r.id, 0, 'gone.' || n, n, '3:3:', 'topic', CASE WHEN n > 329 THEN 'STALLED' ELSE 'UNKNOWN_TOPIC' END, 'there is no gone.' || n
  FROM outbox.route r, generate_series(1, 330) n WHERE r.name = 'regress overdue';
SELECT * FROM pg_temp.topics;
ROLLBACK;
DROP SERVER regress_overdue;
