-- What users need not see leaves schema outbox, day tables with it. Views and triggers follow by themselves.
CREATE SCHEMA outbox_internal;
COMMENT ON SCHEMA outbox_internal IS 'what extension outbox keeps for itself: the log, positions of lanes, parked events; schema outbox shows what is to be seen of it';
REVOKE ALL ON SCHEMA outbox_internal FROM PUBLIC;

-- The bodies of these two name schema outbox; 17 and newer move no function that depends on its schema twice. Both are made
-- again below.
CREATE OR REPLACE FUNCTION outbox._emit_routines() RETURNS SETOF pg_catalog.regprocedure LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT NULL::pg_catalog.regprocedure;
END;
CREATE OR REPLACE FUNCTION outbox._operate_grants() RETURNS SETOF pg_catalog.text LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT NULL::pg_catalog.text;
END;

-- What is the extension's, whatever somebody has called an object of his own that he keeps in schema outbox: its members, and
-- partitions of its tables, which are none. (Dropped in 99_finish.sql; no other session sees it.)
CREATE FUNCTION outbox_internal.is_ours(class regclass, object oid) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT EXISTS (
    SELECT FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_extension e ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
      AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox'
    WHERE d.classid OPERATOR(pg_catalog.=) is_ours.class AND d.deptype OPERATOR(pg_catalog.=) 'e'
      AND d.objid OPERATOR(pg_catalog.=) CASE WHEN is_ours.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        THEN coalesce(pg_catalog.pg_partition_root(is_ours.object::pg_catalog.regclass)::pg_catalog.oid, is_ours.object)
        ELSE is_ours.object END);
END;

DO $move$
DECLARE
  what text;
BEGIN
  -- Functions first: what asks for a table by its name is made again below.
  FOR what IN
    SELECT pg_catalog.format('ALTER ROUTINE %s SET SCHEMA outbox_internal', p.oid::pg_catalog.regprocedure)
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace OPERATOR(pg_catalog.=) 'outbox'::pg_catalog.regnamespace AND p.proname OPERATOR(pg_catalog.~) '^(_|json_arg_)|_validator$'
      AND outbox_internal.is_ours('pg_catalog.pg_proc', p.oid)
    UNION ALL
    SELECT pg_catalog.format('ALTER %s %s SET SCHEMA outbox_internal',
      CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END, c.oid::pg_catalog.regclass)
    FROM pg_catalog.pg_class c
    WHERE c.relnamespace OPERATOR(pg_catalog.=) 'outbox'::pg_catalog.regnamespace
      AND (c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,v,f}'::"char"[])
           OR (c.relkind OPERATOR(pg_catalog.=) 'S' AND c.relname OPERATOR(pg_catalog.=) 'clock_ceiling'))
      AND (c.relname OPERATOR(pg_catalog.~) '^(_.*|clock_ceiling|emit_right|foreign_event|identity|lane|lane_start|log|log_spare|origin|outcome|parked|progress|server_run|side_lane|side_topic|tick|adoption|adopted)$'
           OR c.relispartition)
      AND outbox_internal.is_ours('pg_catalog.pg_class', c.oid)
  LOOP
    EXECUTE what;
  END LOOP;
  FOR what IN
    SELECT pg_catalog.format('ALTER ROUTINE %s RENAME TO %I', p.oid::pg_catalog.regprocedure, pg_catalog.ltrim(p.proname::text, '_'))
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace OPERATOR(pg_catalog.=) 'outbox_internal'::pg_catalog.regnamespace AND p.proname OPERATOR(pg_catalog.~) '^_'
    UNION ALL
    SELECT pg_catalog.format('ALTER TABLE %s RENAME TO %I', c.oid::pg_catalog.regclass, pg_catalog.ltrim(c.relname::text, '_'))
    FROM pg_catalog.pg_class c
    WHERE c.relnamespace OPERATOR(pg_catalog.=) 'outbox_internal'::pg_catalog.regnamespace AND c.relname OPERATOR(pg_catalog.~) '^_'
  LOOP
    EXECUTE what;
  END LOOP;
END
$move$;

-- What is said of tables and columns names them where they are now.
DO $say$
DECLARE
  what text;
BEGIN
  FOR what IN
    SELECT pg_catalog.format('COMMENT ON %s IS %L',
      CASE WHEN d.objsubid OPERATOR(pg_catalog.<>) 0 THEN pg_catalog.format('COLUMN %s.%I', c.oid::pg_catalog.regclass, a.attname)
           ELSE pg_catalog.format('%s %s', CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'i' THEN 'INDEX' WHEN 'I' THEN 'INDEX' ELSE 'TABLE' END,
                                  c.oid::pg_catalog.regclass) END,
      pg_catalog.regexp_replace(d.description,
        E'\\moutbox\\.(clock_ceiling|emit_right|foreign_event|identity|lane|lane_start|log|log_spare|origin|outcome|parked|progress|server_run|side_lane|side_topic|tick)\\M',
        E'outbox_internal.\\1', 'g'))
    FROM pg_catalog.pg_description d
    JOIN pg_catalog.pg_class c ON d.classoid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objoid OPERATOR(pg_catalog.=) c.oid
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.=) d.objsubid
    WHERE c.relnamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[])
      AND d.description OPERATOR(pg_catalog.~) E'\\moutbox\\.(clock_ceiling|emit_right|foreign_event|identity|lane|lane_start|log|log_spare|origin|outcome|parked|progress|server_run|side_lane|side_topic|tick)\\M'
      AND (outbox_internal.is_ours('pg_catalog.pg_class', c.oid)
           OR EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indexrelid OPERATOR(pg_catalog.=) c.oid
                      AND outbox_internal.is_ours('pg_catalog.pg_class', i.indrelid)))
  LOOP
    EXECUTE what;
  END LOOP;
END
$say$;
COMMENT ON TRIGGER log_guard ON outbox_internal.log IS 'diverts every insert but emit''s own into outbox_internal.foreign_event';
