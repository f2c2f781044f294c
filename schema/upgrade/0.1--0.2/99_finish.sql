-- What outbox.lag was made of.
DROP FUNCTION outbox._lag();

-- ---------------------------------------------------------------------------------------------------------------------
-- Last, after 98_rights.sql has taken away what default privileges gave: rights on what was replaced by something new go on.
-- ---------------------------------------------------------------------------------------------------------------------
DO $carry$
DECLARE
  role text;
BEGIN
  FOR role IN
    SELECT pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(x.grantee))
    FROM pg_catalog.pg_proc p, LATERAL pg_catalog.aclexplode(p.proacl) x
    WHERE p.oid OPERATOR(pg_catalog.=) 'outbox.wait_until_idle(interval)'::pg_catalog.regprocedure
      AND x.grantee OPERATOR(pg_catalog.<>) p.proowner AND x.grantee OPERATOR(pg_catalog.<>) 0
  LOOP
    EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION outbox.wait_until_idle(interval, boolean) TO %s', role);
  END LOOP;
END
$carry$;
DROP FUNCTION outbox.wait_until_idle(interval);

-- What roles were granted since is theirs, and no part of the extension. The server takes for that whatever rights an
-- object has when a statement of this script touches them: a dump would leave those grants out, and from 17 on the roles
-- could not be dropped. No command mends it.
UPDATE pg_catalog.pg_init_privs i
SET initprivs = ARRAY(
  SELECT a FROM pg_catalog.unnest(i.initprivs) a
  WHERE EXISTS (
    SELECT FROM pg_catalog.aclexplode(ARRAY[a]) x
    WHERE x.grantee OPERATOR(pg_catalog.=) ANY (ARRAY[0, x.grantor, 'pg_monitor'::pg_catalog.regrole])))
FROM pg_catalog.pg_depend d, pg_catalog.pg_extension e
WHERE i.classoid OPERATOR(pg_catalog.=) d.classid AND i.objoid OPERATOR(pg_catalog.=) d.objid
  AND d.deptype OPERATOR(pg_catalog.=) 'e' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
  AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox';
DELETE FROM pg_catalog.pg_shdepend s
USING pg_catalog.pg_database b, pg_catalog.pg_depend d, pg_catalog.pg_extension e
WHERE s.deptype OPERATOR(pg_catalog.=) 'i' AND s.dbid OPERATOR(pg_catalog.=) b.oid
  AND b.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
  AND s.classid OPERATOR(pg_catalog.=) d.classid AND s.objid OPERATOR(pg_catalog.=) d.objid
  AND d.deptype OPERATOR(pg_catalog.=) 'e' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
  AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox'
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_init_privs i, pg_catalog.aclexplode(i.initprivs) x
    WHERE i.classoid OPERATOR(pg_catalog.=) s.classid AND i.objoid OPERATOR(pg_catalog.=) s.objid
      AND i.objsubid OPERATOR(pg_catalog.=) s.objsubid AND s.refobjid OPERATOR(pg_catalog.=) ANY (ARRAY[x.grantee, x.grantor]));
