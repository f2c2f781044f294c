-- replay and seek: what a route has delivered is sent again, from the log. A worker delivers it first, to the server log.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
SET timezone = 'UTC';
CREATE SERVER regress_replay FOREIGN DATA WRAPPER outbox_log;
SELECT outbox.create_route('regress from', 'regress_replay', '{replay_regress}', event_types => '{*.made,*.paid}', lanes => 2) > 0 AS made;
SELECT clock_timestamp() AS before_all \gset
SELECT outbox.emit('replay_regress', 'k1', 'a.made', '{"n": 1}', headers => '{"h": "v"}') AS e1 \gset
SELECT outbox.emit('replay_regress', 'k2', 'a.made', '{"n": 2}', topic => 'own.topic') AS e2 \gset
SELECT outbox.emit_bytes('replay_regress', NULL::text, 'a.paid', '\x00ff') AS e3 \gset
SELECT outbox.emit('replay_regress', 'k1', 'a.paid', '{"n": 4}') AS e4 \gset
-- the clock of events may be ahead of the server's
SELECT created_at AS half_way FROM outbox.status(:'e4') \gset
SELECT outbox.emit_tombstone('replay_regress', 'k1', 'a.paid') AS e5 \gset
SELECT outbox.emit('replay_regress', 'k1', 'a.other', '{"n": 6}') AS e6 \gset
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
VALUES ('11111111-2222-4333-8444-000000000007', 'replay_regress', 'k7', 'a.made', '{"n": 7}');
SELECT outbox.wait_until_idle('30 s');
-- to where the copies go: nothing is sent from there
BEGIN;
SELECT outbox.create_route('regress to', 'regress_replay', '{nothing_regress}', topic => 'again.{aggregate_type}', lanes => 3) > 0 AS made;
SELECT outbox.pause('regress to', reason => 'the test needs it still');
COMMIT;
CREATE VIEW pg_temp.copies AS
  SELECT r.name AS route, p.replay - (SELECT min(number) FROM outbox.replay) + 1 AS replay, p.state, p.aggregate_id AS key, p.event_type,
    p.payload, p.content_type, p.headers - 'outbox-replay' AS headers,
    p.headers ->> 'outbox-replay' = p.replay::text AS marked, p.own_topic, p.topic, p.order_key IS NOT NULL AS keyed, p.attempts
  FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name LIKE 'regress%' ORDER BY p.replay, p.created_at;

-- dry runs: by time, type, key, event type, id; nothing is changed
\set VERBOSITY terse
CALL outbox.replay(since => :'before_all', route => 'regress from');
CALL outbox.replay(:'before_all', :'half_way', route => 'regress from', to_route => 'regress to');
CALL outbox.replay(since => :'before_all', aggregate_type => 'replay_*', aggregate_id => 'k1', route => 'regress from');
\set VERBOSITY default
CALL outbox.replay(since => :'before_all', aggregate_type => 'replay_*', aggregate_id => 'k*', route => 'regress from');
\set VERBOSITY terse
CALL outbox.replay(since => :'before_all', event_type => '*.paid', route => 'regress from');
CALL outbox.replay(since => :'before_all', aggregate_type => 'replay', route => 'regress from');
CALL outbox.replay(ids => ARRAY[:'e1', :'e6']::uuid[], route => 'regress from');
CALL outbox.replay(ids => ARRAY[:'e1', '11111111-2222-4333-8444-000000000007']::uuid[], route => 'regress from');
CALL outbox.replay(ids => ARRAY['11111111-2222-4333-8444-000000000008']::uuid[], route => 'regress from');
CALL outbox.replay(ids => ARRAY['11111111-2222-4333-8444-000000000009', '11111111-2222-4333-8444-00000000000a', :'e1']::uuid[], route => 'regress from');
CALL outbox.replay(ids => ARRAY[:'e1']::uuid[], since => :'half_way', route => 'regress from');
-- a route that has delivered nothing
CALL outbox.replay(since => :'before_all', route => 'regress to');
BEGIN;
CALL outbox.replay(since => :'before_all', route => 'regress from');
COMMIT;
SELECT count(*) FROM outbox.replay;
SELECT count(*) FROM pg_temp.copies;

