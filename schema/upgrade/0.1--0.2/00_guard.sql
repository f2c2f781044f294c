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

-- Before anything changes: all locks that the statements below take of relations that sessions use, and no wait for one of them while
-- another is held. Sessions take them in any order (the view outbox.event, then the log; emit(), then a view of the monitoring), and
-- whoever waited for one of them with another in his hands would be in a deadlock with some. So the first wait is for one lock alone, as long as
-- lock_timeout lets it; those behind it may take half of deadlock_timeout together, in which short transactions end, and before
-- anybody looks for a deadlock. What is not had by then gives all of them back, and is waited for alone next.
-- ALTER TABLE ... OWNER TO who is it does nothing but lock one relation, of whatever kind: LOCK TABLE of a view locks what it selects from, too.
DO $locks$
DECLARE
  relations CONSTANT pg_catalog.text[] := ARRAY(
    WITH RECURSIVE ours AS (
      SELECT d.objid AS id FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_extension e ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox'
      WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.objsubid OPERATOR(pg_catalog.=) 0 AND d.deptype OPERATOR(pg_catalog.=) 'e'
      UNION
      SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN ours o ON i.inhparent OPERATOR(pg_catalog.=) o.id)
    SELECT pg_catalog.format('ALTER TABLE %s OWNER TO %I', c.oid::pg_catalog.regclass, pg_catalog.pg_get_userbyid(c.relowner))
    FROM pg_catalog.pg_class c JOIN ours o ON o.id OPERATOR(pg_catalog.=) c.oid
    WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,v,S}'::"char"[])
    ORDER BY c.relkind OPERATOR(pg_catalog.<>) 'v', c.oid);  -- a session that uses a view has that first
  patience CONSTANT pg_catalog.int8 := (SELECT s.setting::pg_catalog.int8 FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) 'lock_timeout');
  hurry CONSTANT pg_catalog.int8 := (SELECT s.setting::pg_catalog.int8 OPERATOR(pg_catalog./) 2 FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) 'deadlock_timeout');
  began CONSTANT pg_catalog.timestamptz := pg_catalog.clock_timestamp();
  alone pg_catalog.text := relations[1];
  wanted pg_catalog.text;
  held_since pg_catalog.timestamptz;
BEGIN
  LOOP
    held_since := NULL;
    BEGIN
      EXECUTE alone;
      held_since := pg_catalog.clock_timestamp();
      FOREACH wanted IN ARRAY relations LOOP
        PERFORM pg_catalog.set_config('lock_timeout', greatest(1, hurry OPERATOR(pg_catalog.-)
          (1000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) held_since))::pg_catalog.int8)::pg_catalog.text, true);
        EXECUTE wanted;
      END LOOP;
      PERFORM pg_catalog.set_config('lock_timeout', patience::pg_catalog.text, true);
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      -- All the waiting together is what lock_timeout bounds; 0 is no bound.
      IF held_since IS NULL OR (patience OPERATOR(pg_catalog.>) 0 AND
          (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) began) OPERATOR(pg_catalog.>=) pg_catalog.make_interval(secs => patience OPERATOR(pg_catalog./) 1000.0)) THEN
        RAISE;
      END IF;
      alone := wanted;
    END;
  END LOOP;
END
$locks$;
