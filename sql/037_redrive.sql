-- redrive and discard_dead_letters: which dead letters they take, in what order, and what they say meanwhile.
SET outbox.allow_loss = on;  -- parked events are deleted by hand below, to begin again
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
SET timezone = 'UTC';
CREATE SERVER regress_parked FOREIGN DATA WRAPPER outbox_log;
BEGIN;
SELECT outbox.create_route('regress a', 'regress_parked', '{regress_redrive}', lanes => 3) > 0 AS made;
SELECT outbox.create_route('regress b', 'regress_parked', '{regress_redrive}', topic => 'b.{aggregate_type}') > 0 AS made;
SELECT outbox.pause(name, reason => 'the test needs it still') FROM outbox.route WHERE name LIKE 'regress%';
COMMIT;

-- 30 dead letters: two routes, three keys, two event types, two reasons; failed one a minute
CREATE FUNCTION pg_temp.fill() RETURNS void LANGUAGE sql SET client_min_messages = error AS $$
  DELETE FROM outbox_internal.parked;
  DELETE FROM outbox.audit WHERE action IN ('redrive', 'discard');
  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, topic, attempts,
    error_class, error_code, error_message, failed_at)
  SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 second', ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
    'regress_redrive', (ARRAY['k1', 'k2', NULL])[n % 3 + 1], CASE WHEN n % 2 = 0 THEN 'even.happened' ELSE 'odd.happened' END, '{}',
    'old.topic', 10, 'message', CASE WHEN n > 10 THEN 'MSG_SIZE_TOO_LARGE' ELSE 'INVALID_RECORD' END,
    CASE WHEN n > 10 THEN 'too large by ' ELSE '100% wrong: ' END || n, timestamptz '2026-02-01' + n * interval '1 minute'
  FROM outbox.route r, generate_series(1, 15) n WHERE r.name LIKE 'regress%' $$;
CREATE VIEW pg_temp.parked AS
  SELECT r.name AS route, p.state, p.topic, p.attempts, count(*), min(right(p.id::text, 2)) AS first, max(right(p.id::text, 2)) AS last,
    bool_and(p.due_at <= clock_timestamp()) AS due, count(DISTINCT p.order_key) AS keys
  FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name LIKE 'regress%' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
CREATE VIEW pg_temp.audit AS
  SELECT action, route, detail, reason FROM outbox.audit WHERE action IN ('redrive', 'discard') ORDER BY at;

SELECT pg_temp.fill();
SELECT * FROM outbox.dead_letter_summary ORDER BY 1, 2, 3, 4;
SELECT route, right(id::text, 2) AS n, created_at, aggregate_type, aggregate_id, event_type, topic, attempts, error_class, error_code,
  error_message, failed_at, replay, payload_bytes FROM outbox.dead_letter WHERE route = 'regress a' ORDER BY created_at LIMIT 3;

-- unless told otherwise it counts and changes nothing; it may run in a transaction
CALL outbox.redrive();
BEGIN;
CALL outbox.redrive('regress a', error => '*SIZE*', dry_run => true);
COMMIT;
SELECT * FROM pg_temp.parked;
SELECT * FROM pg_temp.audit;

-- whatever is called CALL does so, and has no other name for it
SELECT p.proname, pg_get_function_arguments(p.oid) ~ 'dry_run boolean DEFAULT true' AS shows_first
FROM pg_proc p WHERE p.pronamespace = 'outbox'::regnamespace AND p.prokind = 'p' ORDER BY 1;

-- each filter
CALL outbox.redrive('regress b', batch => 4, dry_run => false);
SELECT * FROM pg_temp.parked;
SELECT * FROM pg_temp.audit;
SELECT pg_temp.fill();
CALL outbox.redrive(aggregate_type => 'regress_*', aggregate_id => 'k1', event_type => 'odd*', reason => 'ticket 4711', dry_run => false);
SELECT * FROM pg_temp.parked;
SELECT pg_temp.fill();
CALL outbox.redrive(topic => 'old.topic', since => '2026-02-01 00:03', until => '2026-02-01 00:05', dry_run => false);
SELECT * FROM pg_temp.parked;
SELECT pg_temp.fill();
CALL outbox.redrive(error => 'INVALID_RECORD', route => 'regress a', dry_run => false);
CALL outbox.redrive(error => 'too large by 15', dry_run => false);
CALL outbox.redrive(error => '100% wrong*', route => 'regress b', dry_run => false);
CALL outbox.redrive(error => '100_ wrong*', dry_run => false);
CALL outbox.redrive(topic => 'nothing', dry_run => false);
CALL outbox.redrive(error => 'message', per_second => 1000, dry_run => false);
SELECT * FROM pg_temp.parked;

