-- ---------------------------------------------------------------------------------------------------------------------
-- Who may emit. One line instead of a page of grants.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._emit_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = 'outbox'::regnamespace
    AND p.proname IN ('emit', 'emit_text', 'emit_bytes', 'emit_tombstone', 'emit_many', 'emit_row', '_own_events');
END;
COMMENT ON FUNCTION outbox._emit_routines() IS 'what grant_emit() grants EXECUTE on';

CREATE FUNCTION outbox.grant_emit(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  routine regprocedure;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to grant to.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
  FOR routine IN SELECT * FROM outbox._emit_routines() LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', routine, role);
  END LOOP;
  EXECUTE format('GRANT INSERT, SELECT ON outbox.event TO %s', role);
END
$grant$;
COMMENT ON FUNCTION outbox.grant_emit(regrole) IS 'lets a role emit: the emit functions, the trigger function emit_row, and the view outbox.event';

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
  -- Not USAGE on the schema: the role may have been given more than emitting.
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_emit(regrole) IS 'takes back what grant_emit() granted, except USAGE on the schema';
