SET timezone = 'UTC';
SET datestyle = 'ISO';
-- A missing day table is made at first use, whatever stands in its way.
SELECT 'outbox_internal.log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') AS day \gset
-- What it looks like: the parent's columns, owner and bounds of one UTC day, one index, no place in the extension.
SELECT c.relowner = p.relowner AS same_owner, c.reloptions, c.relispartition,
       regexp_replace(pg_get_expr(c.relpartbound, c.oid), '\d\d\d\d-\d\d-\d\d', 'DAY', 'g') AS bounds
FROM pg_class c, pg_class p WHERE c.oid = :'day'::regclass AND p.oid = 'outbox_internal.log'::regclass;
SELECT regexp_replace(pg_get_indexdef(indexrelid), '\d{8}', 'YYYYMMDD', 'g') FROM pg_index WHERE indrelid = :'day'::regclass;
SELECT count(*) FROM pg_depend WHERE objid = :'day'::regclass AND deptype = 'e';

-- A user's event triggers, a role that may do nothing but emit, a transaction that is aborted later.
CREATE FUNCTION no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no DDL today: %', tg_tag; END $$;
DROP TABLE :day;
CREATE ROLE regress_emitter;
SELECT outbox.grant_emit('regress_emitter');
CREATE EVENT TRIGGER no_ddl ON ddl_command_start EXECUTE FUNCTION no_ddl();
BEGIN;
SET LOCAL ROLE regress_emitter;
SELECT outbox.emit('day', 1, 'gone', '{}') IS NOT NULL AS emitted;
ROLLBACK;
SELECT outbox.emit('day', 1, 'stays', '{}') IS NOT NULL AS emitted;
DROP EVENT TRIGGER no_ddl;
DROP FUNCTION no_ddl;
SELECT event_type FROM outbox_internal.log WHERE aggregate_type = 'day';
SELECT c.relowner = p.relowner AS same_owner FROM pg_class c, pg_class p WHERE c.oid = :'day'::regclass AND p.oid = 'outbox_internal.log'::regclass;

-- A transaction that holds the parent so that no other could make the table.
BEGIN;
LOCK TABLE outbox_internal.log IN ACCESS EXCLUSIVE MODE;
DROP TABLE :day;
SELECT outbox.emit('day', 1, 'under lock', '{}') IS NOT NULL AS emitted;
SELECT event_type FROM outbox_internal.log WHERE aggregate_type = 'day';
ROLLBACK;
SELECT event_type FROM outbox_internal.log WHERE aggregate_type = 'day';

-- A session that has the table in its cache sees that it was replaced; a cached plan too.
PREPARE again AS SELECT outbox.emit('day', 1, 'again', '{}') IS NOT NULL AS emitted;
EXECUTE again;
DROP TABLE :day;
EXECUTE again;
SELECT cardinality(outbox.emit_many('day', NULL, 'many', '{1,2}')) AS emitted;
DROP TABLE :day;
SELECT cardinality(outbox.emit_many('day', NULL, 'many', '{1,2}')) AS emitted;
SELECT event_type FROM outbox_internal.log WHERE aggregate_type = 'day';
DEALLOCATE again;

-- Something else has its name.
BEGIN;
DROP TABLE :day;
CREATE TABLE :day (LIKE outbox_internal.log);
\x on
\t on
SELECT * FROM refused_masked($$SELECT outbox.emit('day', 1, 'e', '{}')$$);
\t off
\x off
ROLLBACK;
-- A column too many is in nobody's way; too few, another type: by those who answer for it.
BEGIN;
SET LOCAL outbox.allow_loss = on;
ALTER TABLE outbox_internal.log ADD COLUMN extra int;
SELECT message, detail FROM refused_masked($$SELECT outbox.emit('day', 1, 'e', '{}')$$);
ROLLBACK;
BEGIN;
SELECT message, detail FROM refused_masked('ALTER TABLE outbox_internal.log DROP COLUMN topic');
SET LOCAL outbox.allow_loss = on;
ALTER EXTENSION outbox DROP VIEW outbox_internal.whole_log;
ALTER TABLE outbox_internal.log DROP COLUMN topic CASCADE;
SELECT message, detail FROM refused_masked($$SELECT outbox.emit('day', 1, 'e', '{}')$$);
ROLLBACK;
BEGIN;
SET LOCAL outbox.allow_loss = on;
ALTER EXTENSION outbox DROP VIEW outbox_internal.whole_log;
DROP VIEW stored, outbox_internal.whole_log;
ALTER TABLE outbox_internal.log ALTER COLUMN aggregate_id TYPE varchar;
SELECT message, detail FROM refused_masked($$SELECT outbox.emit('day', 1, 'e', '{}')$$);
ROLLBACK;
BEGIN;
SET LOCAL outbox.allow_loss = on;
SET LOCAL client_min_messages = error;
ALTER TABLE :day SET UNLOGGED;
SELECT message, detail FROM refused_masked($$SELECT outbox.emit('day', 1, 'e', '{}')$$);
ROLLBACK;
SELECT outbox.emit('day', 1, 'last', '{}') IS NOT NULL AS emitted;
SELECT outbox.revoke_emit('regress_emitter');
REVOKE USAGE ON SCHEMA outbox FROM regress_emitter;
DROP ROLE regress_emitter;
