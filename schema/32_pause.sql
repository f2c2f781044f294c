-- ---------------------------------------------------------------------------------------------------------------------
-- Stopping and letting go: a route, a destination, a topic or a key of a route. What is paused loses nothing: it waits.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.pause(
  route          text DEFAULT NULL,
  server         text DEFAULT NULL,
  topic          text DEFAULT NULL,
  aggregate_type text DEFAULT NULL,
  aggregate_id   text DEFAULT NULL,
  reason         text DEFAULT NULL
) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_pause';
COMMENT ON FUNCTION outbox.pause(text, text, text, text, text, text) IS
  'stops a route, a destination (server), a topic of a route, or a key of a route (aggregate_type and aggregate_id); reason has to be given, and is kept; false: it was paused already';

CREATE FUNCTION outbox.resume(
  route          text DEFAULT NULL,
  server         text DEFAULT NULL,
  topic          text DEFAULT NULL,
  aggregate_type text DEFAULT NULL,
  aggregate_id   text DEFAULT NULL,
  reason         text DEFAULT NULL
) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_resume';
COMMENT ON FUNCTION outbox.resume(text, text, text, text, text, text) IS
  'lets go what pause() stopped under the same arguments; false: it was not paused';

GRANT SELECT ON outbox.pause TO pg_monitor;
