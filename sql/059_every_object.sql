-- Every object of the extension has a comment, and PUBLIC has no privilege on any.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE TEMP VIEW member AS
  SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
  WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'outbox';
SELECT classid::regclass, count(*) > 0 AS some FROM member GROUP BY 1 ORDER BY 1::text COLLATE "C";

-- Row types and array types follow their tables and types and cannot be commented on usefully.
SELECT pg_describe_object(m.classid, m.objid, 0) AS without_comment FROM member m
LEFT JOIN pg_type t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid
WHERE obj_description(m.objid, m.classid::regclass::name) IS NULL
  AND shobj_description(m.objid, m.classid::regclass::name) IS NULL
  AND (t.oid IS NULL OR (t.typrelid = 0 AND t.typelem = 0))
  AND m.classid <> 'pg_rewrite'::regclass
ORDER BY 1;
SELECT c.relname, a.attname AS column_without_comment FROM member m
JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid AND c.relkind IN ('r', 'p', 'v')
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE col_description(c.oid, a.attnum) IS NULL ORDER BY 1, a.attnum;

-- grantee 0 is PUBLIC; acldefault fills in what a NULL acl means
SELECT pg_describe_object(m.classid, m.objid, 0) AS open_to_public, x.privilege_type FROM member m
LEFT JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
LEFT JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
LEFT JOIN pg_namespace n ON m.classid = 'pg_namespace'::regclass AND n.oid = m.objid
LEFT JOIN pg_foreign_data_wrapper f ON m.classid = 'pg_foreign_data_wrapper'::regclass AND f.oid = m.objid,
LATERAL aclexplode(CASE
  WHEN p.oid IS NOT NULL THEN coalesce(p.proacl, acldefault('f', p.proowner))
  WHEN c.oid IS NOT NULL THEN coalesce(c.relacl, acldefault('r', c.relowner))
  WHEN n.oid IS NOT NULL THEN coalesce(n.nspacl, acldefault('n', n.nspowner))
  WHEN f.oid IS NOT NULL THEN coalesce(f.fdwacl, acldefault('F', f.fdwowner)) END) x
WHERE x.grantee = 0 ORDER BY 1, 2;

SELECT has_schema_privilege('public', 'outbox', 'USAGE') AS usage, has_schema_privilege('public', 'outbox', 'CREATE') AS create;

-- what pg_monitor may do: look
SELECT pg_describe_object(m.classid, m.objid, 0) AS open_to_pg_monitor, x.privilege_type FROM member m
LEFT JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
LEFT JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
LEFT JOIN pg_namespace n ON m.classid = 'pg_namespace'::regclass AND n.oid = m.objid,
LATERAL aclexplode(coalesce(p.proacl, c.relacl, n.nspacl)) x
WHERE x.grantee = 'pg_monitor'::regrole ORDER BY 1, 2;

-- functions that write are never parallel safe, and those with the owner's rights pin their search_path
SELECT p.oid::regprocedure AS parallel_safe FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
WHERE p.provolatile = 'v' AND p.proparallel <> 'u' AND p.prorettype <> 'trigger'::regtype AND p.proname <> 'preloaded' ORDER BY 1;
SELECT p.oid::regprocedure AS definer_without_search_path
FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
WHERE p.prosecdef AND NOT coalesce(p.proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false) ORDER BY 1;
