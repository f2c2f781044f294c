-- retry, skip, discard: what they do to parked events, what they refuse, what they leave in outbox.audit. The route is
-- paused in the transaction that makes it, so that no worker touches what is put here by hand.
SET outbox.allow_loss = on;  -- parked events are deleted by hand below, to begin again
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
SET timezone = 'UTC';
CREATE SERVER regress_parked FOREIGN DATA WRAPPER outbox_log;
BEGIN;
SELECT outbox.create_route('regress skip', 'regress_parked', '{regress_parked}', lanes => 2) > 0 AS made;
SELECT outbox.create_route('regress block', 'regress_parked', '{regress_parked}', on_failure => 'block') > 0 AS made;
SELECT outbox.pause('regress skip', reason => 'the test needs it still');
SELECT outbox.pause('regress block', reason => 'the test needs it still');
COMMIT;

-- A parked event: n is its number and second. It is put there as a dead letter and retried first, for its order key.
CREATE FUNCTION pg_temp.id(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
CREATE FUNCTION pg_temp.park(n int, s text, k text, r text DEFAULT 'regress skip', tries int DEFAULT 3, replay int DEFAULT 0,
                             code text DEFAULT 'MSG_SIZE_TOO_LARGE', content_type text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  failed boolean := s IN ('retrying', 'dead');
  begun timestamptz := clock_timestamp();
BEGIN
  SET LOCAL client_min_messages = error;
  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, replay, state, aggregate_type, aggregate_id, event_type,
    payload, content_type, topic, error_class, error_code, error_message, failed_at)
  SELECT t.id, 0, timestamptz '2026-01-01' + n * interval '1 second', pg_temp.id(n), replay, 'dead', 'regress_parked', k, 'e.happened',
    convert_to('{"n": ' || n || '}', 'UTF8'), content_type, '?',
    CASE WHEN failed THEN 'message' END, CASE WHEN failed THEN code END, CASE WHEN failed THEN 'said no to ' || n END,
    timestamptz '2026-02-01' + n * interval '1 second'
  FROM outbox.route t WHERE t.name = r;
  PERFORM outbox.retry(pg_temp.id(n), r);
  DELETE FROM outbox.audit a WHERE a.at >= begun;
  UPDATE outbox_internal.parked p SET state = s, attempts = tries, due_at = CASE WHEN s IN ('retrying', 'scheduled') THEN now() + interval '9 minutes' END
  FROM outbox.route t WHERE p.route_id = t.id AND t.name = r AND p.id = pg_temp.id(n);
  RESET client_min_messages;
END $$;
CREATE VIEW pg_temp.parked AS
  SELECT r.name AS route, right(p.id::text, 3) AS n, p.state, p.attempts, p.due_at <= clock_timestamp() AS due, p.aggregate_id AS key,
    p.topic, p.replay FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name LIKE 'regress%' ORDER BY 1, 2, p.replay;
CREATE VIEW pg_temp.audit AS
  SELECT who = session_user AS me, action, route, right(event_id::text, 3) AS n, detail, reason FROM outbox.audit
  WHERE route LIKE 'regress%' AND action NOT IN ('pause', 'resume', 'create_route', 'alter_route', 'drop_route') ORDER BY at;
CREATE VIEW pg_temp.outcome AS
  SELECT r.name AS route, right(o.id::text, 3) AS n, o.created_at, o.outcome, o.attempts, o.topic, o.place, o.replay
  FROM outbox_internal.outcome o JOIN outbox.route r ON r.id = o.route_id WHERE r.name LIKE 'regress%' ORDER BY o.at;

-- dead, retrying and scheduled ones become due; only a dead one starts over
SELECT pg_temp.park(1, 'dead', 'a'), pg_temp.park(2, 'retrying', 'b'), pg_temp.park(3, 'scheduled', 'c'), pg_temp.park(4, 'dead', NULL);
SELECT outbox.retry(pg_temp.id(1));
SELECT outbox.retry(pg_temp.id(2), 'regress skip', 'it is mended');
SELECT outbox.retry(pg_temp.id(3), reason => '  ');
SELECT outbox.retry(pg_temp.id(4));
SELECT * FROM pg_temp.parked;
SELECT * FROM pg_temp.audit;
-- the order key is computed as lanes do: one for a key, NULL without
SELECT count(DISTINCT order_key), count(*) FILTER (WHERE order_key IS NULL) FROM outbox_internal.parked;
DELETE FROM outbox_internal.parked;
DELETE FROM outbox.audit;

-- what waits behind another one waits on; the head of a key may go
SELECT pg_temp.park(11, 'retrying', 'a'), pg_temp.park(12, 'blocked', 'a'), pg_temp.park(13, 'blocked', 'a'), pg_temp.park(14, 'dead', 'a');
SELECT outbox.retry(pg_temp.id(12));
SELECT outbox.retry(pg_temp.id(14));
SELECT * FROM pg_temp.parked;
SELECT route, topic, aggregate_type, aggregate_id, waiting, oldest, right(behind::text, 3) AS behind, behind_state, attempts, error_class,
  error_code, error_message, next_try > now() AS later, paused FROM outbox.blocked_key WHERE route LIKE 'regress%';
-- skipping the head lets the others go, all of them up to 256
SELECT outbox.skip(pg_temp.id(11), 'customer is gone');
SELECT * FROM pg_temp.parked;
SELECT * FROM pg_temp.outcome;
SELECT * FROM pg_temp.audit;
DELETE FROM outbox_internal.parked;
SELECT pg_temp.park(1, 'retrying', 'a');
SELECT count(pg_temp.park(n, 'blocked', 'a')::text) FROM generate_series(100, 399) n;
SELECT outbox.skip(pg_temp.id(1), 'see how many go');
SELECT state, count(*), min(n), max(n) FROM pg_temp.parked GROUP BY 1 ORDER BY 1;
-- not again while the first ones are waiting
SELECT outbox.skip(pg_temp.id(100), 'and one of those');
SELECT state, count(*) FROM pg_temp.parked GROUP BY 1 ORDER BY 1;
DELETE FROM outbox_internal.parked;

-- under block a dead letter holds its key, under skip it does not
SELECT pg_temp.park(n, s, 'a', r) FROM (VALUES (1, 'dead'), (2, 'blocked'), (3, 'blocked')) v(n, s), (VALUES ('regress skip'), ('regress block')) w(r);
SELECT outbox.discard(pg_temp.id(1), 'not needed', 'regress block');
SELECT * FROM pg_temp.parked;
SELECT outbox.discard(pg_temp.id(1), 'not needed');
SELECT pg_temp.park(1, 'dead', 'a', 'regress block'), pg_temp.park(4, 'dead', 'a', 'regress block');
-- a later dead letter waits for the earlier one
SELECT outbox.retry(pg_temp.id(4), 'regress block');
SELECT outbox.retry(pg_temp.id(1), 'regress block');
SELECT * FROM pg_temp.parked WHERE route = 'regress block';
DELETE FROM outbox_internal.parked;
-- on several routes at once
SELECT pg_temp.park(1, 'dead', 'a', r) FROM (VALUES ('regress skip'), ('regress block')) w(r);
SELECT outbox.retry(pg_temp.id(1));
SELECT outbox.skip(pg_temp.id(1), 'everywhere');
SELECT count(*) FROM pg_temp.parked;
DELETE FROM outbox.audit;

-- on one of two routes it waits: it is edited where it may go, and the other one is named
SELECT pg_temp.park(1, 'retrying', 'a', 'regress block'), pg_temp.park(2, 'blocked', 'a', 'regress block'), pg_temp.park(2, 'dead', 'a');
SELECT outbox.retry(pg_temp.id(2), payload => '{"n": "mended"}');
SELECT outbox.retry(pg_temp.id(2));
SELECT r.name, convert_from(p.payload, 'UTF8') FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id ORDER BY 1, p.created_at;
DELETE FROM outbox_internal.parked;
DELETE FROM outbox.audit;
-- a dead letter of a key that is paused
SELECT pg_temp.park(1, 'dead', 'a'), pg_temp.park(2, 'dead', 'b'), pg_temp.park(3, 'dead', 'a');
SELECT outbox.pause('regress skip', aggregate_type => 'regress_parked', aggregate_id => 'a', reason => 'a dispute');
BEGIN;
SELECT outbox.retry(pg_temp.id(1));
ROLLBACK;
CALL outbox.redrive('regress skip', dry_run => false);
SELECT * FROM pg_temp.parked;
SELECT outbox.resume('regress skip', aggregate_type => 'regress_parked', aggregate_id => 'a');
DELETE FROM outbox_internal.parked;
DELETE FROM outbox.audit;

-- edit and retry: payload, bytes, headers, topic
SELECT pg_temp.park(1, 'dead', 'a'), pg_temp.park(2, 'dead', 'b', content_type => 'text/plain'), pg_temp.park(3, 'dead', 'c', replay => 7),
  pg_temp.park(4, 'dead', 'd'), pg_temp.park(5, 'dead', 'e');
SELECT outbox.retry(pg_temp.id(1), reason => 'shorter', payload => '{"n": [1, 2]}', headers => '{"x": "y"}', topic => 'another.topic');
SELECT outbox.retry(pg_temp.id(2), payload_bytes => '\x00ff01');
SELECT outbox.retry(pg_temp.id(3), headers => '{"x": "y"}');
SELECT outbox.retry(pg_temp.id(4), payload_bytes => convert_to('{"é": 1}', 'UTF8'));
SET outbox.allow_json_null = on;
SELECT outbox.retry(pg_temp.id(5), headers => '{}', payload => 'null');
SELECT right(id::text, 3) AS n, payload, content_type, headers, own_topic, topic FROM outbox_internal.parked ORDER BY 1;
SELECT route, created_at, replay, state, payload, payload_text, content_type, headers
FROM generate_series(1, 5) n, LATERAL outbox.parked_content(pg_temp.id(n)) ORDER BY n;
SELECT n, jsonb_pretty(detail) FROM pg_temp.audit;
-- another topic is another key: what waited in the old one goes
SELECT pg_temp.park(6, 'retrying', 'f'), pg_temp.park(7, 'blocked', 'f');
SELECT outbox.retry(pg_temp.id(6), topic => 'aside');
SELECT * FROM pg_temp.parked WHERE key = 'f';
SELECT count(DISTINCT order_key) FROM outbox_internal.parked WHERE aggregate_id = 'f';

-- by an operator, who may emit nothing, also where the topics of somebody else are limited: only another topic asks for that right
CREATE ROLE regress_operator;
CREATE ROLE regress_limited;
SELECT outbox.grant_operate('regress_operator'), outbox.grant_emit('regress_limited', topics => '{shop.*}');
SELECT pg_temp.park(8, 'dead', 'h');
SELECT pg_temp.id(8) AS eighth \gset
SET ROLE regress_operator;
SELECT outbox.retry(:'eighth', payload => '{"n": 9}', headers => '{"x": "z"}');
SELECT outbox.retry(:'eighth', topic => 'aside');
RESET ROLE;
SELECT payload, headers, own_topic FROM outbox_internal.parked WHERE id = :'eighth';
SELECT outbox.revoke_emit('regress_limited'), outbox.revoke_operate('regress_operator');
DROP ROLE regress_operator, regress_limited;

-- Each refusal.
CREATE FUNCTION pg_temp.refused(what text, OUT state text, OUT message text, OUT detail text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE what;
  message := 'NOT REFUSED';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(NULL)$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(999))$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), 'regress block')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), 'regress nothing')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), payload => '1', payload_bytes => '1')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), payload => '"{\"n\": 1}"')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), payload_bytes => '{"n": ')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), payload_bytes => '\xff')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), payload => to_jsonb(repeat('x', 1100000)))$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), headers => '[]')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), headers => '{"a": 1}')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), headers => '{"id": "x"}')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), headers => '{"outbox-replay": "1"}')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), headers => jsonb_build_object('x', repeat('x', 13000)))$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), topic => '')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1), topic => 'a b')$$);
