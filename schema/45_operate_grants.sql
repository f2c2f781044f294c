-- ---------------------------------------------------------------------------------------------------------------------
-- The right to act on parked events, pause, replay and move routes. One line instead of a page of grants. An operator
-- also sees what pg_monitor sees here, and the content of parked events; the functions work with the owner's rights on
-- the tables, and outbox.audit has the role that called.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.operate_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
    AND p.proname IN ('pause', 'resume', 'retry', 'skip', 'discard', 'redrive', 'discard_dead_letters', 'parked_content',
                      'replay', 'cancel_replay', 'seek', 'drop_expired', 'test_server',
                      'forget_received', 'reprocess', 'forget_consumer', 'seek_stream');
END;
COMMENT ON FUNCTION outbox_internal.operate_routines() IS 'functions that an operator calls to act';

CREATE OR REPLACE FUNCTION outbox_internal.operate_grants() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT format('EXECUTE ON ROUTINE %s', r) FROM outbox_internal.operate_routines() r
  UNION ALL
  SELECT format('EXECUTE ON ROUTINE %s', p.oid::regprocedure)
  FROM pg_catalog.pg_proc p, LATERAL aclexplode(p.proacl) x
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = 'pg_monitor')
  UNION ALL
  SELECT format('SELECT ON %s', c.oid::regclass) FROM pg_catalog.pg_class c, LATERAL aclexplode(c.relacl) x
  WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = 'pg_monitor')
  UNION ALL
  SELECT format('SELECT (%s) ON %s', string_agg(a.attname, ', ' ORDER BY a.attnum), a.attrelid::regclass)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid, LATERAL aclexplode(a.attacl) x
  WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = 'pg_monitor')
  GROUP BY a.attrelid;
END;
COMMENT ON FUNCTION outbox_internal.operate_grants() IS 'what grant_operate() grants';

CREATE OR REPLACE FUNCTION outbox.grant_operate(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $grant$
BEGIN
  PERFORM outbox_internal.check_role(role, 'operate', true);
  PERFORM outbox_internal.grant_to(role, 'operate');
END
$grant$;
COMMENT ON FUNCTION outbox.grant_operate(regrole) IS 'lets a role look, read and act on parked events, pause and resume, replay and seek';

CREATE OR REPLACE FUNCTION outbox.revoke_operate(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $revoke$
BEGIN
  PERFORM outbox_internal.check_role(role, 'operate', false);
  IF NOT outbox_internal.revoke_from(role, 'operate') THEN
    RAISE NOTICE 'role % had no right to operate of its own', role;
  END IF;
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_operate(regrole) IS 'takes back what grant_operate() granted; USAGE on the schema unless the role has another right there';
