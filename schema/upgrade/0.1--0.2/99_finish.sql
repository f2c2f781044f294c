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
