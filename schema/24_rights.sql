-- ---------------------------------------------------------------------------------------------------------------------
-- Rights that outbox grants: one line instead of a page of GRANTs, which is taken back as a whole. What an action (emit, receive,
-- operate) grants is outbox_internal.<action>_grants(). Rights by pattern also say in which names a role may act, in a table that
-- src/pg/rights.h reads. What is called to grant has jit off, as what the library runs (src/pg/statement_settings.cpp). (Run again in
-- a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------

-- Rights by pattern: the action, what its names are called, and patterns as an example. The table outbox_internal.<action>_right
-- has what grant_<action>() said last: by oid, because a role may be renamed, here or in another database; and by name, because that
-- is what a dump restores: a limit stays where the role is missing, and a role that is made later under the name has it.
CREATE OR REPLACE FUNCTION outbox_internal.pattern_rights(OUT action text, OUT names text, OUT one text, OUT several text) RETURNS SETOF record
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  VALUES ('emit', 'topics', '{shop.*}', '{shop.*,billing.*}'),
         ('receive', 'consumers', '{billing}', '{billing,search-*}');
END;
COMMENT ON FUNCTION outbox_internal.pattern_rights() IS 'actions that a role may be granted in some names only; each has a table outbox_internal.<action>_right';

-- As in src/pg/rights.cpp. The role of each row is looked up once, by an index, in whatever statement this is joined: so it is no
-- function of a row, which a plan may call for each pair of a right and a role of the cluster.
CREATE OR REPLACE FUNCTION outbox_internal.right_rows(action text, OUT role name, OUT patterns text[], OUT role_id oid, OUT found oid, OUT found_name name, OUT outdated boolean)
RETURNS SETOF record LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $rows$
DECLARE
  here bigint := (SELECT c.system_identifier FROM pg_control_system() c);
BEGIN
  RETURN QUERY EXECUTE format($sql$
    SELECT e.role, e.%2$I, e.role_id, f.found, f.found_name, (e.role, e.role_id, e.system_identifier) IS DISTINCT FROM (f.found_name, f.found, $1) AND f.found IS NOT NULL
    FROM outbox_internal.%1$I e
    LEFT JOIN pg_roles i ON i.oid = e.role_id AND e.system_identifier = $1
    LEFT JOIN pg_roles n ON n.rolname = e.role
    CROSS JOIN LATERAL (SELECT coalesce(i.oid, n.oid) AS found, coalesce(i.rolname, n.rolname) AS found_name) f$sql$,
    right_rows.action || '_right', (SELECT p.names FROM outbox_internal.pattern_rights() p WHERE p.action = right_rows.action)) USING here;
END
$rows$;
COMMENT ON FUNCTION outbox_internal.right_rows(text) IS 'rows of a right by pattern, and the role that each is about (NULL: there is none); outdated: the row does not have its name or oid of now';

CREATE OR REPLACE FUNCTION outbox_internal.find_role() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $find$
BEGIN
  NEW.role_id := (SELECT r.oid FROM pg_roles r WHERE r.rolname = NEW.role);
  NEW.system_identifier := (SELECT c.system_identifier FROM pg_control_system() c);
  RETURN NEW;
END
$find$;
COMMENT ON FUNCTION outbox_internal.find_role() IS 'fills role_id of a right by pattern, also of a row that a dump brings';

-- Called before and after a role is renamed here, by the keeper (a role may be renamed in another database), and before a row is taken
-- for one role's. Nothing is counted by it: a row is the role's by its oid anyway.
CREATE OR REPLACE FUNCTION outbox_internal.follow_role_names() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $follow$
DECLARE
  here bigint;
  said text;
  rights text;
  moved bigint;
BEGIN
  FOR said IN SELECT p.action FROM outbox_internal.pattern_rights() p LOOP
    rights := said || '_right';
    EXECUTE format('LOCK TABLE outbox_internal.%I IN ROW EXCLUSIVE MODE', rights);  -- see src/admin/common/write_lock.h
    EXECUTE format('SELECT count(*) FROM (SELECT FROM outbox_internal.%I LIMIT 1) e', rights) INTO moved;
    CONTINUE WHEN moved = 0 OR NOT EXISTS (SELECT FROM outbox_internal.right_rows(said) f WHERE f.outdated);
    LOOP
      EXECUTE format($sql$
        UPDATE outbox_internal.%1$I e SET role = f.found_name FROM outbox_internal.right_rows($1) f
        WHERE e.role = f.role AND f.found_name <> f.role AND NOT EXISTS (SELECT FROM outbox_internal.%1$I o WHERE o.role = f.found_name)$sql$, rights) USING said;
      GET DIAGNOSTICS moved = ROW_COUNT;
      CONTINUE WHEN moved > 0;
      -- Roles have taken each other's names: one row makes room. It is found by its oid meanwhile.
      EXECUTE format($sql$
        WITH f AS MATERIALIZED (SELECT * FROM outbox_internal.right_rows($1) WHERE found_name <> role)
        UPDATE outbox_internal.%1$I e SET role = '(' || e.role_id::text || ')' WHERE e.role = (
          SELECT min(m.role) FROM f m JOIN f o ON o.role = m.found_name WHERE m.role <> '(' || m.role_id::text || ')')$sql$, rights) USING said;
      GET DIAGNOSTICS moved = ROW_COUNT;
      EXIT WHEN moved = 0;
    END LOOP;
    here := (SELECT c.system_identifier FROM pg_control_system() c);
    EXECUTE format($sql$
      UPDATE outbox_internal.%I e SET role_id = f.found, system_identifier = $2 FROM outbox_internal.right_rows($1) f
      WHERE e.role = f.role AND f.outdated AND (e.role_id, e.system_identifier) IS DISTINCT FROM (f.found, $2)$sql$, rights) USING said, here;
  END LOOP;
END
$follow$;
COMMENT ON FUNCTION outbox_internal.follow_role_names() IS 'rights by pattern: a role that was renamed gets its new name there, one that was made after a restore its oid';

-- GRANT and REVOKE on one object, in two sessions at once, fail; so who changes rights here does it in turn. No worker, and no
-- emit(), needs this lock.
CREATE OR REPLACE FUNCTION outbox_internal.lock_rights() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $lock$
BEGIN
  LOCK TABLE outbox_internal.emit_right IN SHARE UPDATE EXCLUSIVE MODE;
  LOCK TABLE outbox.audit IN ROW EXCLUSIVE MODE;  -- it is written to last; a right on it is among what is granted
END
$lock$;
COMMENT ON FUNCTION outbox_internal.lock_rights() IS 'one after the other: grant_emit(), grant_receive(), grant_operate() and their opposites';

-- Rights on relations: on the whole, and on columns of it, which are somewhere else.
CREATE OR REPLACE VIEW outbox_internal.relation_rights AS
  SELECT c.oid AS relation, NULL::pg_catalog.name AS "column", x.grantee, x.privilege_type
  FROM pg_catalog.pg_class c, LATERAL pg_catalog.aclexplode(c.relacl) x
  UNION ALL
  SELECT a.attrelid, a.attname, x.grantee, x.privilege_type
  FROM pg_catalog.pg_attribute a, LATERAL pg_catalog.aclexplode(a.attacl) x
  WHERE a.attacl IS NOT NULL AND NOT a.attisdropped;
COMMENT ON VIEW outbox_internal.relation_rights IS 'who was granted what on a relation (column: NULL) or on a column of it; REVOKE on the relation takes both';
COMMENT ON COLUMN outbox_internal.relation_rights.relation IS 'table, view or sequence';
COMMENT ON COLUMN outbox_internal.relation_rights."column" IS 'column; NULL: the right is on the whole';
COMMENT ON COLUMN outbox_internal.relation_rights.grantee IS 'role; 0: PUBLIC';
COMMENT ON COLUMN outbox_internal.relation_rights.privilege_type IS 'SELECT, INSERT and so on';

-- A right on an object here that the role has, of itself, as a member of another role or as PUBLIC, or USAGE that it may pass on:
-- that was not ours to give.
CREATE OR REPLACE FUNCTION outbox_internal.needs_schema(role oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT EXISTS (
    SELECT FROM (
      SELECT x.grantee FROM pg_catalog.pg_class c JOIN outbox_internal.relation_rights x ON x.relation = c.oid
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

-- What an action grants, as GRANT and REVOKE name it, and which object that is on. (Of columns: none, for it is not on the table.)
CREATE OR REPLACE FUNCTION outbox_internal.granted(action text, OUT what text, OUT routine oid, OUT relation oid) RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $granted$
BEGIN
  RETURN QUERY EXECUTE format($sql$
    SELECT g, to_regprocedure(substring(g FROM '^EXECUTE ON ROUTINE (.*)$'))::oid, to_regclass(substring(g FROM '^[A-Z, ]+ ON (?!ROUTINE )(.*)$'))::oid
    FROM outbox_internal.%I() g$sql$, action || '_grants');
END
$granted$;
COMMENT ON FUNCTION outbox_internal.granted(text) IS 'what grant_emit(), grant_receive() or grant_operate() grants, and on which object; monitor: what pg_monitor has from the start';

-- pg_monitor looks without anybody's grant, so no revoke_...() ends that; and an owner acts without one: REVOKE would take that
-- from it, and what runs with its rights would fail.
CREATE OR REPLACE FUNCTION outbox_internal.revocable(role oid, action text, OUT what text, OUT routine oid, OUT relation oid) RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT g.what, g.routine, g.relation FROM outbox_internal.granted(revocable.action) g
  WHERE NOT (pg_get_userbyid(revocable.role) = 'pg_monitor' AND g.what IN (SELECT m.what FROM outbox_internal.granted('monitor') m))
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = g.routine AND p.proowner = revocable.role)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = g.relation AND c.relowner = revocable.role);
END;
COMMENT ON FUNCTION outbox_internal.revocable(oid, text) IS 'what of granted() is taken back from the role: all but what it has from the start, or as the owner';

-- By whatever way: its own, as a member of another role, as PUBLIC. (Of several rights on one table: one of them is enough.)
CREATE OR REPLACE FUNCTION outbox_internal.lacking(role oid, action text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT 'USAGE ON SCHEMA outbox' WHERE NOT has_schema_privilege(lacking.role, 'outbox', 'USAGE')
  UNION ALL
  SELECT g.what FROM outbox_internal.granted(lacking.action) g
  WHERE CASE WHEN g.routine IS NOT NULL THEN NOT has_function_privilege(lacking.role, g.routine, 'EXECUTE')
             WHEN g.relation IS NOT NULL THEN NOT has_table_privilege(lacking.role, g.relation, substring(g.what FROM '^(.*) ON '))
             ELSE EXISTS (
               SELECT FROM string_to_table(substring(g.what FROM '^SELECT [(](.*)[)] ON '), ', ') c
               WHERE NOT has_column_privilege(lacking.role, substring(g.what FROM '[)] ON (.*)$'), c, 'SELECT')) END;
END;
COMMENT ON FUNCTION outbox_internal.lacking(oid, text) IS 'what of granted() the role has not';

-- Whether anything of the role's own would be taken back: rights on these objects, or USAGE that it does not need.
CREATE OR REPLACE FUNCTION outbox_internal.has_of(role oid, action text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT EXISTS (
    SELECT FROM pg_catalog.pg_proc p JOIN outbox_internal.revocable(has_of.role, has_of.action) g ON g.routine = p.oid, LATERAL aclexplode(p.proacl) x
    WHERE x.grantee = has_of.role
    UNION ALL
    SELECT FROM outbox_internal.relation_rights x JOIN outbox_internal.revocable(has_of.role, has_of.action) g ON g.relation = x.relation
    WHERE x.grantee = has_of.role
    UNION ALL
    SELECT FROM pg_catalog.pg_namespace n, LATERAL aclexplode(n.nspacl) x
    WHERE n.nspname = 'outbox' AND x.grantee = has_of.role AND x.grantee <> n.nspowner AND x.privilege_type = 'USAGE'
      AND NOT outbox_internal.needs_schema(has_of.role));
END;
COMMENT ON FUNCTION outbox_internal.has_of(oid, text) IS 'does the role have rights of its own that the action grants, or USAGE on the schema for nothing?';

CREATE OR REPLACE FUNCTION outbox_internal.check_role(role regrole, action text, granting boolean) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $check$
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = format('Without a role there is nobody to %s.', CASE WHEN granting THEN 'grant to' ELSE 'revoke from' END),
      HINT = format('Pass a role name, such as ''%s''.', CASE action WHEN 'operate' THEN 'oncall' ELSE 'app' END);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = role::oid) THEN
    RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('role %s does not exist', role::oid),  -- as a regrole, 0 is a hyphen
      DETAIL = 'There is no role of that number.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
END
$check$;
COMMENT ON FUNCTION outbox_internal.check_role(regrole, text, boolean) IS 'refuses what nothing can be granted to or taken from';

-- As WriteAudit() of src/admin/common/operation.h: "role" is the role whose rights were used, where it is not the session's.
CREATE OR REPLACE FUNCTION outbox_internal.write_audit(action text, detail jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $audit$
BEGIN
  INSERT INTO outbox.audit (who, action, detail)
  VALUES (session_user, write_audit.action, write_audit.detail || CASE WHEN current_user = session_user THEN '{}' ELSE jsonb_build_object('role', current_user) END);
END
$audit$;
COMMENT ON FUNCTION outbox_internal.write_audit(text, jsonb) IS 'writes who did what, and with whose rights, into outbox.audit';

CREATE OR REPLACE FUNCTION outbox_internal.grant_to(role regrole, action text, detail jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  what text;
BEGIN
  PERFORM outbox_internal.lock_rights();
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
  FOR what IN SELECT g.what FROM outbox_internal.granted(action) g LOOP
    EXECUTE format('GRANT %s TO %s', what, role);
  END LOOP;
  PERFORM outbox_internal.write_audit('grant_' || grant_to.action, jsonb_strip_nulls(jsonb_build_object('to', pg_get_userbyid(grant_to.role::oid)) || grant_to.detail));
END
$grant$;
COMMENT ON FUNCTION outbox_internal.grant_to(regrole, text, jsonb) IS 'grants what the action grants, and writes it into outbox.audit';

CREATE OR REPLACE FUNCTION outbox_internal.revoke_from(role regrole, action text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
  what text;
  said bigint := 0;
BEGIN
  PERFORM outbox_internal.lock_rights();
  IF EXISTS (SELECT FROM outbox_internal.pattern_rights() p WHERE p.action = revoke_from.action) THEN
    PERFORM outbox_internal.follow_role_names();
    EXECUTE format('DELETE FROM outbox_internal.%I e USING outbox_internal.right_rows($1) f WHERE f.role = e.role AND f.found = $2', action || '_right') USING action, role::oid;
    GET DIAGNOSTICS said = ROW_COUNT;
  END IF;
  IF said = 0 AND NOT outbox_internal.has_of(role::oid, action) THEN
    RETURN false;
  END IF;
  FOR what IN SELECT g.what FROM outbox_internal.revocable(role::oid, action) g LOOP
    EXECUTE format('REVOKE %s FROM %s', what, role);
  END LOOP;
  IF NOT outbox_internal.needs_schema(role::oid) AND NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'outbox' AND n.nspowner = role::oid) THEN
    EXECUTE format('REVOKE USAGE ON SCHEMA outbox FROM %s', role);
  END IF;
  PERFORM outbox_internal.write_audit('revoke_' || revoke_from.action, jsonb_build_object('from', pg_get_userbyid(revoke_from.role::oid)));
  RETURN true;
END
$revoke$;
COMMENT ON FUNCTION outbox_internal.revoke_from(regrole, text) IS 'takes back what the action grants, USAGE on the schema as well with the last right that needs it, and writes it into outbox.audit; false: the role had nothing';

CREATE OR REPLACE FUNCTION outbox_internal.check_patterns(action text, patterns text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $check$
DECLARE
  names text;
  one text;
  several text;
BEGIN
  SELECT p.names, p.one, p.several INTO STRICT names, one, several FROM outbox_internal.pattern_rights() p WHERE p.action = check_patterns.action;
  IF array_ndims(patterns) > 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('%s must be a list of one dimension', names),
      DETAIL = format('It has %s.', array_ndims(patterns)), HINT = format('Pass patterns such as ''%s''.', several);
  END IF;
  IF cardinality(patterns) = 0 OR array_position(patterns, NULL) IS NOT NULL OR '' = ANY (patterns) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('%s must be a list of one pattern or more, none empty', names),
      DETAIL = 'Nothing matches an empty list, an empty pattern or NULL in a list.',
      HINT = format('Pass patterns such as ''%s'', leave %s out to allow all of them, or take the right away by revoke_%s().', one, names, action);
  END IF;
END
$check$;
COMMENT ON FUNCTION outbox_internal.check_patterns(text, text[]) IS 'refuses what is no list of patterns';

CREATE OR REPLACE FUNCTION outbox_internal.grant_by_pattern(role regrole, action text, patterns text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  rights text := action || '_right';
  names text := (SELECT p.names FROM outbox_internal.pattern_rights() p WHERE p.action = grant_by_pattern.action);
BEGIN
  PERFORM outbox_internal.grant_to(role, action, jsonb_build_object(names, patterns));
  PERFORM outbox_internal.follow_role_names();
  EXECUTE format('DELETE FROM outbox_internal.%I e USING outbox_internal.right_rows($1) f WHERE f.role = e.role AND f.found = $2', rights) USING action, role::oid;
  EXECUTE format('INSERT INTO outbox_internal.%1$I AS e (role, %2$I) VALUES ($1, $2) ON CONFLICT ON CONSTRAINT %3$I DO UPDATE '
    'SET role_id = excluded.role_id, system_identifier = excluded.system_identifier, %2$I = excluded.%2$I', rights, names, rights || '_pkey')
  USING pg_get_userbyid(role::oid), patterns;
END
$grant$;
COMMENT ON FUNCTION outbox_internal.grant_by_pattern(regrole, text, text[]) IS 'grants what the action grants, in these names; NULL: in all. The last call counts';

CREATE OR REPLACE FUNCTION outbox_internal.revoke_by_pattern(role regrole, action text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
  had boolean;
BEGIN
  PERFORM outbox_internal.check_role(role, action, false);
  had := outbox_internal.revoke_from(role, action);
  IF EXISTS (SELECT FROM outbox_internal.granted(action) g WHERE has_function_privilege(role, g.routine, 'EXECUTE')) THEN
    RAISE NOTICE USING MESSAGE = format(CASE WHEN had THEN 'role %1$s may still %2$s' ELSE 'role %1$s had no right to %2$s of its own, and may %2$s' END, role, action),
      DETAIL = 'It may as a superuser or owner, as a member of a role that may, or as PUBLIC.';
  ELSIF NOT had THEN
    RAISE NOTICE 'role % had no right to %', role, action;
  END IF;
END
$revoke$;
COMMENT ON FUNCTION outbox_internal.revoke_by_pattern(regrole, text) IS 'takes back what grant_emit() or grant_receive() granted, and says whether the role may all the same';
