-- What CREATE EXTENSION refuses, makes, and grants to no role.
CREATE SCHEMA outbox;
CREATE FUNCTION outbox.planted() RETURNS int LANGUAGE sql AS 'SELECT 1';
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE EXTENSION outbox;
DROP FUNCTION outbox.planted();
CREATE ROLE regress_other;
ALTER SCHEMA outbox OWNER TO regress_other;
CREATE EXTENSION outbox;
\set SHOW_CONTEXT errors
DROP SCHEMA outbox;
DROP ROLE regress_other;
CREATE SCHEMA elsewhere;
CREATE EXTENSION outbox SCHEMA elsewhere;
DROP SCHEMA elsewhere;
CREATE EXTENSION outbox;

-- A second time, and away with it, and back; together with a first event.
CREATE EXTENSION outbox;
DROP EXTENSION outbox;
BEGIN;
CREATE EXTENSION outbox;
SELECT outbox.emit('order', 1, 'order.created', '{}') IS NOT NULL AS emitted;
COMMIT;
SELECT count(*) FROM outbox_internal.log;
SELECT n.nspname FROM pg_namespace n WHERE n.nspname LIKE 'outbox%';

-- No object without a comment.
SELECT pg_describe_object(d.classid, d.objid, 0) AS without_comment
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE e.extname = 'outbox' AND d.deptype = 'e'
  AND obj_description(d.objid, d.classid::regclass::name) IS NULL
  AND NOT EXISTS (SELECT FROM pg_depend i WHERE i.objid = d.objid AND i.classid = d.classid AND i.deptype = 'i')
ORDER BY 1;
SELECT a.attrelid::regclass AS relation, a.attname AS without_comment
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'outbox'
WHERE c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped
  AND col_description(a.attrelid, a.attnum) IS NULL
ORDER BY 1, 2;

-- Nothing for PUBLIC but the input and output of json_arg.
SELECT p.oid::regprocedure AS open_to_public
FROM pg_proc p WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND has_function_privilege('public', p.oid, 'EXECUTE')
ORDER BY p.oid::regprocedure::text;
SELECT c.oid::regclass AS open_to_public
FROM pg_class c WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v', 'S')
  AND (CASE c.relkind WHEN 'S' THEN has_sequence_privilege('public', c.oid, 'USAGE, SELECT, UPDATE')
       ELSE has_table_privilege('public', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') END)
ORDER BY 1;
SELECT has_schema_privilege('public', 'outbox', 'USAGE') AS usage, has_schema_privilege('public', 'outbox', 'CREATE') AS "create";

-- Functions that run with another's rights have their search_path pinned.
SELECT p.oid::regprocedure AS unpinned FROM pg_proc p
WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND p.prosecdef AND NOT coalesce(p.proconfig::text LIKE '%search_path%', false);

-- Emitting is a write to poolers, balancers and the planner.
SELECT p.provolatile, p.proparallel, p.proisstrict, count(*) FROM pg_proc p
WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname LIKE 'emit%' GROUP BY 1, 2, 3;
