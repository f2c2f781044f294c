-- matrix: B1 B10
-- Events live and die with what they were emitted in: transactions, savepoints, exception blocks, prepared transactions.
CREATE FUNCTION committed(what text) RETURNS SETOF text LANGUAGE sql AS
  $$ SELECT l.event_type FROM outbox_internal.log l WHERE l.aggregate_type = what ORDER BY l.created_at $$;
BEGIN;
SELECT outbox.emit('t1', 1, 'gone', '1') IS NOT NULL AS emitted;
ROLLBACK;
SELECT * FROM committed('t1');
-- Savepoints. The column xid has the top-level transaction's id, also of what was emitted in subtransactions.
BEGIN;
SELECT outbox.emit('t2', 1, 'before', '1') IS NOT NULL AS emitted;
SAVEPOINT a;
SELECT outbox.emit('t2', 1, 'rolled back', '1') IS NOT NULL AS emitted;
ROLLBACK TO a;
SELECT outbox.emit('t2', 1, 'after rollback to', '1') IS NOT NULL AS emitted;
SAVEPOINT b;
SELECT outbox.emit('t2', 1, 'in b', '1') IS NOT NULL AS emitted;
SAVEPOINT c;
SELECT outbox.emit('t2', 1, 'in c', '1') IS NOT NULL AS emitted;
RELEASE c;
RELEASE b;
DO $$ BEGIN
  BEGIN
    PERFORM outbox.emit('t2', 1, 'in a block that fails', '1');
    PERFORM outbox.emit('t2', 1, '', '1');
  EXCEPTION WHEN invalid_parameter_value THEN
    PERFORM outbox.emit('t2', 1, 'in its handler', '1');
  END;
END $$;
SELECT count(DISTINCT xid) AS xids, bool_and(xid = pg_current_xact_id()) AS top_level FROM outbox_internal.log WHERE aggregate_type = 't2';
COMMIT;
SELECT * FROM committed('t2');
-- The only write of a transaction, inside a savepoint.
BEGIN;
SAVEPOINT a;
SELECT outbox.emit('t3', 1, 'first in savepoint', '1') IS NOT NULL AS emitted;
RELEASE a;
SELECT bool_and(xid = pg_current_xact_id()) AS top_level FROM outbox_internal.log WHERE aggregate_type = 't3';
COMMIT;
SELECT * FROM committed('t3');
-- Isolation levels.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outbox.emit('t4', 1, 'repeatable read', '1') IS NOT NULL AS emitted;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT outbox.emit('t4', 1, 'serializable', '1') IS NOT NULL AS emitted;
SELECT count(*) FROM outbox.event;
COMMIT;
BEGIN ISOLATION LEVEL READ UNCOMMITTED;
SELECT outbox.emit('t4', 1, 'read uncommitted', '1') IS NOT NULL AS emitted;
COMMIT;
SELECT * FROM committed('t4');
-- Prepared transactions.
BEGIN;
SELECT outbox.emit('t5', 1, 'prepared', '1') IS NOT NULL AS emitted;
PREPARE TRANSACTION 'regress_commit';
SELECT * FROM committed('t5');
COMMIT PREPARED 'regress_commit';
SELECT * FROM committed('t5');
BEGIN;
SELECT outbox.emit('t5', 1, 'prepared and rolled back', '1') IS NOT NULL AS emitted;
PREPARE TRANSACTION 'regress_rollback';
ROLLBACK PREPARED 'regress_rollback';
SELECT * FROM committed('t5');
SELECT outbox.emit('t5', 1, 'the session goes on', '1') IS NOT NULL AS emitted;
SELECT * FROM committed('t5');
-- A two-phase transaction holds no lock on the parent and none that another emit needs.
BEGIN;
SELECT outbox.emit('t6', 1, 'prepared', '1') IS NOT NULL AS emitted;
PREPARE TRANSACTION 'regress_held';
SELECT outbox.emit('t6', 1, 'meanwhile', '1') IS NOT NULL AS emitted;
SELECT DISTINCT mode FROM pg_locks l WHERE l.relation = 'outbox_internal.log'::regclass AND pid IS NULL;
COMMIT PREPARED 'regress_held';
SELECT * FROM committed('t6');
-- Procedures that commit.
CREATE PROCEDURE emit_and_commit() LANGUAGE plpgsql AS $$ BEGIN
  PERFORM outbox.emit('t7', 1, 'first', '1');
  COMMIT;
  PERFORM outbox.emit('t7', 1, 'rolled back', '1');
  ROLLBACK;
  PERFORM outbox.emit('t7', 1, 'third', '1');
END $$;
CALL emit_and_commit();
SELECT * FROM committed('t7');
SELECT count(DISTINCT xid) FROM outbox_internal.log WHERE aggregate_type = 't7';
-- A deferred constraint trigger emits while the transaction commits; one that fails takes the event with it.
CREATE TABLE deferred (id int);
CREATE FUNCTION deferred_emit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM outbox.emit('t8', NEW.id, 'at commit', '1');
  IF NEW.id < 0 THEN RAISE EXCEPTION 'no'; END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deferred_emit();
INSERT INTO deferred VALUES (1);
INSERT INTO deferred VALUES (-1);
SELECT * FROM committed('t8');
DROP TABLE deferred;
DROP FUNCTION deferred_emit;
-- In a CTE, in RETURNING, from a cursor, once per row.
BEGIN;
CREATE TEMP TABLE rows AS SELECT i FROM generate_series(1, 3) i;
WITH changed AS (UPDATE rows SET i = i * 10 RETURNING i) SELECT outbox.emit('t9', i, 'cte', to_jsonb(i)) IS NOT NULL AS emitted FROM changed;
DELETE FROM rows WHERE i > 10 RETURNING outbox.emit('t9', i, 'returning', to_jsonb(i)) IS NOT NULL AS emitted;
DECLARE c CURSOR FOR SELECT outbox.emit('t9', i, 'cursor', to_jsonb(i)) IS NOT NULL AS emitted FROM generate_series(1, 5) i;
FETCH 2 FROM c;
CLOSE c;
SELECT aggregate_id, event_type FROM outbox.event ORDER BY created_at;
ROLLBACK;
-- Never in a parallel worker.
BEGIN;
SELECT set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query'); -- 15; 16
SET LOCAL parallel_setup_cost = 0;
SELECT outbox.emit('t10', 1, 'parallel', '1') IS NOT NULL AS emitted;
SELECT outbox_internal.order_key('t10', 'parallel', '1') IS NOT NULL AS keyed;
CREATE FUNCTION lies_about_being_safe() RETURNS uuid LANGUAGE sql PARALLEL SAFE AS $$ SELECT outbox.emit('t10', 1, 'parallel', '1') $$;
SAVEPOINT a;
SELECT lies_about_being_safe();
ROLLBACK TO a;
CREATE FUNCTION lies_about_receiving() RETURNS boolean LANGUAGE sql PARALLEL SAFE AS $$ SELECT outbox.receive('c', '018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f') $$;
CREATE FUNCTION lies_about_receiving_many() RETURNS SETOF uuid LANGUAGE sql PARALLEL SAFE AS $$ SELECT * FROM outbox.receive_many('c', '{018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f}') $$;
SAVEPOINT a;
\set VERBOSITY default
SELECT lies_about_receiving();
ROLLBACK TO a;
SELECT count(*) FROM (SELECT lies_about_receiving_many()) s;
ROLLBACK;
