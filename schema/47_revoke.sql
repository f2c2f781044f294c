-- ---------------------------------------------------------------------------------------------------------------------
-- What grant_emit() and grant_operate() gave, taken back: USAGE on the schema as well, with the last right that needs it.
-- ---------------------------------------------------------------------------------------------------------------------

-- A right on an object here that the role has, of itself, as a member of another role or as PUBLIC, or USAGE that it may pass on:
-- that was not ours to give.
CREATE OR REPLACE FUNCTION outbox_internal.needs_schema(role oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT EXISTS (
    SELECT FROM (
      SELECT x.grantee FROM pg_catalog.pg_class c, LATERAL aclexplode(c.relacl) x
      WHERE c.relnamespace = 'outbox'::regnamespace AND x.grantee <> c.relowner
      UNION ALL
      SELECT x.grantee FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid, LATERAL aclexplode(a.attacl) x
      WHERE c.relnamespace = 'outbox'::regnamespace AND x.grantee <> c.relowner
      UNION ALL
      SELECT x.grantee FROM pg_catalog.pg_proc p, LATERAL aclexplode(p.proacl) x
      WHERE p.pronamespace = 'outbox'::regnamespace AND x.grantee <> p.proowner
      UNION ALL
      SELECT x.grantee FROM pg_catalog.pg_namespace n, LATERAL aclexplode(n.nspacl) x
      WHERE n.nspname = 'outbox' AND x.grantee = needs_schema.role AND x.is_grantable
    ) g
    WHERE CASE g.grantee WHEN 0 THEN true ELSE pg_has_role(needs_schema.role, g.grantee, 'MEMBER') END);
END;
COMMENT ON FUNCTION outbox_internal.needs_schema(oid) IS 'does the role need USAGE on schema outbox for a right that it has there?';

-- Called where a role is renamed here, by the keeper (a role may be renamed in another database), and before a row is taken
-- for one role's. Nothing is counted by it: a row is the role's by its oid anyway.
CREATE OR REPLACE FUNCTION outbox_internal.follow_role_names() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $follow$
DECLARE
  here bigint := (SELECT c.system_identifier FROM pg_control_system() c);
BEGIN
  LOOP
    UPDATE outbox_internal.emit_right e SET role = r.rolname FROM pg_roles r WHERE r.oid = outbox_internal.role_of(e) AND r.rolname <> e.role
      AND NOT EXISTS (SELECT FROM outbox_internal.emit_right o WHERE o.role = r.rolname);
    CONTINUE WHEN FOUND;
    -- Roles have taken each other's names: one row makes room. It is found by its oid meanwhile.
    UPDATE outbox_internal.emit_right e SET role = format('(%s)', e.role_id) WHERE e.role = (
      SELECT min(m.role) FROM outbox_internal.emit_right m
      JOIN pg_roles r ON r.oid = outbox_internal.role_of(m) AND r.rolname <> m.role
      JOIN outbox_internal.emit_right o ON o.role = r.rolname
      JOIN pg_roles q ON q.oid = outbox_internal.role_of(o) AND q.rolname <> o.role
      WHERE m.role <> format('(%s)', m.role_id));
    EXIT WHEN NOT FOUND;
  END LOOP;
  UPDATE outbox_internal.emit_right e SET role_id = r.oid, system_identifier = here FROM pg_roles r
  WHERE r.oid = outbox_internal.role_of(e) AND (e.role_id, e.system_identifier) IS DISTINCT FROM (r.oid, here);
END
$follow$;
COMMENT ON FUNCTION outbox_internal.follow_role_names() IS 'outbox_internal.emit_right: a role that was renamed gets its new name there, one that was made after a restore its oid';

-- Whether anything of the role's own would be taken back: rights on these objects, or USAGE that it does not need.
CREATE OR REPLACE FUNCTION outbox_internal.has_of(role oid, routines oid[], relations oid[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT EXISTS (
    SELECT FROM pg_catalog.pg_proc p, LATERAL aclexplode(p.proacl) x
    WHERE p.oid = ANY (routines) AND x.grantee = has_of.role AND x.grantee <> p.proowner
    UNION ALL
    SELECT FROM pg_catalog.pg_class c, LATERAL aclexplode(c.relacl) x
    WHERE c.oid = ANY (relations) AND x.grantee = has_of.role AND x.grantee <> c.relowner
    UNION ALL
    SELECT FROM pg_catalog.pg_namespace n, LATERAL aclexplode(n.nspacl) x
    WHERE n.nspname = 'outbox' AND x.grantee = has_of.role AND x.grantee <> n.nspowner AND x.privilege_type = 'USAGE'
      AND NOT outbox_internal.needs_schema(has_of.role));
END;
COMMENT ON FUNCTION outbox_internal.has_of(oid, oid[], oid[]) IS 'does the role have rights of its own on these objects, or USAGE on the schema for nothing?';

CREATE OR REPLACE FUNCTION outbox.revoke_emit(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
  routine regprocedure;
  had boolean;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to revoke from.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  PERFORM outbox_internal.lock_rights();
  PERFORM outbox_internal.follow_role_names();
  had := outbox_internal.has_of(role::oid, ARRAY(SELECT r::oid FROM outbox_internal.emit_routines() r), ARRAY['outbox.event'::regclass::oid, 'outbox.outboxevent'::regclass::oid])
    OR EXISTS (SELECT FROM outbox_internal.emit_right e WHERE outbox_internal.role_of(e) = revoke_emit.role::oid);
  IF had THEN
    FOR routine IN SELECT * FROM outbox_internal.emit_routines() LOOP
      EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %s', routine, role);
    END LOOP;
    EXECUTE format('REVOKE INSERT, SELECT, UPDATE, DELETE ON outbox.event, outbox.outboxevent FROM %s', role);
    DELETE FROM outbox_internal.emit_right e WHERE outbox_internal.role_of(e) = revoke_emit.role::oid;
    IF NOT outbox_internal.needs_schema(role::oid) THEN
      EXECUTE format('REVOKE USAGE ON SCHEMA outbox FROM %s', role);
    END IF;
    INSERT INTO outbox.audit (who, action, detail) VALUES (session_user, 'revoke_emit', jsonb_build_object('from', revoke_emit.role));
  END IF;
  IF NOT EXISTS (SELECT FROM outbox_internal.emit_routines() r WHERE has_function_privilege(role, r, 'EXECUTE')) THEN
    IF NOT had THEN
      RAISE NOTICE 'role % had no right to emit', role;
    END IF;
  ELSE
    RAISE NOTICE USING MESSAGE = format(CASE WHEN had THEN 'role %s may still emit' ELSE 'role %s had no right to emit of its own, and may emit' END, role),
      DETAIL = 'It may as a superuser or owner, as a member of a role that may, or as PUBLIC.';
  END IF;
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_emit(regrole) IS 'takes back what grant_emit() granted; USAGE on the schema unless the role has another right there';

CREATE OR REPLACE FUNCTION outbox.revoke_operate(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
  what text;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to revoke from.', HINT = 'Pass a role name, such as ''oncall''.';
  END IF;
  PERFORM outbox_internal.lock_rights();
  IF NOT outbox_internal.has_of(role::oid,
      ARRAY(SELECT p.oid FROM pg_proc p, outbox_internal.operate_grants() g WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND g = format('EXECUTE ON ROUTINE %s', p.oid::regprocedure)),
      ARRAY(SELECT c.oid FROM pg_class c, outbox_internal.operate_grants() g WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND g = format('SELECT ON %s', c.oid::regclass))) THEN
    RAISE NOTICE 'role % had no right to operate of its own', role;
    RETURN;
  END IF;
  FOR what IN SELECT * FROM outbox_internal.operate_grants() LOOP
    EXECUTE format('REVOKE %s FROM %s', what, role);
  END LOOP;
  IF NOT outbox_internal.needs_schema(role::oid) THEN
    EXECUTE format('REVOKE USAGE ON SCHEMA outbox FROM %s', role);
  END IF;
  INSERT INTO outbox.audit (who, action, detail) VALUES (session_user, 'revoke_operate', jsonb_build_object('from', revoke_operate.role));
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_operate(regrole) IS 'takes back what grant_operate() granted; USAGE on the schema unless the role has another right there';

REVOKE ALL ON FUNCTION outbox_internal.needs_schema(oid), outbox_internal.follow_role_names(), outbox_internal.has_of(oid, oid[], oid[]),
  outbox.revoke_emit(regrole), outbox.revoke_operate(regrole) FROM PUBLIC;
