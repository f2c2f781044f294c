-- ---------------------------------------------------------------------------------------------------------------------
-- What is wrong, and what to do about it.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.doctor(OUT "check" text, OUT status text, OUT detail text, OUT hint text) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_doctor';
GRANT EXECUTE ON FUNCTION outbox.doctor() TO pg_monitor;
COMMENT ON FUNCTION outbox.doctor() IS
  'looks at settings, workers, day tables, routes and lanes; status is ok, warning (it works, or goes on by itself), or problem: events are not published, or soon will not be, until somebody acts (what somebody has said, outbox.enabled = off or a pause, is a warning)';
