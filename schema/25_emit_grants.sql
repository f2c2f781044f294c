-- ---------------------------------------------------------------------------------------------------------------------
-- The right to emit. One line instead of a page of grants.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._emit_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = 'outbox'::regnamespace
    AND p.proname IN ('emit', 'emit_text', 'emit_bytes', 'emit_tombstone', 'emit_many', 'emit_row');
END;
COMMENT ON FUNCTION outbox._emit_routines() IS 'what grant_emit() grants EXECUTE on';

-- Roles that may emit, and to which topics: what grant_emit() said last. Sessions keep what they have read until it changes.
-- By name, because that is what a dump restores where the role is missing: a limit stays, and a role that is made later under
-- the name has it. And by oid, because a role may be renamed; what a dump says of that is another server's.
CREATE TABLE outbox.emit_right (
  role    name PRIMARY KEY,
  role_id oid,
  topics  text[]
);
COMMENT ON TABLE outbox.emit_right IS 'roles that grant_emit() let emit, and to which topics; change through grant_emit and revoke_emit';
COMMENT ON COLUMN outbox.emit_right.role IS 'role; a row counts for a role that has this name or that oid';
COMMENT ON COLUMN outbox.emit_right.role_id IS 'its oid; NULL: there was none of that name when the row came';
COMMENT ON COLUMN outbox.emit_right.topics IS 'patterns with * for any run of characters; NULL: all topics';
SELECT pg_catalog.pg_extension_config_dump('outbox.emit_right', '');

CREATE FUNCTION outbox._find_role() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $find$
BEGIN
  NEW.role_id := (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = NEW.role);
  RETURN NEW;
END
$find$;
COMMENT ON FUNCTION outbox._find_role() IS 'fills outbox.emit_right.role_id, also of a row that a dump brings';
CREATE TRIGGER find_role BEFORE INSERT ON outbox.emit_right FOR EACH ROW EXECUTE FUNCTION outbox._find_role();
ALTER TABLE outbox.emit_right ENABLE ALWAYS TRIGGER find_role;
COMMENT ON TRIGGER find_role ON outbox.emit_right IS 'fills role_id';

CREATE FUNCTION outbox._emit_rights_changed() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_rights_changed';
COMMENT ON FUNCTION outbox._emit_rights_changed() IS 'has every session read outbox.emit_right again';
CREATE TRIGGER emit_rights_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON outbox.emit_right
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._emit_rights_changed();
ALTER TABLE outbox.emit_right ENABLE ALWAYS TRIGGER emit_rights_changed;
COMMENT ON TRIGGER emit_rights_changed ON outbox.emit_right IS 'has every session read it again';

CREATE FUNCTION outbox.grant_emit(role regrole, topics text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  routine regprocedure;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to grant to.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  IF cardinality(topics) = 0 OR array_position(topics, NULL) IS NOT NULL OR '' = ANY (topics) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'topics must be patterns, one at least',
      DETAIL = 'An empty list, an empty pattern and NULL allow nothing.',
      HINT = 'Pass patterns such as ''{shop.*}''; revoke_emit() takes the right away, no topics at all means all.';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
  FOR routine IN SELECT * FROM outbox._emit_routines() LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', routine, role);
  END LOOP;
  EXECUTE format('GRANT INSERT, SELECT ON outbox.event TO %s', role);
  PERFORM outbox._follow_role_names();
  DELETE FROM outbox.emit_right e WHERE e.role_id = grant_emit.role::oid
    OR e.role = pg_get_userbyid(grant_emit.role::oid) AND NOT EXISTS (SELECT FROM pg_roles x WHERE x.oid = e.role_id);
  INSERT INTO outbox.emit_right (role, topics) VALUES (pg_get_userbyid(grant_emit.role::oid), grant_emit.topics);
  INSERT INTO outbox.audit (who, action, detail)
  VALUES (session_user, 'grant_emit', jsonb_strip_nulls(jsonb_build_object('to', grant_emit.role, 'topics', grant_emit.topics)));
END
$grant$;
COMMENT ON FUNCTION outbox.grant_emit(regrole, text[]) IS 'lets a role emit: the emit functions, the trigger function emit_row, and the view outbox.event; with topics (patterns) to these only: the topic given, or outbox.event.<aggregate type> where none is. The last call counts';
