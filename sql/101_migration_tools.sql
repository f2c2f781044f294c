-- What a migration tool does that makes a database like a list of tables which has none of outbox: it drops indexes, and days of
-- positions, which are no members of the extension. Refused, whoever made the list; what others made there is theirs.
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.said(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  RETURN 'went through';
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION pg_temp.today(name text) RETURNS text LANGUAGE sql AS $$
  SELECT format('outbox_internal.%s_%s', name, to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) $$;

-- every index of every table, of each kind of day one
CREATE TEMP TABLE indexes AS
  SELECT i.indexrelid::regclass::text AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
  WHERE c.relnamespace IN ('outbox'::regnamespace, 'outbox_internal'::regnamespace)
    AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid);
SELECT count(*) > 15 AS many FROM indexes;
SELECT name, pg_temp.said('DROP INDEX ' || name) FROM indexes WHERE pg_temp.said('DROP INDEX ' || name) NOT LIKE '55000 cannot drop an index of outbox%';
SELECT pg_temp.said('DROP INDEX CONCURRENTLY outbox_internal.parked_due_idx');
DROP INDEX outbox_internal.parked_due_idx;

-- days of what lanes and operators have noted
SELECT name, replace(pg_temp.said('DROP TABLE ' || pg_temp.today(name)), pg_temp.today(name), 'today') AS dropped,
  replace(pg_temp.said(format('ALTER TABLE outbox_internal.%s DETACH PARTITION %s', name, pg_temp.today(name))), pg_temp.today(name), 'today') AS detached
FROM unnest('{progress,tick,outcome,emit_key}'::text[]) name ORDER BY 1;
-- the second of two, and nothing has gone
CREATE TABLE public.regress_first (a int);
SELECT replace(pg_temp.said('DROP TABLE public.regress_first, ' || pg_temp.today('progress')), pg_temp.today('progress'), 'today') AS both;
DROP TABLE public.regress_first;

-- what others made is theirs; what is not there is not asked about
CREATE INDEX regress_by_time ON outbox_internal.parked (failed_at);
DROP INDEX outbox_internal.regress_by_time;
-- nor what goes by a name that one of ours would have on another table
BEGIN;
SET LOCAL outbox.allow_loss = on;
CREATE INDEX ON outbox_internal.log (created_at);
SET LOCAL outbox.allow_loss = off;
DROP INDEX outbox_internal.log_created_at_idx;
DO $$ BEGIN
  EXECUTE 'CREATE INDEX ON ' || pg_temp.today('log') || ' (created_at)';
  EXECUTE 'ALTER INDEX ' || pg_temp.today('log') || '_created_at_idx RENAME TO regress_mine';
  EXECUTE 'CREATE INDEX ON ' || pg_temp.today('log') || ' (created_at)';
  EXECUTE 'DROP INDEX ' || pg_temp.today('log') || '_created_at_idx';
END $$;
-- but one of a table that has days takes ours of them for its own, and they would go with it
SET LOCAL outbox.allow_loss = on;
CREATE INDEX regress_all ON outbox_internal.log (xid);
SET LOCAL outbox.allow_loss = off;
SELECT regexp_replace(pg_temp.said('DROP INDEX outbox_internal.regress_all'), '_[0-9]{8}', '_YYYYMMDD') AS dropped;
ROLLBACK;
DROP INDEX IF EXISTS outbox_internal.regress_none, regress_nowhere.none;
DROP TABLE IF EXISTS outbox_internal.progress_20000101, regress_nowhere.none;

-- who may not is told so by PostgreSQL
CREATE ROLE regress_migrator;
GRANT USAGE ON SCHEMA outbox_internal TO regress_migrator;
SET ROLE regress_migrator;
DROP INDEX outbox_internal.parked_due_idx;
RESET ROLE;
REVOKE USAGE ON SCHEMA outbox_internal FROM regress_migrator;
DROP ROLE regress_migrator;

-- who answers for it
BEGIN;
SET LOCAL outbox.allow_loss = on;
SELECT pg_temp.said('DROP INDEX outbox_internal.parked_due_idx') AS indexed, pg_temp.said('DROP TABLE ' || pg_temp.today('tick')) AS day;
SELECT count(*) AS audited FROM outbox.audit WHERE at >= now() AND detail ->> 'command' ~ '^drop (an index of outbox_internal.parked|outbox_internal.tick_)';
ROLLBACK;
