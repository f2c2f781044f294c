-- ---------------------------------------------------------------------------------------------------------------------
-- What grant_emit() and grant_operate() gave, taken back: USAGE on the schema as well, with the last right that needs it.
-- ---------------------------------------------------------------------------------------------------------------------

-- A right on an object here that the role has, of itself, as a member of another role or as PUBLIC, or USAGE that it may pass on:
-- that was not ours to give. (The input and output of json_arg are everybody's.)
CREATE OR REPLACE FUNCTION outbox._needs_schema(role oid) RETURNS boolean
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
        AND NOT (x.grantee = 0 AND p.proname IN ('json_arg_in', 'json_arg_out', 'json_arg_recv', 'json_arg_send'))
      UNION ALL
      SELECT x.grantee FROM pg_catalog.pg_namespace n, LATERAL aclexplode(n.nspacl) x
      WHERE n.nspname = 'outbox' AND x.grantee = _needs_schema.role AND x.is_grantable
    ) g
    WHERE CASE g.grantee WHEN 0 THEN true ELSE pg_has_role(_needs_schema.role, g.grantee, 'MEMBER') END);
END;
COMMENT ON FUNCTION outbox._needs_schema(oid) IS 'does the role need USAGE on schema outbox for a right that it has there?';

-- Called where a role is renamed here, by the keeper (a role may be renamed in another database), and before a row is taken
-- for one role's. Meanwhile a row means both: see emit/topic_rights.h.
CREATE OR REPLACE FUNCTION outbox._follow_role_names() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $follow$
BEGIN
  LOOP
    UPDATE outbox.emit_right e SET role = r.rolname FROM pg_roles r WHERE r.oid = e.role_id AND r.rolname <> e.role
      AND NOT EXISTS (SELECT FROM outbox.emit_right o WHERE o.role = r.rolname);
    CONTINUE WHEN FOUND;
    -- Roles have taken each other's names: one row makes room. It is found by its oid meanwhile.
    UPDATE outbox.emit_right e SET role = format('(%s)', e.role_id) WHERE e.role = (
      SELECT min(m.role) FROM outbox.emit_right m
      JOIN pg_roles r ON r.oid = m.role_id AND r.rolname <> m.role
      JOIN outbox.emit_right o ON o.role = r.rolname
      JOIN pg_roles q ON q.oid = o.role_id AND q.rolname <> o.role
      WHERE m.role <> format('(%s)', m.role_id));
    EXIT WHEN NOT FOUND;
  END LOOP;
  UPDATE outbox.emit_right e SET role_id = r.oid FROM pg_roles r WHERE r.rolname = e.role
    AND NOT EXISTS (SELECT FROM pg_roles x WHERE x.oid = e.role_id);
END
$follow$;
COMMENT ON FUNCTION outbox._follow_role_names() IS 'outbox.emit_right: a role that was renamed gets its new name there, one that was made after a restore its oid';

CREATE OR REPLACE FUNCTION outbox.revoke_emit(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
  routine regprocedure;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to revoke from.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  FOR routine IN SELECT * FROM outbox._emit_routines() LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %s', routine, role);
  END LOOP;
  EXECUTE format('REVOKE INSERT, SELECT ON outbox.event FROM %s', role);
  PERFORM outbox._follow_role_names();
  DELETE FROM outbox.emit_right e WHERE e.role_id = revoke_emit.role::oid
    OR e.role = pg_get_userbyid(revoke_emit.role::oid) AND NOT EXISTS (SELECT FROM pg_roles x WHERE x.oid = e.role_id);
  IF NOT outbox._needs_schema(role::oid) THEN
    EXECUTE format('REVOKE USAGE ON SCHEMA outbox FROM %s', role);
  END IF;
  INSERT INTO outbox.audit (who, action, detail) VALUES (session_user, 'revoke_emit', jsonb_build_object('from', revoke_emit.role));
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
  FOR what IN SELECT * FROM outbox._operate_grants() LOOP
    EXECUTE format('REVOKE %s FROM %s', what, role);
  END LOOP;
  IF NOT outbox._needs_schema(role::oid) THEN
    EXECUTE format('REVOKE USAGE ON SCHEMA outbox FROM %s', role);
  END IF;
  INSERT INTO outbox.audit (who, action, detail) VALUES (session_user, 'revoke_operate', jsonb_build_object('from', revoke_operate.role));
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_operate(regrole) IS 'takes back what grant_operate() granted; USAGE on the schema unless the role has another right there';

REVOKE ALL ON FUNCTION outbox._needs_schema(oid), outbox._follow_role_names(), outbox.revoke_emit(regrole), outbox.revoke_operate(regrole) FROM PUBLIC;
