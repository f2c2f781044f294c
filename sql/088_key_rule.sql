-- Which row of a key goes first is one rule (outbox_internal.key_head): what status() says, what retry() lets go, what lanes and skip() make
-- due, and what blocked_key shows are one answer. The routes are paused in the transaction that makes them, so that no
-- worker touches what is put here by hand.
SET outbox.allow_loss = on;  -- parked events are deleted by hand below, to begin again
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
SET timezone = 'UTC';
CREATE SERVER regress_keys FOREIGN DATA WRAPPER outbox_log;
BEGIN;
SELECT outbox.create_route('regress keys', 'regress_keys', '{regress_keys}', on_failure => 'block', backoff_cap => '1 day') > 0 AS made;
SELECT outbox.pause('regress keys', reason => 'the test needs it still');
COMMIT;
CREATE FUNCTION pg_temp.id(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
CREATE FUNCTION pg_temp.park(n int, s text, k int, second int DEFAULT NULL, replay int DEFAULT 0) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, replay, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, topic)
  SELECT r.id, 0, timestamptz '2026-01-01' + coalesce(second, n) * interval '1 second', pg_temp.id(n), replay, s, k,
    CASE s WHEN 'retrying' THEN now() + interval '1 hour' END, 'regress_keys', k::text, 'e', 'x', 't'
  FROM outbox.route r WHERE r.name = 'regress keys' $$;
