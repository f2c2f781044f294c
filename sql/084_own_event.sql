-- An event of the transaction by its id: looked up, whatever else it has emitted, in each way that clients ask.
\pset null '(null)'
CREATE FUNCTION id(n int) RETURNS uuid LANGUAGE sql IMMUTABLE RETURN lpad(n::text, 32, '0')::uuid;
CREATE FUNCTION put(n int, v text DEFAULT NULL) RETURNS int LANGUAGE sql VOLATILE
  BEGIN ATOMIC INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
    VALUES (id(n), 'own', n::text, coalesce(v, 'first'), to_jsonb(n)) RETURNING payload::int; END;
-- How a statement finds it, and how many it looks at in vain.
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql VOLATILE AS $$
DECLARE line text; BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    IF line ~ 'Own Events|Removed|Foreign Scan' THEN RETURN NEXT regexp_replace(trim(line), 'rows=(\d+)\.00', 'rows=\1'); END IF;
  END LOOP;
END $$;
BEGIN;
SELECT count(put(n)) FROM generate_series(1, 300) n;
PREPARE one(uuid) AS SELECT aggregate_id, event_type, payload FROM outbox.event e WHERE e.id = $1;
PREPARE several(uuid[]) AS SELECT aggregate_id FROM outbox.event WHERE id = ANY ($1) ORDER BY 1;
SET LOCAL plan_cache_mode = force_generic_plan;
EXECUTE one(id(7));
EXECUTE one(id(301));
EXECUTE one(NULL);
EXECUTE several(ARRAY[id(1), id(300), NULL, id(301), id(1)]);
EXECUTE several('{}');
EXECUTE several(NULL);
SELECT plan('EXECUTE one(id(7))');
SELECT plan('EXECUTE several(ARRAY[id(1), id(300)])');
SELECT plan($$SELECT * FROM outbox.event WHERE id(9) = id AND aggregate_type = 'own'$$);
SELECT plan($$SELECT * FROM outbox.event WHERE id IN (id(9), id(8))$$);
SELECT plan($$SELECT * FROM outbox.event WHERE id = id(9) OR id = ANY (ARRAY[id(8)])$$);
SELECT plan($$SELECT * FROM outbox.event WHERE id = (SELECT id(3))$$);
SELECT plan($$SELECT (SELECT payload FROM outbox.event e WHERE e.id = id(n)) FROM generate_series(1, 2) n$$);
-- Not by id.
SELECT plan($$SELECT * FROM outbox.event WHERE id = id(9) OR aggregate_id = '8'$$);
SELECT plan($$SELECT * FROM outbox.event WHERE id = gen_random_uuid()$$);
SELECT plan($$SELECT * FROM outbox.event WHERE id <> ALL (ARRAY[id(1), id(2)])$$);
SELECT count(*), sum((payload)::int) FROM outbox.event;
SELECT e.aggregate_id, n FROM generate_series(299, 302) n JOIN outbox.event e ON e.id = id(n) ORDER BY n;
SELECT aggregate_id FROM outbox.event WHERE id = id(5) FOR UPDATE;
SELECT e FROM outbox.event e WHERE id = (SELECT id FROM outbox.event WHERE false);
SELECT (e).payload FROM (SELECT e FROM outbox.event e WHERE id = id(5)) x;
-- Emitted after the first question, by each of the functions.
SELECT put(400);
SELECT array_agg(e) AS made_many FROM outbox.emit_many('[{"aggregate_type": "own", "aggregate_id": "401", "event_type": "many", "payload": 1}, {"aggregate_type": "own", "event_type": "many", "payload": 2}]') e \gset
SELECT outbox.emit_bytes('own', 403, 'bytes', '\xff') AS made \gset
EXECUTE one(id(400));
SELECT aggregate_id, payload_bytes FROM outbox.event WHERE id = :'made';
SELECT event_type, payload FROM outbox.event WHERE id = ANY (:'made_many') ORDER BY created_at;
-- The same id twice, thrice; what one statement emits it does not see.
SELECT put(7, 'second');
EXECUTE one(id(7));
WITH e AS (INSERT INTO outbox.event (id, aggregate_type, event_type, payload) VALUES (id(7), 'own', 'third', '0') RETURNING 1)
SELECT (SELECT count(*) FROM outbox.event WHERE id = id(7)), count(*) FROM e;
SELECT event_type FROM outbox.event WHERE id = id(7) ORDER BY created_at;
-- A cursor sees what there was when it was opened.
DECLARE early CURSOR FOR SELECT event_type FROM outbox.event WHERE id = id(7) ORDER BY created_at;
SELECT put(7, 'fourth');
FETCH ALL early;
DECLARE all_of_them NO SCROLL CURSOR FOR SELECT event_type FROM outbox.event WHERE aggregate_id = '7';
FETCH all_of_them;
-- Savepoints: what is rolled back is gone, whether it was looked for before, in between or not at all.
SAVEPOINT a;
SELECT put(500);
EXECUTE one(id(500));
SAVEPOINT b;
SELECT put(501);
SELECT put(500, 'again');
SELECT count(*) FROM outbox.event WHERE id IN (id(500), id(501));
ROLLBACK TO b;
SELECT count(*) FROM outbox.event WHERE id IN (id(500), id(501));
ROLLBACK TO a;
EXECUTE one(id(500));
SELECT put(500, 'anew');
EXECUTE one(id(500));
RELEASE a;
EXECUTE one(id(500));
FETCH ALL all_of_them;
-- 2,000 events, each in a subtransaction, half of them rolled back: each is asked for before and after.
DO $$
DECLARE
  wrong int := 0;
