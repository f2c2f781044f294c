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
CREATE TABLE outbox.emit_right (
  role   regrole PRIMARY KEY,
  topics text[]
);
COMMENT ON TABLE outbox.emit_right IS 'roles that grant_emit() let emit, and to which topics; change through grant_emit and revoke_emit';
COMMENT ON COLUMN outbox.emit_right.role IS 'role';
COMMENT ON COLUMN outbox.emit_right.topics IS 'patterns with * for any run of characters; NULL: all topics';
SELECT pg_catalog.pg_extension_config_dump('outbox.emit_right', '');

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
  INSERT INTO outbox.emit_right AS e (role, topics) VALUES (grant_emit.role, grant_emit.topics)
  ON CONFLICT ON CONSTRAINT emit_right_pkey DO UPDATE SET topics = excluded.topics;
  INSERT INTO outbox.audit (who, action, detail)
  VALUES (session_user, 'grant_emit', jsonb_strip_nulls(jsonb_build_object('to', grant_emit.role, 'topics', grant_emit.topics)));
END
$grant$;
COMMENT ON FUNCTION outbox.grant_emit(regrole, text[]) IS 'lets a role emit: the emit functions, the trigger function emit_row, and the view outbox.event; with topics (patterns) to these only: the topic given, or outbox.event.<aggregate type> where none is. The last call counts';

CREATE FUNCTION outbox.revoke_emit(role regrole) RETURNS void
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
  DELETE FROM outbox.emit_right e WHERE e.role = revoke_emit.role;
  INSERT INTO outbox.audit (who, action, detail) VALUES (session_user, 'revoke_emit', jsonb_build_object('from', revoke_emit.role));
  -- Not USAGE on the schema: the role may have been given more than emitting.
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_emit(regrole) IS 'takes back what grant_emit() granted, except USAGE on the schema';
