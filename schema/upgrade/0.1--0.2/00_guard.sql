-- outbox 0.1 to 0.2. This file is built from schema/upgrade/0.1--0.2/*.sql; edit those.
\echo Use "ALTER EXTENSION outbox UPDATE TO '0.2'" to load this file. \quit

-- Some statements below sort or join the catalog: in a session with very little memory that takes temporary files, which it may not
-- have. Given back in 99_finish.sql: SET LOCAL is until the end of the transaction, which may go on behind this script.
SELECT pg_catalog.set_config('outbox_script.work_mem', pg_catalog.current_setting('work_mem'), true);
SET LOCAL work_mem = '16MB';

-- What this script drops cannot have anything made of it by users, and without this the server would tell of one of them at a
-- time, with CASCADE as its only hint, which ALTER EXTENSION does not take. Before anything else: all of them, and what was made of those.
-- Here is the only list, by the names of 0.1 (test/t/520_update_names_dependents.pl compares it with the statements).
DO $dependents$
DECLARE
  found pg_catalog.int8;
  names text;
BEGIN
  WITH RECURSIVE dropped (classid, objid, objsubid) AS (
    SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid, pg_catalog.to_regprocedure(f.signature)::pg_catalog.oid, 0
    FROM (VALUES
      ('outbox.grant_emit(regrole)'),
      ('outbox.wait_until_idle(interval)'),
      ('outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint)'),
      ('outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval)'),
      ('outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval)'),
      ('outbox._lag()'),
      ('outbox._own_events()')) f (signature)
    UNION ALL
    SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, a.attrelid, a.attnum
    FROM pg_catalog.pg_attribute a
    WHERE a.attrelid OPERATOR(pg_catalog.=) 'outbox.server_run'::pg_catalog.regclass AND a.attname OPERATOR(pg_catalog.=) 'resend'
    UNION ALL
    SELECT n.classid, n.objid, 0
    FROM pg_catalog.pg_constraint c,
    LATERAL (VALUES ('pg_catalog.pg_constraint'::pg_catalog.regclass, c.oid), ('pg_catalog.pg_class'::pg_catalog.regclass, c.conindid)) n (classid, objid)
    WHERE c.conrelid OPERATOR(pg_catalog.=) 'outbox.server_run'::pg_catalog.regclass AND c.conname OPERATOR(pg_catalog.=) 'server_run_pkey'
  ), edge AS (
    -- A rule of a view is the view, and a row type its relation.
    SELECT CASE WHEN r.oid IS NULL THEN d.classid ELSE 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid END AS classid,
           coalesce(r.ev_class, d.objid) AS objid,
           CASE WHEN t.oid IS NULL THEN d.refclassid ELSE 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid END AS refclassid,
           coalesce(t.typrelid, d.refobjid) AS refobjid, d.refobjsubid
    FROM pg_catalog.pg_depend d
    LEFT JOIN pg_catalog.pg_rewrite r ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid
      AND r.oid OPERATOR(pg_catalog.=) d.objid
    LEFT JOIN pg_catalog.pg_type t ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid
      AND t.oid OPERATOR(pg_catalog.=) d.refobjid AND t.typrelid OPERATOR(pg_catalog.<>) 0
    WHERE d.deptype OPERATOR(pg_catalog.=) 'n'
  ), theirs AS (
    SELECT e.* FROM edge e
    WHERE NOT EXISTS (
      SELECT FROM pg_catalog.pg_depend m
      WHERE m.classid OPERATOR(pg_catalog.=) e.classid AND m.objid OPERATOR(pg_catalog.=) e.objid AND m.deptype OPERATOR(pg_catalog.=) 'e'
        AND m.refobjid OPERATOR(pg_catalog.=) (SELECT x.oid FROM pg_catalog.pg_extension x WHERE x.extname OPERATOR(pg_catalog.=) 'outbox'))
  ), dependent (classid, objid) AS (
    SELECT e.classid, e.objid
    FROM theirs e JOIN dropped o ON e.refclassid OPERATOR(pg_catalog.=) o.classid AND e.refobjid OPERATOR(pg_catalog.=) o.objid
      AND e.refobjsubid OPERATOR(pg_catalog.=) o.objsubid
    UNION
    SELECT e.classid, e.objid
    FROM theirs e JOIN dependent o ON e.refclassid OPERATOR(pg_catalog.=) o.classid AND e.refobjid OPERATOR(pg_catalog.=) o.objid
  )
  SELECT pg_catalog.count(*), pg_catalog.string_agg(pg_catalog.pg_describe_object(d.classid, d.objid, 0), ', ' ORDER BY pg_catalog.pg_describe_object(d.classid, d.objid, 0))
  INTO found, names FROM dependent d;
  IF found OPERATOR(pg_catalog.>) 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
      MESSAGE = 'extension outbox cannot be updated: objects of yours depend on functions or columns that version 0.2 replaces',
      DETAIL = pg_catalog.format('%s: %s.', found, names),
      HINT = 'Keep their definitions (pg_get_viewdef(), pg_get_functiondef(), pg_dump --schema-only), drop them, update, and make them again: '
        'what they call is there as before, with an argument more. docs/upgrading.md.';
  END IF;
END
$dependents$;