CREATE FUNCTION pg_temp.short(t text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(t, '0{8}-0000-4000-8000-0+', '', 'g') $$;
-- Errors with the ids cut short, so that they stay on one line.
CREATE FUNCTION pg_temp.retry(n int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN 'lets go ' || outbox.retry(pg_temp.id(n));
EXCEPTION WHEN object_not_in_prerequisite_state THEN
  RETURN pg_temp.short(sqlerrm);
END $$;
-- Why the event waits, where it does; asked as if the route were not paused.
CREATE FUNCTION pg_temp.why(n int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  why text;
BEGIN
  PERFORM outbox.resume('regress keys');
  SELECT string_agg(pg_temp.short(reason), '; ' ORDER BY replay) INTO why FROM outbox.status(pg_temp.id(n)) WHERE state = 'blocked';
  RAISE EXCEPTION USING ERRCODE = 'OB001', MESSAGE = coalesce(why, 'nothing');
EXCEPTION WHEN SQLSTATE 'OB001' THEN
  RETURN NEXT sqlerrm;
END $$;
CREATE TEMP VIEW parked AS
  SELECT p.aggregate_id AS key, pg_temp.short(p.id::text) AS n, p.replay, p.state, p.due_at <= clock_timestamp() AS due
  FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = 'regress keys' ORDER BY 1, 2, 3;
CREATE TEMP VIEW blocked AS
  SELECT aggregate_id AS key, waiting, pg_temp.short(behind::text) AS behind, behind_state, paused FROM outbox.blocked_key
  WHERE route = 'regress keys' ORDER BY 1;

CREATE TEMP VIEW states AS
  SELECT pg_temp.short(e.id::text) AS n, e.state, s.state AS status FROM outbox.parked_event e, outbox.status(e.id) s
  WHERE e.route = 'regress keys' AND s.route = e.route ORDER BY 1;

-- two events of one moment (a database that was restored beside another one): the id decides, for all callers
SELECT pg_temp.park(11, 'retrying', 1), pg_temp.park(12, 'blocked', 1, 11), pg_temp.park(13, 'blocked', 1);
SELECT pg_temp.why(12);
SELECT pg_temp.retry(12);
SELECT pg_temp.retry(13);
SELECT * FROM pg_temp.blocked;
SELECT * FROM pg_temp.parked;
DELETE FROM outbox_internal.parked;

-- a head that is blocked itself waits behind nothing, whatever comes later in its key (not committed: a lane would let it go)
BEGIN;
SELECT pg_temp.park(21, 'blocked', 2), pg_temp.park(22, 'retrying', 2), pg_temp.park(23, 'blocked', 2);
SELECT * FROM pg_temp.blocked;
SELECT pg_temp.why(21);
SELECT pg_temp.why(23);
ROLLBACK;

-- what is let go ends at a dead letter that holds the key; what is behind goes when that has gone
SELECT pg_temp.park(31, 'retrying', 3), pg_temp.park(32, 'blocked', 3), pg_temp.park(33, 'blocked', 3), pg_temp.park(34, 'dead', 3), pg_temp.park(35, 'blocked', 3);
SELECT outbox.skip(pg_temp.id(31), 'not wanted');
SELECT * FROM pg_temp.parked;
-- nobody has refused what is let go: it is due, and retrying as soon as somebody has
SELECT * FROM pg_temp.states;
SELECT * FROM pg_temp.blocked;
UPDATE outbox_internal.parked SET failed_at = clock_timestamp(), error_class = 'solo-retry' WHERE id = pg_temp.id(32);
SELECT * FROM pg_temp.states;
SELECT * FROM pg_temp.blocked;
SELECT outbox.skip(pg_temp.id(32), 'nor this'), outbox.skip(pg_temp.id(33), 'nor this');
SELECT * FROM pg_temp.blocked;
SELECT * FROM pg_temp.parked;
SELECT pg_temp.retry(35);
SELECT outbox.skip(pg_temp.id(34), 'nor this');
SELECT * FROM pg_temp.parked;
DELETE FROM outbox_internal.parked;

-- the copy that a replay made of a dead letter waits behind it, and goes with it; under skip nothing waits for what is dead
SELECT pg_temp.park(41, 'retrying', 4), pg_temp.park(42, 'dead', 4), pg_temp.park(42, 'blocked', 4, replay => 1);
SELECT outbox.skip(pg_temp.id(41), 'not wanted');
SELECT * FROM pg_temp.parked;
SELECT pg_temp.why(42);
SELECT pg_temp.retry(42);
SELECT n, replay, state, due FROM pg_temp.parked;
DELETE FROM outbox_internal.parked;
SELECT outbox.alter_route('regress keys', on_failure => 'skip');
SELECT pg_temp.park(51, 'retrying', 5), pg_temp.park(52, 'dead', 5), pg_temp.park(53, 'blocked', 5);
SELECT outbox.skip(pg_temp.id(51), 'not wanted');
SELECT * FROM pg_temp.parked;
DELETE FROM outbox_internal.parked;

-- a paused key says so everywhere
SELECT outbox.pause('regress keys', aggregate_type => 'regress_keys', aggregate_id => '6', reason => 'under dispute');
SELECT pg_temp.park(61, 'blocked', 6), pg_temp.park(62, 'blocked', 6);
SELECT * FROM pg_temp.blocked;
SELECT pg_temp.retry(61);
SELECT pg_temp.why(61);
SELECT outbox.resume('regress keys', aggregate_type => 'regress_keys', aggregate_id => '6');
-- (A row that a lane has locked just now is let go by the lane.)
DO $$ BEGIN FOR i IN 1 .. 100 LOOP EXIT WHEN NOT EXISTS (SELECT FROM pg_temp.parked WHERE state = 'blocked'); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT * FROM pg_temp.parked;
DELETE FROM outbox_internal.parked;

-- The rule is inlined into whatever asks, and goes by index, with a key of twenty thousand rows as with none.
SELECT pg_temp.park(70, 'dead', 7);
SELECT count(*) FROM generate_series(1000, 20999) n, LATERAL pg_temp.park(n, CASE n WHEN 1000 THEN 'retrying' ELSE 'blocked' END, 7);
ANALYZE outbox_internal.parked;
CREATE FUNCTION pg_temp.plan(query text) RETURNS TABLE (by_key bool, by_dead bool, read_all bool, called bool, reads_many bool)
  LANGUAGE plpgsql AS $$
DECLARE
  line text;
  plan text := '';
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    plan := plan || line || E'\n';
  END LOOP;
  RETURN QUERY SELECT plan LIKE '%parked_key_idx%', plan LIKE '%parked_dead_idx%', plan LIKE '%Seq Scan on parked%',
    plan LIKE '%Function Scan on _key%', plan ~ 'rows=[0-9]{3}';
END $$;
SET enable_seqscan = off;
SELECT * FROM pg_temp.plan($$SELECT h.id FROM outbox.route r, unnest('{7,8}'::bigint[]) k (key),
  LATERAL outbox_internal.key_head(r.id, k.key, r.on_failure = 'block') h WHERE r.name = 'regress keys'$$);
SELECT * FROM pg_temp.plan($$SELECT h.id FROM outbox.route r, LATERAL outbox_internal.key_head(r.id, 7, true, '2026-01-01 03:00+0', 0, pg_temp.id(5)) h
  WHERE r.name = 'regress keys'$$);
RESET enable_seqscan;

-- Roles that may read the view may ask; others may not.
CREATE ROLE regress_keys_reader;
GRANT USAGE ON SCHEMA outbox, outbox_internal TO regress_keys_reader;
SET ROLE regress_keys_reader;
SELECT outbox_internal.key_head(1, 1, true);
SELECT outbox_internal.key_dead(1, 1, true);
SELECT outbox_internal.key_pause(1, 'a', 'b');
SELECT count(*) FROM outbox_internal.waiting;
RESET ROLE;
SELECT outbox.grant_operate('regress_keys_reader');
SET ROLE regress_keys_reader;
SELECT key, waiting, behind, behind_state FROM (SELECT aggregate_id AS key, waiting, pg_temp.short(behind::text) AS behind, behind_state
  FROM outbox.blocked_key WHERE route = 'regress keys') b;
RESET ROLE;

DELETE FROM outbox_internal.parked;
DROP OWNED BY regress_keys_reader;
DROP ROLE regress_keys_reader;
SELECT outbox.resume('regress keys');
SELECT outbox.drop_route('regress keys');
DROP SERVER regress_keys;
