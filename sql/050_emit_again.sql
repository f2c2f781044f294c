-- Emitting again and again: a transaction that has opened the day table and its indexes does so at less cost the next time.
-- It must notice what it has changed itself since, have the locks it had, and leave nothing open.
BEGIN;
SELECT outbox.emit('again', 0, 'first', '1') IS NOT NULL AS emitted;
SELECT tableoid::regclass::text AS day, tableoid::regclass || '_again' AS mine, tableoid::regclass || '_again_too' AS mine_too FROM outbox_internal.log WHERE xid = pg_current_xact_id() \gset
ROLLBACK;
SELECT split_part(:'mine', '.', 2) AS mine_name, split_part(:'mine_too', '.', 2) AS mine_too_name \gset
CREATE FUNCTION pg_temp.held() RETURNS TABLE (kind "char", mode text, relations bigint) LANGUAGE sql AS $$
  SELECT c.relkind, l.mode, count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
  WHERE l.pid = pg_backend_pid() AND c.relname LIKE 'log\_2%' GROUP BY 1, 2 ORDER BY 1, 2 $$;

-- A savepoint takes the locks along; the next emit takes them again. So three times, and nested.
BEGIN;
SAVEPOINT a;
SELECT outbox.emit('again', 1, 'gone', '1') IS NOT NULL AS emitted;
SELECT outbox.emit('again', 1, 'gone', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.held();
ROLLBACK TO a;
SELECT * FROM pg_temp.held();
SAVEPOINT b;
SELECT outbox.emit('again', 2, 'gone', '1') IS NOT NULL AS emitted;
RELEASE b;
SELECT * FROM pg_temp.held();
ROLLBACK TO a;
SELECT * FROM pg_temp.held();
SELECT outbox.emit('again', 3, 'stays', '1') IS NOT NULL AS emitted;
SELECT outbox.emit('again', 4, 'stays', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.held();
SELECT aggregate_id, event_type FROM outbox_internal.log WHERE xid = pg_current_xact_id() ORDER BY created_at;
ROLLBACK;

-- A cursor that is older than the savepoint has taken them; it fails in the savepoint, and they go with it.
BEGIN;
DECLARE c CURSOR FOR SELECT outbox.emit('again', i, 'cursor', to_jsonb(10 / (2 - i))) IS NOT NULL AS emitted FROM generate_series(1, 3) i;
FETCH 1 FROM c;
SELECT * FROM pg_temp.held();
SAVEPOINT a;
FETCH 1 FROM c;
ROLLBACK TO a;
RELEASE a;
SELECT * FROM pg_temp.held();
SELECT outbox.emit('again', 1, 'after', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.held();
SELECT cardinality(outbox.emit_many('again', '{2,3}', 'after', '{1,2}')) AS emitted;
SELECT aggregate_id, event_type FROM outbox_internal.log WHERE xid = pg_current_xact_id() ORDER BY created_at;
ROLLBACK;

-- Sixty-five blocks that fail and sixty-five that do not, in one transaction.
BEGIN;
DO $$ BEGIN
  FOR i IN 1 .. 65 LOOP
    BEGIN
      PERFORM outbox.emit('again', i, 'gone', '1');
      PERFORM outbox.emit_many('again', '{a,b}', 'gone', '{1,2}');
      RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN
      PERFORM outbox.emit('again', i, 'stays', '1');
    END;
    BEGIN
      PERFORM outbox.emit('again', i, 'stays', '2');
    EXCEPTION WHEN division_by_zero THEN
      NULL;
    END;
  END LOOP;
END $$;
SELECT event_type, count(*) FROM outbox_internal.log WHERE xid = pg_current_xact_id() GROUP BY 1;
ROLLBACK;

-- Indexes that come and go between two emits of one transaction, and tables that are written anew: each row is in each index.
CREATE FUNCTION pg_temp.indexed() RETURNS TABLE (by_key bigint, by_xid bigint, by_table bigint) LANGUAGE plpgsql AS $$ BEGIN
  SET LOCAL enable_seqscan = off;
  SET LOCAL enable_bitmapscan = off;
  by_key := (SELECT count(*) FROM outbox_internal.log WHERE aggregate_id BETWEEN 'key 1' AND 'key 99');
  by_xid := (SELECT count(*) FROM outbox_internal.log WHERE xid = pg_current_xact_id());
  SET LOCAL enable_seqscan = on;
  SET LOCAL enable_indexscan = off;
  SET LOCAL enable_indexonlyscan = off;
  by_table := (SELECT count(*) FROM outbox_internal.log WHERE xid = pg_current_xact_id());
  SET LOCAL enable_indexscan = on;
  SET LOCAL enable_indexonlyscan = on;
  RETURN NEXT;
END $$;
BEGIN;
SELECT outbox.emit('again', 'key 1', 'e', '1') IS NOT NULL AS emitted;
SET LOCAL outbox.allow_loss = on;
CREATE INDEX :mine_name ON :day (aggregate_id);
SELECT outbox.emit('again', 'key 2', 'e', '1') IS NOT NULL AS emitted;
SELECT cardinality(outbox.emit_many('again', '{key 3,key 4}', 'e', '{1,2}')) AS emitted;
SELECT * FROM pg_temp.indexed();
CREATE UNIQUE INDEX :mine_too_name ON :day ((aggregate_id || 'x')) WHERE aggregate_type = 'again';
SELECT outbox.emit('again', 'key 5', 'e', '1') IS NOT NULL AS emitted;
SAVEPOINT a;
\set VERBOSITY sqlstate
SELECT outbox.emit('again', 'key 5', 'e', '1') IS NOT NULL AS emitted;
ROLLBACK TO a;
SELECT outbox.emit_many('again', '{key 6,key 5}', 'e', '{1,2}');
ROLLBACK TO a;
SELECT outbox.emit('again', 'key 6', 'e', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.indexed();
DROP INDEX :mine_too;
SELECT outbox.emit('again', 'key 6', 'e', '1') IS NOT NULL AS emitted;
REINDEX TABLE :day;
SELECT outbox.emit('again', 'key 7', 'e', '1') IS NOT NULL AS emitted;
CLUSTER :day USING :mine_name;
SELECT outbox.emit('again', 'key 8', 'e', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.indexed();
DROP INDEX :mine;
CREATE UNIQUE INDEX :mine_name ON :day (xid, topic, content_type);
SELECT outbox.emit_text('again', 'key 9', 'e', 'x', topic => 'again') IS NOT NULL AS emitted;
SAVEPOINT b;
SELECT outbox.emit_text('again', 'key 9', 'e', 'x', topic => 'again') IS NOT NULL AS emitted;
ROLLBACK TO b;
SELECT outbox.emit_text('again', 'key 9', 'e', 'x', topic => 'again') IS NOT NULL AS emitted;
ROLLBACK TO b;
\set VERBOSITY default
SELECT outbox.emit_text('again', 'key 9', 'e', 'x', topic => 'again.too') IS NOT NULL AS emitted;
DROP INDEX :mine;
SELECT outbox.emit('again', 'key 10', 'e', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.indexed();
ROLLBACK;

-- What an emit cannot fill is refused also by a transaction that has just emitted, and is taken again when that is undone.
BEGIN;
SELECT outbox.emit('again', 1, 'e', '1') IS NOT NULL AS emitted;
SAVEPOINT a;
SET LOCAL outbox.allow_loss = on;
ALTER TABLE :day ADD CONSTRAINT again_check CHECK (aggregate_type <> 'again') NOT VALID;
\set VERBOSITY sqlstate
SELECT outbox.emit('again', 2, 'e', '1') IS NOT NULL AS emitted;
\set VERBOSITY default
ROLLBACK TO a;
SELECT outbox.emit('again', 3, 'e', '1') IS NOT NULL AS emitted;
SELECT aggregate_id FROM outbox_internal.log WHERE xid = pg_current_xact_id() ORDER BY created_at;
ROLLBACK;

-- In the next transaction of the session nothing is taken for locked, and nothing was left open by any of this.
BEGIN;
SELECT * FROM pg_temp.held();
SELECT outbox.emit('again', 1, 'e', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.held();
PREPARE TRANSACTION 'regress_again';
BEGIN;
SELECT outbox.emit('again', 2, 'e', '1') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.held();
ROLLBACK;
ROLLBACK PREPARED 'regress_again';
BEGIN;
ALTER TABLE :day SET (fillfactor = 90);
ALTER TABLE :day RESET (fillfactor);
ROLLBACK;
DROP FUNCTION pg_temp.held, pg_temp.indexed;
