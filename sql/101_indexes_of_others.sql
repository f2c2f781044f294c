-- Indexes of somebody's own on the tables of outbox: one that may refuse a row (a value that does not fit into a page of it, an
-- expression that fails) would fail whoever emits, or stop a lane. Refused, whatever its method; narrow ones are in nobody's way, but
-- on all days at once, which no dump could bring.
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  how text;
BEGIN
  BEGIN
    EXECUTE command;
    RAISE 'undone';
  EXCEPTION WHEN OTHERS THEN
    how := CASE SQLERRM WHEN 'undone' THEN 'went through' ELSE SQLSTATE || ' ' || SQLERRM END;
  END;
  RETURN replace(how, to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'), 'today');
END $$;
SELECT outbox.emit('one', 1, 'e', '{}') IS NOT NULL AS emitted;
CREATE FUNCTION pg_temp.day() RETURNS text LANGUAGE sql AS $$ SELECT 'outbox_internal.log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') $$;
SELECT replace(command, to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'), 'today') AS command, pg_temp.said(command) FROM unnest(ARRAY[
  'CREATE INDEX ON outbox_internal.log (payload)', 'CREATE INDEX ON ' || pg_temp.day() || ' (payload)', 'CREATE INDEX ON ONLY outbox_internal.log (event_type)',
  'CREATE INDEX ON outbox_internal.log_spare (aggregate_id)', 'CREATE INDEX ON outbox_internal.parked (payload)', 'CREATE INDEX ON outbox_internal.parked (id, topic)',
  'CREATE INDEX ON outbox_internal.parked (id) INCLUDE (payload)', 'CREATE INDEX ON outbox_internal.parked USING hash (topic)', 'CREATE INDEX ON outbox_internal.log USING gin (headers)',
  'CREATE INDEX ON outbox_internal.parked ((1 / attempts))', 'CREATE INDEX ON outbox_internal.log ((xid))', 'CREATE INDEX ON outbox_internal.parked (id) WHERE 1 / attempts = 1',
  'CREATE INDEX mine ON outbox.audit (action)', 'CREATE INDEX IF NOT EXISTS mine ON outbox.route (name) WHERE lanes > 1', 'CREATE UNIQUE INDEX ON outbox_internal.parked (topic)',
  -- PostgreSQL's own
  'CREATE INDEX ON outbox_internal.log (no_such)', 'CREATE INDEX ON outbox_internal.parked (id) INCLUDE (no_such)', 'CREATE INDEX ON outbox_internal.no_such (payload)',
  -- of all days
  'CREATE INDEX ON outbox_internal.log (created_at, id)', 'CREATE INDEX ON outbox_internal.log USING brin (created_at)', 'CREATE INDEX ON ONLY outbox_internal.log (id)', 'CREATE INDEX log_xid ON outbox_internal.log (xid)',
  -- in nobody's way
  'CREATE INDEX ON ' || pg_temp.day() || ' USING brin (created_at)', 'CREATE INDEX ON outbox_internal.parked (id) INCLUDE (attempts, failed_at)',
  'CREATE INDEX ON ' || pg_temp.day() || ' (id)', 'CREATE INDEX ON outbox_internal.parked (due_at DESC NULLS LAST)',
  -- how the rows are kept
  'ALTER TABLE outbox_internal.log ALTER COLUMN payload SET STORAGE PLAIN', 'ALTER TABLE outbox_internal.log ALTER headers SET STORAGE plain', 'ALTER TABLE ' || pg_temp.day() || ' ALTER payload SET STORAGE PLAIN',
  'ALTER TABLE outbox_internal.parked ALTER COLUMN id SET STATISTICS 10, ALTER COLUMN payload SET STORAGE PLAIN', 'ALTER TABLE outbox_internal.parked ALTER no_such SET STORAGE PLAIN',
  'ALTER TABLE outbox_internal.log ALTER created_at SET STORAGE PLAIN',
  'ALTER TABLE outbox_internal.log ALTER payload SET STORAGE MAIN', 'ALTER TABLE outbox_internal.log ALTER headers SET STORAGE EXTERNAL', 'ALTER TABLE outbox_internal.parked ALTER payload SET STORAGE EXTENDED'])
  WITH ORDINALITY x (command, n) ORDER BY n;
CREATE INDEX ON outbox_internal.parked (payload);

-- a payload that is kept in the row where it fits goes out of line where it does not
BEGIN;
ALTER TABLE outbox_internal.log ALTER payload SET STORAGE MAIN, ALTER headers SET STORAGE MAIN;
ALTER TABLE outbox_internal.log_spare ALTER payload SET STORAGE MAIN;
SELECT outbox.emit_text('one', 'k', 'wide', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 700) n)) IS NOT NULL AS emitted;
ROLLBACK;

-- what a restore brings of a day, and an index of outbox that was dropped and comes back
BEGIN;
SET LOCAL outbox.allow_loss = on;
SELECT regexp_replace(indexdef, '[0-9]{8}', 'today', 'g') AS made FROM pg_indexes WHERE indexname = 'parked_due_idx' OR indexname ~ '^outcome_[0-9]+_acknowledged$' AND tablename = 'outcome_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') ORDER BY 1;
CREATE TEMP TABLE ours AS SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS made FROM pg_index
WHERE indexrelid::regclass::text ~ '^outbox_internal\.(parked_[a-z]+_idx|(outcome|emit_key|progress)_[0-9]{8}_[a-z]+)$';
SELECT count(*) >= 10 AS many FROM ours;
DO $$ DECLARE o record; BEGIN FOR o IN SELECT * FROM ours LOOP EXECUTE 'DROP INDEX ' || o.name; END LOOP; END $$;
SET LOCAL outbox.allow_loss = off;
DO $$ DECLARE o record; BEGIN FOR o IN SELECT * FROM ours LOOP EXECUTE o.made; END LOOP; END $$;
ROLLBACK;

-- who answers for it
BEGIN;
SET LOCAL outbox.allow_loss = on;
CREATE INDEX ON outbox_internal.parked (topic);
ALTER TABLE outbox_internal.parked ALTER payload SET STORAGE PLAIN;
SELECT detail ->> 'command' AS audited FROM outbox.audit WHERE action = 'allow_loss' AND at >= now() ORDER BY at;
ROLLBACK;

-- who may not is told so by PostgreSQL
CREATE ROLE regress_indexer;
GRANT USAGE ON SCHEMA outbox_internal TO regress_indexer;
SET ROLE regress_indexer;
CREATE INDEX ON outbox_internal.parked (payload);
ALTER TABLE outbox_internal.parked ALTER payload SET STORAGE PLAIN;
RESET ROLE;
REVOKE USAGE ON SCHEMA outbox_internal FROM regress_indexer;
DROP ROLE regress_indexer;

-- a table of somebody's own
CREATE TABLE public.regress_log (payload bytea);
CREATE INDEX ON public.regress_log (payload) WHERE payload IS NOT NULL;
ALTER TABLE public.regress_log ALTER payload SET STORAGE PLAIN;
DROP TABLE public.regress_log;
