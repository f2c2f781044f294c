-- ---------------------------------------------------------------------------------------------------------------------
-- Whom what the sections above made belongs to, in a fresh install and in a step from one version to the next.
-- PUBLIC gets nothing, which no section has to say. The input and output of json_arg stay open, because casts run them
-- with the caller's rights; they do nothing but check JSON.
-- ---------------------------------------------------------------------------------------------------------------------
DO $public$
DECLARE
  what text;
BEGIN
  -- Members only: what users keep in schema outbox is theirs.
  FOR what IN
    WITH member AS (
      SELECT d.classid, d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
      WHERE e.extname OPERATOR(pg_catalog.=) 'outbox' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.deptype OPERATOR(pg_catalog.=) 'e')
    SELECT pg_catalog.format('REVOKE ALL ON %s %s FROM PUBLIC', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::pg_catalog.regclass)
    FROM member m JOIN pg_catalog.pg_class c ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid OPERATOR(pg_catalog.=) m.objid
    WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,v,f,S}'::"char"[])
    UNION ALL
    SELECT pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', p.oid::pg_catalog.regprocedure)
    FROM member m JOIN pg_catalog.pg_proc p ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid OPERATOR(pg_catalog.=) m.objid
  LOOP
    EXECUTE what;
  END LOOP;
END
$public$;
GRANT EXECUTE ON FUNCTION outbox_internal.json_arg_in(cstring), outbox_internal.json_arg_out(outbox.json_arg),
  outbox_internal.json_arg_recv(internal), outbox_internal.json_arg_send(outbox.json_arg) TO PUBLIC;

-- Nor does anybody else whom default privileges of the installing role name: only its owner, and pg_monitor what the
-- sections above gave it. (Day tables do the like when they are made.) Of objects that this very transaction made a member of the
-- extension: what was granted on older ones was meant.
DO $others$
DECLARE
  what text;
  again text;
BEGIN
  FOR what, again IN
    WITH monitor AS (
      SELECT r.oid, EXISTS (
        SELECT FROM pg_catalog.pg_default_acl d, LATERAL pg_catalog.aclexplode(d.defaclacl) x
        WHERE x.grantee OPERATOR(pg_catalog.=) r.oid
          AND d.defaclrole OPERATOR(pg_catalog.=) (SELECT u.oid FROM pg_catalog.pg_roles u WHERE u.rolname OPERATOR(pg_catalog.=) CURRENT_USER)) AS by_default
      FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) 'pg_monitor'
    ), made AS MATERIALIZED (
      SELECT d.classid, d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
      WHERE e.extname OPERATOR(pg_catalog.=) 'outbox' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.deptype OPERATOR(pg_catalog.=) 'e' AND pg_catalog.age(d.xmin) OPERATOR(pg_catalog.<=) 0
      UNION ALL  -- its schema, which is no member
      SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.objid
      WHERE e.extname OPERATOR(pg_catalog.=) 'outbox' AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass AND pg_catalog.age(d.xmin) OPERATOR(pg_catalog.<=) 0
    ), rights AS (
      SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::pg_catalog.regclass::text AS name, c.relowner AS owner,
             'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AS class, c.oid AS object,
             x.grantee, x.privilege_type,
             x.privilege_type OPERATOR(pg_catalog.=) 'SELECT' AND c.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT g.relation FROM outbox_internal.granted('monitor') g WHERE g.relation IS NOT NULL)) AS monitors
      FROM pg_catalog.pg_class c, LATERAL pg_catalog.aclexplode(c.relacl) x
      WHERE c.relnamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[])
      UNION ALL
      SELECT 'ROUTINE', p.oid::pg_catalog.regprocedure::text, p.proowner, 'pg_catalog.pg_proc'::pg_catalog.regclass, p.oid, x.grantee, x.privilege_type,
             p.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT g.routine FROM outbox_internal.granted('monitor') g WHERE g.routine IS NOT NULL))
      FROM pg_catalog.pg_proc p, LATERAL pg_catalog.aclexplode(p.proacl) x
      WHERE p.pronamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[])
      UNION ALL
      SELECT 'TYPE', t.oid::pg_catalog.regtype::text, t.typowner, 'pg_catalog.pg_type'::pg_catalog.regclass, t.oid, x.grantee, x.privilege_type, false
      FROM pg_catalog.pg_type t, LATERAL pg_catalog.aclexplode(t.typacl) x
      WHERE t.typnamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[]) AND t.typrelid OPERATOR(pg_catalog.=) 0 AND t.typelem OPERATOR(pg_catalog.=) 0
      UNION ALL
      SELECT 'SCHEMA', n.nspname, n.nspowner, 'pg_catalog.pg_namespace'::pg_catalog.regclass, n.oid, x.grantee, x.privilege_type, x.privilege_type OPERATOR(pg_catalog.=) 'USAGE'
      FROM pg_catalog.pg_namespace n, LATERAL pg_catalog.aclexplode(n.nspacl) x
      WHERE n.nspname OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.name[])
    )
    SELECT pg_catalog.format('REVOKE %s ON %s %s FROM %I CASCADE', r.privilege_type, r.kind, r.name, pg_catalog.pg_get_userbyid(r.grantee)),
           -- What is revoked on a table is on its columns, too.
           (SELECT pg_catalog.format('GRANT %s TO pg_monitor', g.what) FROM outbox_internal.granted('monitor') g
            WHERE r.grantee OPERATOR(pg_catalog.=) m.oid AND r.privilege_type OPERATOR(pg_catalog.=) 'SELECT'
              AND pg_catalog.to_regclass(pg_catalog.substring(g.what, '[)] ON (.*)$')) OPERATOR(pg_catalog.=) r.object)
    FROM rights r JOIN made ON made.classid OPERATOR(pg_catalog.=) r.class AND made.objid OPERATOR(pg_catalog.=) r.object, monitor m
    WHERE r.grantee OPERATOR(pg_catalog.<>) r.owner AND r.grantee OPERATOR(pg_catalog.<>) 0
      AND (r.grantee OPERATOR(pg_catalog.<>) m.oid OR (m.by_default AND NOT r.monitors))
  LOOP
    EXECUTE what;
    IF again IS NOT NULL THEN
      EXECUTE again;
    END IF;
  END LOOP;
END
$others$;
