-- No table of the extension is made unlogged by hand: a crash would leave nothing in it.
-- matrix: C19
CREATE TABLE own (LIKE outbox_internal.parked);
ALTER TABLE own SET UNLOGGED;
\set SHOW_CONTEXT never
DO $$
DECLARE
  t regclass;
  seen bigint := 0;
BEGIN
  PERFORM outbox.emit_text('t', 'k', 'x', 'makes the day table');
  -- Foreign keys or not, day tables, parked events, positions: all that is a table.
  FOR t IN SELECT oid FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND relkind = 'r' LOOP
    BEGIN
      EXECUTE format('ALTER TABLE %s SET UNLOGGED', t);
      RAISE EXCEPTION '% has become unlogged', t;
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
      seen := seen + 1;
    END;
  END LOOP;
  RAISE NOTICE 'each was refused: %', seen > 15;
END $$;
ALTER TABLE outbox_internal.parked SET UNLOGGED;
BEGIN;
SET LOCAL outbox.allow_loss = on;
ALTER TABLE outbox_internal.parked ALTER COLUMN topic SET STATISTICS 10, SET UNLOGGED;
SELECT relpersistence FROM pg_class WHERE oid = 'outbox_internal.parked'::regclass;
ROLLBACK;
SELECT DISTINCT relpersistence FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND relkind = 'r';
DROP TABLE own;

-- Nor a sequence: emptied by a crash, the clock's ceiling would let readings go back. As its own command has it, and as a table.
ALTER SEQUENCE outbox_internal.clock_ceiling SET UNLOGGED;
ALTER TABLE outbox_internal.clock_ceiling SET UNLOGGED;
ALTER SEQUENCE outbox_internal.clock_ceiling SET LOGGED;
BEGIN;
SET LOCAL outbox.allow_loss = on;
ALTER SEQUENCE outbox_internal.clock_ceiling SET UNLOGGED;
ROLLBACK;
CREATE SEQUENCE own_sequence;
ALTER SEQUENCE own_sequence SET UNLOGGED;
DROP SEQUENCE own_sequence;
SELECT DISTINCT relpersistence FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND relkind = 'S';