BEGIN
  FOR n IN 1000 .. 2999 LOOP
    BEGIN
      wrong := wrong + (SELECT count(*) FROM outbox.event WHERE id = id(n));
      PERFORM put(n);
      wrong := wrong + 1 - (SELECT count(*) FROM outbox.event WHERE id = id(n));
      IF n % 2 = 0 THEN RAISE EXCEPTION 'not this one'; END IF;
    EXCEPTION WHEN raise_exception THEN NULL;
    END;
    wrong := wrong + (SELECT abs(count(*) - n % 2) FROM outbox.event WHERE id = id(n));
  END LOOP;
  RAISE NOTICE '% wrong answers, % events', wrong, (SELECT count(*) FROM outbox.event WHERE aggregate_id::int BETWEEN 1000 AND 2999);
END $$;
-- An error while rows are being looked for does no harm afterwards.
ROLLBACK;
EXECUTE one(id(7));
BEGIN;
SELECT count(put(n)) FROM generate_series(1, 10) n;
SAVEPOINT a;
EXECUTE one(id(7));
SELECT 1 / (SELECT 0 * count(*) FROM outbox.event WHERE id = id(7));
ROLLBACK TO a;
EXECUTE one(id(7));
SELECT put(11);
EXECUTE one(id(11));
PREPARE TRANSACTION 'own';
ROLLBACK PREPARED 'own';
EXECUTE one(id(7));
-- Where the rows have been moved, by a role that may.
CREATE FUNCTION today(command text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN EXECUTE format(command, to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$;
BEGIN;
SELECT count(put(n)) FROM generate_series(1, 10) n;
EXECUTE one(id(7));
SELECT today('CLUSTER outbox_internal.log_%1$s USING log_%1$s_xid');
EXECUTE one(id(7));
SELECT put(8, 'after');
SELECT count(*) FROM outbox.event WHERE id IN (id(7), id(8));
SAVEPOINT a;
SET LOCAL outbox.allow_loss = on;
SELECT today('DELETE FROM outbox_internal.log_%s WHERE id = id(7)');
EXECUTE one(id(7));
ROLLBACK TO a;
EXECUTE one(id(7));
SELECT put(12);
EXECUTE one(id(12));
SELECT count(*) FROM outbox.event;
ROLLBACK;
-- What is asked of it may lean on another table.
BEGIN;
SELECT count(put(n)) FROM generate_series(1, 2) n;
SELECT t.x, count(*), min(s.y), max(s.y) FROM (VALUES ('a'), ('b')) t (x)
  LEFT JOIN LATERAL (SELECT e.id, coalesce(t.x, '') || e.event_type AS y FROM outbox.event e) s ON true GROUP BY 1 ORDER BY 1;
ROLLBACK;
-- Only through the view, and only for roles that may emit.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_own, regress_none;
CREATE ROLE regress_own;
CREATE ROLE regress_none;
RESET client_min_messages;
SELECT outbox.grant_emit('regress_own');
BEGIN;
GRANT EXECUTE ON FUNCTION id(int), put(int, text) TO regress_own;
SET LOCAL ROLE regress_own;
SELECT put(1);
EXECUTE one(id(1));
SAVEPOINT a;
SELECT * FROM outbox_internal.own_event;
ROLLBACK TO a;
CREATE SERVER mine FOREIGN DATA WRAPPER outbox_own_event;
ROLLBACK TO a;
CREATE FOREIGN TABLE pg_temp.mine (id uuid) SERVER outbox_own_event;
ROLLBACK TO a;
SET LOCAL ROLE regress_none;
\set VERBOSITY sqlstate
EXECUTE one(id(1));
\set VERBOSITY default
ROLLBACK;
INSERT INTO outbox_internal.own_event (id) VALUES (id(1));
SELECT outbox.revoke_emit('regress_own');
REVOKE USAGE ON SCHEMA outbox FROM regress_own;
DROP ROLE regress_own, regress_none;
DEALLOCATE ALL;
DROP FUNCTION today, plan, put, id;