-- what another session has locked stays as it is, and what fails while it runs is not tried over and over
SELECT pg_temp.fill();
UPDATE outbox_internal.parked SET failed_at = now() + interval '1 hour' WHERE right(id::text, 2) > '05';
CALL outbox.redrive(dry_run => false);
-- order per key: what is behind an event that is backing off waits for it
SELECT pg_temp.fill();
CALL outbox.redrive('regress a', aggregate_id => 'k1', until => '2026-02-01 00:04', dry_run => false);
UPDATE outbox_internal.parked SET due_at = now() + interval '9 minutes' WHERE state = 'retrying';
CALL outbox.redrive('regress a', dry_run => false);
SELECT * FROM pg_temp.parked;
SELECT p.aggregate_id, p.state, string_agg(right(p.id::text, 2), ',' ORDER BY p.created_at) FROM outbox_internal.parked p
  JOIN outbox.route r ON r.id = p.route_id WHERE r.name = 'regress a' GROUP BY 1, 2 ORDER BY 1, 2;

-- the same filters give dead letters up; dry unless told otherwise
SELECT pg_temp.fill();
CALL outbox.discard_dead_letters('regress a');
CALL outbox.discard_dead_letters('regress a', error => 'INVALID*', dry_run => false, batch => 3, reason => 'test data');
SELECT * FROM pg_temp.parked;
SELECT * FROM pg_temp.audit;
SELECT o.outcome, count(*) FROM outbox_internal.outcome o JOIN outbox.route r ON r.id = o.route_id WHERE r.name = 'regress a' GROUP BY 1;

-- a * in a key is nothing but a *
CALL outbox.redrive('regress a', aggregate_id => 'k*');
CALL outbox.discard_dead_letters(aggregate_id => '*');

-- Each refusal.
\set SHOW_CONTEXT never
BEGIN;
CALL outbox.redrive(dry_run => false);
\echo :SQLSTATE
ROLLBACK;
BEGIN;
CALL outbox.discard_dead_letters(dry_run => false, reason => 'x');
\echo :SQLSTATE
ROLLBACK;
DO $$ DECLARE n bigint; BEGIN CALL outbox.redrive(events => n, dry_run => false); EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% %', sqlstate, sqlerrm; END $$;
CREATE FUNCTION pg_temp.inside() RETURNS void LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN CALL outbox.redrive(events => n, dry_run => false); END $$;
SELECT pg_temp.inside();
\echo :SQLSTATE
CALL outbox.redrive('regress nothing', dry_run => false);
\echo :SQLSTATE
CALL outbox.redrive('', dry_run => false);
\echo :SQLSTATE
CALL outbox.redrive(error => '', dry_run => false);
CALL outbox.redrive(batch => 0, dry_run => false);
\echo :SQLSTATE
CALL outbox.redrive(batch => 100001, dry_run => false);
CALL outbox.redrive(batch => NULL, dry_run => false);
CALL outbox.redrive(dry_run => NULL);
\echo :SQLSTATE
CALL outbox.redrive(since => 'infinity');
-- nor do the last years that a timestamptz has come before all others
CALL outbox.redrive(since => '294250-01-01');
CALL outbox.discard_dead_letters(since => '294250-01-01', reason => 'x');
CALL outbox.redrive(until => '-infinity');
CALL outbox.redrive(per_second => 0, dry_run => false);
\echo :SQLSTATE
CALL outbox.redrive(per_second => -1, dry_run => false);
CALL outbox.redrive(per_second => 'NaN', dry_run => false);
CALL outbox.redrive(per_second => 1e-12, dry_run => false);
-- a time that ends before it begins has nothing in it, which is what nobody means
CALL outbox.redrive(since => '2026-02-02', until => '2026-02-01');
\echo :SQLSTATE
CALL outbox.discard_dead_letters(since => '2026-02-01', until => '2026-02-01', dry_run => false, reason => 'x');
CALL outbox.discard_dead_letters(dry_run => false);
\echo :SQLSTATE
CALL outbox.discard_dead_letters(dry_run => false, reason => '  ');
SET default_transaction_read_only = on;
CALL outbox.redrive(dry_run => false);
\echo :SQLSTATE
CALL outbox.discard_dead_letters(dry_run => false, reason => 'x');
CALL outbox.redrive('regress b', dry_run => true);
RESET default_transaction_read_only;
-- in a session whose transactions are serializable by default
SET default_transaction_isolation = 'serializable';
CALL outbox.redrive('regress b', error => 'nothing', dry_run => false);
SHOW transaction_isolation;
-- and so is what a block does after the call
DO $$
DECLARE n bigint;
BEGIN
  CALL outbox.redrive('regress b', error => 'nothing', events => n, dry_run => false);
  RAISE NOTICE 'after redrive(): %', current_setting('transaction_isolation');
END $$;
RESET default_transaction_isolation;
-- in one whose are not, too
DO $$
DECLARE n bigint;
BEGIN
  CALL outbox.redrive('regress b', error => 'nothing', events => n, dry_run => false);
  RAISE NOTICE 'after redrive(): %', current_setting('transaction_isolation');
END $$;
-- from a procedure that may commit it works
CREATE PROCEDURE pg_temp.outer() LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN CALL outbox.redrive('regress b', error => 'INVALID*', events => n, dry_run => false); RAISE NOTICE 'n is %', n; END $$;
CALL pg_temp.outer();
SELECT * FROM pg_temp.parked WHERE route = 'regress b';

SET client_min_messages = warning;
SELECT outbox.drop_route('regress a'), outbox.drop_route('regress b');
DROP SERVER regress_parked;
