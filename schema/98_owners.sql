-- ---------------------------------------------------------------------------------------------------------------------
-- In a step from one version to the next that another superuser makes than the extension's owner: what the sections above
-- made is the owner's, too. Before rights are taken and given, as those are noted with the owner who gives them. A wrapper
-- belongs to a superuser. (Nothing to do in a fresh install.)
-- ---------------------------------------------------------------------------------------------------------------------
DO $owner$
DECLARE
  what text;
BEGIN
  FOR what IN
    WITH extension AS (
      SELECT e.oid, e.extowner AS owner, u.oid AS other, o.rolsuper AS superuser
      FROM pg_catalog.pg_extension e, pg_catalog.pg_roles u, pg_catalog.pg_roles o
      WHERE e.extname OPERATOR(pg_catalog.=) 'outbox' AND u.rolname OPERATOR(pg_catalog.=) CURRENT_USER
        AND o.oid OPERATOR(pg_catalog.=) e.extowner AND u.oid OPERATOR(pg_catalog.<>) e.extowner
    ), member AS (
      SELECT d.classid, d.objid, e.owner, e.other, e.superuser,
             EXISTS (SELECT FROM pg_catalog.pg_init_privs i WHERE i.classoid OPERATOR(pg_catalog.=) d.classid
               AND i.objoid OPERATOR(pg_catalog.=) d.objid) AS noted
      FROM extension e JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'
    ), own AS (
      SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END AS kind,
             c.oid::pg_catalog.regclass::text AS name, m.owner, m.noted
      FROM member m JOIN pg_catalog.pg_class c ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND c.oid OPERATOR(pg_catalog.=) m.objid AND c.relowner OPERATOR(pg_catalog.=) m.other
      WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,v,f,S}'::"char"[])
        -- That of a column goes with its table.
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend s WHERE s.classid OPERATOR(pg_catalog.=) m.classid
          AND s.objid OPERATOR(pg_catalog.=) c.oid AND c.relkind OPERATOR(pg_catalog.=) 'S' AND s.deptype OPERATOR(pg_catalog.=) ANY ('{a,i}'::"char"[]))
      UNION ALL
      SELECT 'ROUTINE', p.oid::pg_catalog.regprocedure::text, m.owner, m.noted
      FROM member m JOIN pg_catalog.pg_proc p ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
        AND p.oid OPERATOR(pg_catalog.=) m.objid AND p.proowner OPERATOR(pg_catalog.=) m.other
      UNION ALL
      SELECT 'TYPE', t.oid::pg_catalog.regtype::text, m.owner, m.noted
      FROM member m JOIN pg_catalog.pg_type t ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass
        AND t.oid OPERATOR(pg_catalog.=) m.objid AND t.typowner OPERATOR(pg_catalog.=) m.other
      WHERE t.typtype OPERATOR(pg_catalog.=) ANY ('{b,d}'::"char"[]) AND t.typelem OPERATOR(pg_catalog.=) 0
      UNION ALL
      SELECT 'SCHEMA', pg_catalog.quote_ident(n.nspname), m.owner, m.noted
      FROM member m JOIN pg_catalog.pg_namespace n ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
        AND n.oid OPERATOR(pg_catalog.=) m.objid AND n.nspowner OPERATOR(pg_catalog.=) m.other
      UNION ALL
      SELECT 'SERVER', pg_catalog.quote_ident(s.srvname), m.owner, m.noted
      FROM member m JOIN pg_catalog.pg_foreign_server s ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_foreign_server'::pg_catalog.regclass
        AND s.oid OPERATOR(pg_catalog.=) m.objid AND s.srvowner OPERATOR(pg_catalog.=) m.other
      UNION ALL
      SELECT 'FOREIGN DATA WRAPPER', pg_catalog.quote_ident(w.fdwname), m.owner, m.noted
      FROM member m JOIN pg_catalog.pg_foreign_data_wrapper w ON m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_foreign_data_wrapper'::pg_catalog.regclass
        AND w.oid OPERATOR(pg_catalog.=) m.objid AND w.fdwowner OPERATOR(pg_catalog.=) m.other
      WHERE m.superuser
    )
    SELECT pg_catalog.format('ALTER %s %s OWNER TO %I', o.kind, o.name, pg_catalog.pg_get_userbyid(o.owner)) FROM own o
    UNION ALL  -- What rights they have by now is noted again. Those of all else are below.
    SELECT pg_catalog.format('REVOKE GRANT OPTION FOR ALL ON %s %s FROM PUBLIC', o.kind, o.name) FROM own o
    WHERE o.noted AND o.kind OPERATOR(pg_catalog.=) ANY ('{SCHEMA,TYPE}'::text[])
  LOOP
    EXECUTE what;
  END LOOP;
END
$owner$;
