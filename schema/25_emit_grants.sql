-- ---------------------------------------------------------------------------------------------------------------------
-- The right to emit. One line instead of a page of grants. (Run again in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.emit_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
    AND p.proname IN ('emit', 'emit_text', 'emit_bytes', 'emit_tombstone', 'emit_many', 'emit_many_json', 'emit_row', 'emit_outboxevent');
END;
COMMENT ON FUNCTION outbox_internal.emit_routines() IS 'what grant_emit() grants EXECUTE on';

-- Roles that may emit, and to which topics: what grant_emit() said last. Sessions keep what they have read until it changes.
-- By oid, because a role may be renamed, here or in another database; and by name, because that is what a dump restores: a limit
-- stays where the role is missing, and a role that is made later under the name has it.
CREATE TABLE IF NOT EXISTS outbox_internal.emit_right (
  role              name PRIMARY KEY,
  role_id           oid,
  topics            text[],
  system_identifier bigint
);
COMMENT ON TABLE outbox_internal.emit_right IS 'roles that grant_emit() let emit, and to which topics; change through grant_emit and revoke_emit';
COMMENT ON COLUMN outbox_internal.emit_right.role IS 'role; its name counts where role_id does not';
COMMENT ON COLUMN outbox_internal.emit_right.role_id IS 'its oid, which counts where system_identifier is this server''s and there is such a role; NULL: there was none of that name when the row came';
COMMENT ON COLUMN outbox_internal.emit_right.topics IS 'patterns with * for any run of characters; NULL: all topics';
COMMENT ON COLUMN outbox_internal.emit_right.system_identifier IS 'of the server that role_id is an oid of: a dump may bring another one''s';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.emit_right', '');

-- As in src/emit/topic_rights.cpp.
CREATE OR REPLACE FUNCTION outbox_internal.role_of(emit_right outbox_internal.emit_right) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT coalesce(
    (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.oid = (emit_right).role_id
     AND (emit_right).system_identifier = (SELECT c.system_identifier FROM pg_catalog.pg_control_system() c)),
    (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = (emit_right).role));
END;
COMMENT ON FUNCTION outbox_internal.role_of(outbox_internal.emit_right) IS 'the role that a row of outbox_internal.emit_right is about; NULL: there is none';

CREATE OR REPLACE FUNCTION outbox_internal.find_role() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $find$
BEGIN
  NEW.role_id := (SELECT r.oid FROM pg_roles r WHERE r.rolname = NEW.role);
  NEW.system_identifier := (SELECT c.system_identifier FROM pg_control_system() c);
  RETURN NEW;
END
$find$;
COMMENT ON FUNCTION outbox_internal.find_role() IS 'fills outbox_internal.emit_right.role_id, also of a row that a dump brings';
CREATE OR REPLACE TRIGGER find_role BEFORE INSERT ON outbox_internal.emit_right FOR EACH ROW EXECUTE FUNCTION outbox_internal.find_role();
ALTER TABLE outbox_internal.emit_right ENABLE ALWAYS TRIGGER find_role;
COMMENT ON TRIGGER find_role ON outbox_internal.emit_right IS 'fills role_id';

CREATE OR REPLACE FUNCTION outbox_internal.emit_rights_changed() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_rights_changed';
COMMENT ON FUNCTION outbox_internal.emit_rights_changed() IS 'has every session read outbox_internal.emit_right again';
-- For each row: a statement that changes none has nobody read anything again.
CREATE OR REPLACE TRIGGER emit_rights_changed AFTER INSERT OR UPDATE OR DELETE ON outbox_internal.emit_right
  FOR EACH ROW EXECUTE FUNCTION outbox_internal.emit_rights_changed();
ALTER TABLE outbox_internal.emit_right ENABLE ALWAYS TRIGGER emit_rights_changed;
COMMENT ON TRIGGER emit_rights_changed ON outbox_internal.emit_right IS 'has every session read it again';
CREATE OR REPLACE TRIGGER emit_rights_emptied AFTER TRUNCATE ON outbox_internal.emit_right
  FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.emit_rights_changed();
ALTER TABLE outbox_internal.emit_right ENABLE ALWAYS TRIGGER emit_rights_emptied;
COMMENT ON TRIGGER emit_rights_emptied ON outbox_internal.emit_right IS 'has every session read it again';

-- GRANT and REVOKE on one object, in two sessions at once, fail; so who changes rights here does it in turn. No worker, and no
-- emit(), needs this lock.
CREATE OR REPLACE FUNCTION outbox_internal.lock_rights() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $lock$
BEGIN
  LOCK TABLE outbox_internal.emit_right IN SHARE UPDATE EXCLUSIVE MODE;
END
$lock$;
COMMENT ON FUNCTION outbox_internal.lock_rights() IS 'one after the other: grant_emit(), grant_operate() and their opposites';

CREATE OR REPLACE FUNCTION outbox.grant_emit(role regrole, topics text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  routine regprocedure;
  impossible text;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to grant to.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = role::oid) THEN
    RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('role %s does not exist', role),
      DETAIL = 'There is no role of that number.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  IF array_ndims(topics) > 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'topics must be a list of one dimension',
      DETAIL = format('It has %s.', array_ndims(topics)), HINT = 'Pass patterns such as ''{shop.*,billing.*}''.';
  END IF;
  IF cardinality(topics) = 0 OR array_position(topics, NULL) IS NOT NULL OR '' = ANY (topics) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'topics must be patterns, one at least',
      DETAIL = 'An empty list, an empty pattern and NULL allow nothing.',
      HINT = 'Pass patterns such as ''{shop.*}''; revoke_emit() takes the right away, no topics at all means all.';
  END IF;
  -- A topic of the event's own is portable; without one it counts as outbox.event.<aggregate type>, which may be any text.
  SELECT p INTO impossible FROM unnest(topics) p
  WHERE NOT starts_with(p, 'outbox.event.') AND NOT (strpos(p, '*') > 0 AND starts_with('outbox.event.', split_part(p, '*', 1)))
    AND (p !~ '^[A-Za-z0-9._*-]+$' OR p IN ('.', '..') OR length(replace(p, '*', '')) > 249) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('no topic can match the pattern "%s"', impossible),
      DETAIL = 'A topic name has 1 to 249 of the characters A-Z a-z 0-9 . _ - and is not "." or "..".',
      HINT = 'A pattern is made of these, and * for any run of characters; one that begins with outbox.event. may have others, as aggregate types may.';
  END IF;
  PERFORM outbox_internal.lock_rights();
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
  FOR routine IN SELECT * FROM outbox_internal.emit_routines() LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', routine, role);
  END LOOP;
  -- UPDATE and DELETE are refused there, with words of our own: "permission denied" would send people to look for a GRANT.
  EXECUTE format('GRANT INSERT, SELECT, UPDATE, DELETE ON outbox.event, outbox.outboxevent TO %s', role);
  PERFORM outbox_internal.follow_role_names();
  DELETE FROM outbox_internal.emit_right e WHERE outbox_internal.role_of(e) = grant_emit.role::oid;
  INSERT INTO outbox_internal.emit_right AS e (role, topics) VALUES (pg_get_userbyid(grant_emit.role::oid), grant_emit.topics)
  ON CONFLICT ON CONSTRAINT emit_right_pkey DO UPDATE
    SET role_id = excluded.role_id, system_identifier = excluded.system_identifier, topics = excluded.topics;
  INSERT INTO outbox.audit (who, action, detail)
  VALUES (session_user, 'grant_emit', jsonb_strip_nulls(jsonb_build_object('to', grant_emit.role, 'topics', grant_emit.topics)));
END
$grant$;
COMMENT ON FUNCTION outbox.grant_emit(regrole, text[]) IS 'lets a role emit: the emit functions, the trigger functions emit_row and emit_outboxevent, and the views outbox.event and outbox.outboxevent; with topics (patterns) to these only: the topic given, or outbox.event.<aggregate type> where none is. The last call counts';

REVOKE ALL ON FUNCTION outbox_internal.emit_routines(), outbox_internal.role_of(outbox_internal.emit_right), outbox_internal.find_role(), outbox_internal.emit_rights_changed(), outbox_internal.lock_rights(),
  outbox.grant_emit(regrole, text[]) FROM PUBLIC;
REVOKE ALL ON outbox_internal.emit_right FROM PUBLIC;