-- for good: same ids, own topics kept, marked, due one after another
CREATE TEMP TABLE began AS SELECT clock_timestamp() AS at;
CALL outbox.replay(since => :'before_all', aggregate_type => 'replay_regress', route => 'regress from',
  to_route => 'regress to', dry_run => false, per_second => 2, reason => 'new consumer') \gset
SELECT :number > 0 AS number, :events AS events;
SELECT * FROM pg_temp.copies;
SELECT count(*) FILTER (WHERE p.id IN (:'e1', :'e2', :'e3', :'e4', :'e5', '11111111-2222-4333-8444-000000000007')) AS same_ids,
  count(DISTINCT p.lane) > 1 AS lanes, bool_and(p.due_at >= (SELECT at FROM began)) AS due,
  max(p.due_at) - min(p.due_at) AS over FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = 'regress to';
SELECT bool_and(due_at >= lag_due) AS in_order FROM (SELECT due_at, lag(due_at) OVER (ORDER BY created_at) AS lag_due FROM outbox_internal.parked) p;
SELECT who = session_user AS me, route, to_route, filter - 'since' AS filter, per_second, matched, copied, state, reason FROM outbox.replay;
SELECT action, route, (detail #- '{filter,since}') - 'number'::text AS detail, reason FROM outbox.audit WHERE action LIKE '%replay';
-- taken back, also what waits or is being retried; a dead letter stays one
SET outbox.allow_loss = on;
SET client_min_messages = error;
UPDATE outbox_internal.parked SET state = 'blocked', due_at = NULL WHERE id = :'e1';
UPDATE outbox_internal.parked SET state = 'retrying' WHERE id = :'e4';
UPDATE outbox_internal.parked SET state = 'dead', due_at = NULL WHERE id = :'e3';
RESET client_min_messages;
RESET outbox.allow_loss;
SELECT outbox.cancel_replay(:number, 'wrong topic');
SELECT outbox.cancel_replay(:number);
SELECT state, count(*) FROM pg_temp.copies GROUP BY 1;
SELECT outbox.discard(:'e3', 'not wanted');
SELECT state FROM outbox.replay;
SELECT action, route, detail - 'number' AS detail, reason FROM outbox.audit WHERE action LIKE 'cancel%';

-- what was refused, and then given up, was not delivered
BEGIN;
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, topic)
SELECT r.id, 0, s.created_at, :'e1', 'replay_regress', 'k1', 'a.made', s.topic FROM outbox.status(:'e1') s JOIN outbox.route r ON r.name = s.route;
CALL outbox.replay(since => :'before_all', route => 'regress from');
SELECT outbox.discard(:'e1', 'not wanted');
CALL outbox.replay(since => :'before_all', route => 'regress from');

\set VERBOSITY terse
ROLLBACK;

-- seek: how much it would be, then for good; backwards and forwards
CALL outbox.seek('regress from', :'before_all');
CALL outbox.seek('regress from', :'half_way', dry_run => true);
BEGIN;
SELECT outbox.pause('regress from', reason => 'the test needs it still');
COMMIT;
CALL outbox.seek('regress from', :'half_way', 'consumer lost data', dry_run => false);
SELECT l.lane, l.window_from, l.window_to IS NOT NULL AS half_way, l.done_to = :'half_way'::timestamptz - interval '1 microsecond' AS there
FROM outbox_internal.lane l JOIN outbox.route r ON r.id = l.route_id WHERE r.name = 'regress from' ORDER BY 1;
-- while it is paused all of it waits
SELECT sum(pending) FROM outbox.lag WHERE route = 'regress from';
CALL outbox.seek('regress from', 'infinity', dry_run => true);
-- a worker that has the lanes notices: it delivers again, and is done again
SELECT outbox.resume('regress from');
DO $$
BEGIN
  FOR i IN 1 .. 300 LOOP
    EXIT WHEN 0 = (SELECT sum(pending) FROM outbox.lag WHERE route = 'regress from');
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$;
SELECT sum(pending) FROM outbox.lag WHERE route = 'regress from';
SELECT state, delivered_at > :'half_way' AS again FROM outbox.status(:'e4') WHERE route = 'regress from';
SELECT action, route, detail - 'at' AS detail, detail ? 'at' AS at, reason FROM outbox.audit WHERE action = 'seek' ORDER BY audit.at;