UPDATE outbox_internal.parked SET payload = NULL WHERE id = pg_temp.id(5);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(5), payload => '{}')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.skip(pg_temp.id(1), NULL)$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.skip(pg_temp.id(1), E' \t')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.skip(NULL, 'why not')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.skip(pg_temp.id(999), 'why not')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.skip(pg_temp.id(999), 'why not', 'regress skip')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.discard(pg_temp.id(1), 'it is due')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.discard(pg_temp.id(1), NULL)$$);
-- an event that a worker is sending just now is not touched; a worker that is no more does not count
DO $$
BEGIN
  FOR i IN 1 .. 300 LOOP
    EXIT WHEN EXISTS (SELECT FROM outbox_internal.lane l JOIN outbox.route r ON r.id = l.route_id WHERE r.name = 'regress skip' AND l.owner IS NOT NULL);
    PERFORM pg_sleep(0.1);
  END LOOP;
END $$;
UPDATE outbox_internal.parked SET sender = w.owner FROM (SELECT max(owner) AS owner FROM outbox_internal.lane l JOIN outbox.route r ON r.id = l.route_id WHERE r.name = 'regress skip') w WHERE id = pg_temp.id(1);
SELECT sender IS NOT NULL AS sent FROM outbox_internal.parked WHERE id = pg_temp.id(1);
SELECT * FROM pg_temp.refused($$SELECT outbox.retry(pg_temp.id(1))$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.skip(pg_temp.id(1), 'why not')$$);
UPDATE outbox_internal.parked SET sender = 4711 WHERE id = pg_temp.id(1);
SELECT outbox.retry(pg_temp.id(1));
-- where nothing can be written
BEGIN READ ONLY;
SELECT outbox.retry(pg_temp.id(1));
ROLLBACK;
BEGIN READ ONLY;
SELECT outbox.skip(pg_temp.id(1), 'why not');
ROLLBACK;
BEGIN READ ONLY;
SELECT outbox.discard(pg_temp.id(1), 'why not');
ROLLBACK;
-- in a transaction that has failed, and one that is to be prepared
BEGIN;
SELECT 1/0;
SELECT outbox.skip(pg_temp.id(1), 'why not');
ROLLBACK;
BEGIN;
SELECT outbox.skip(pg_temp.id(1), 'why not');
PREPARE TRANSACTION 'regress';
SELECT count(*) FROM pg_temp.parked WHERE n = '001';

SET client_min_messages = warning;
SELECT outbox.drop_route('regress skip'), outbox.drop_route('regress block');
DELETE FROM outbox.audit WHERE route LIKE 'regress%';
DROP SERVER regress_parked;