-- Each refusal.
\set VERBOSITY default
CALL outbox.replay();
\echo :SQLSTATE
CALL outbox.replay(since => now());
CALL outbox.replay(route => 'regress from');
\echo :SQLSTATE
CALL outbox.replay(number => 999999999);
\echo :SQLSTATE
SELECT max(number) AS cancelled FROM outbox.replay \gset
\set VERBOSITY terse
CALL outbox.replay(number => :cancelled, route => 'regress from');
\set VERBOSITY sqlstate
CALL outbox.replay(number => :cancelled, dry_run => false);
CALL outbox.replay(since => now() + interval '1 day', route => 'regress from');
\set VERBOSITY default
CALL outbox.replay(since => now(), route => 'regress nothing');
\echo :SQLSTATE
CALL outbox.replay(since => now(), route => 'regress from', to_route => 'regress nothing');
CALL outbox.replay(since => '2026-02-01', until => '2026-02-01', route => 'regress from');
\echo :SQLSTATE
CALL outbox.replay(since => 'infinity', route => 'regress from');
CALL outbox.replay(since => '-infinity', until => '-infinity', route => 'regress from');
CALL outbox.replay(ids => '{}', route => 'regress from');
CALL outbox.replay(ids => '{NULL}', route => 'regress from');
\echo :SQLSTATE
CALL outbox.replay(since => now(), route => 'regress from', per_second => 0);
CALL outbox.replay(since => now(), route => 'regress from', dry_run => NULL);
BEGIN;
CALL outbox.replay(since => now(), route => 'regress from', dry_run => false);
\echo :SQLSTATE
ROLLBACK;
SET default_transaction_read_only = on;
CALL outbox.replay(since => now(), route => 'regress from', dry_run => false);
\echo :SQLSTATE
SELECT outbox.cancel_replay(1);
CALL outbox.seek('regress from', now(), dry_run => false);
RESET default_transaction_read_only;
SELECT outbox.cancel_replay(NULL);
\echo :SQLSTATE
SELECT outbox.cancel_replay(999999999);
\echo :SQLSTATE
CALL outbox.seek(NULL, now(), dry_run => false);
\echo :SQLSTATE
CALL outbox.seek('regress from', NULL, dry_run => false);
CALL outbox.seek('regress nothing', now(), dry_run => false);
\echo :SQLSTATE
\set VERBOSITY terse
CALL outbox.seek('regress from', now() + interval '1 day', dry_run => false);
\echo :SQLSTATE
\set VERBOSITY default
BEGIN;
CALL outbox.seek('regress from', now(), dry_run => false);
\echo :SQLSTATE
ROLLBACK;
-- what to do instead; the times in the details are those of today
CREATE FUNCTION pg_temp.refused(what text, OUT message text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE what;
  message := 'NOT REFUSED';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
  message := regexp_replace(message, '[0-9]+', 'N');
END $$;
\pset format unaligned
SELECT * FROM pg_temp.refused($$CALL outbox.seek('regress from', now() + interval '1 day')$$);
SELECT * FROM pg_temp.refused($$CALL outbox.replay(since => now() + interval '1 day', route => 'regress from')$$);
SELECT * FROM pg_temp.refused(format('CALL outbox.replay(number => %s)', :cancelled));
\pset format aligned

SET client_min_messages = warning;
SELECT outbox.drop_route('regress from') >= 0 AS source, outbox.drop_route('regress to') >= 0 AS target;
DELETE FROM outbox.replay;
DELETE FROM outbox.audit WHERE route LIKE 'regress%';
DROP SERVER regress_replay;
