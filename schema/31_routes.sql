-- ---------------------------------------------------------------------------------------------------------------------
-- Routes. The functions check everything that can be wrong and tell the workers at commit; the table is not for hands.
-- EXECUTE may be granted: the functions then work with the owner's rights on the tables, and ask for the caller's USAGE
-- on the server.
-- ---------------------------------------------------------------------------------------------------------------------

COMMENT ON SEQUENCE outbox.route_id_seq IS 'ids of routes';

CREATE FUNCTION outbox.create_route(
  name            text,
  server          text,
  aggregate_types text[]  DEFAULT '{*}',
  event_types     text[]  DEFAULT '{*}',
  topic           text    DEFAULT NULL,
  key             text    DEFAULT NULL,
  lanes           integer DEFAULT 1,
  start           text    DEFAULT 'now',
  options         jsonb   DEFAULT '{}',
  on_failure      text    DEFAULT 'skip',
  max_attempts    integer DEFAULT 10,
  backoff_base    interval DEFAULT '1 second',
  backoff_cap     interval DEFAULT '10 minutes',
  format          text    DEFAULT 'outbox'
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_create_route';
COMMENT ON FUNCTION outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval, text) IS
  'sends matching events to a foreign server, starting at now, earliest or a timestamp; returns the id of the route';

CREATE FUNCTION outbox.alter_route(
  name            text,
  server          text    DEFAULT NULL,
  aggregate_types text[]  DEFAULT NULL,
  event_types     text[]  DEFAULT NULL,
  topic           text    DEFAULT NULL,
  key             text    DEFAULT NULL,
  lanes           integer DEFAULT NULL,
  options         jsonb   DEFAULT NULL,
  on_failure      text    DEFAULT NULL,
  max_attempts    integer DEFAULT NULL,
  backoff_base    interval DEFAULT NULL,
  backoff_cap     interval DEFAULT NULL,
  format          text    DEFAULT NULL
) RETURNS void
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_alter_route';
COMMENT ON FUNCTION outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval, text) IS
  'changes a route, for events not sent yet; what is NULL stays as it is';

CREATE FUNCTION outbox.drop_route(name text) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_drop_route';
COMMENT ON FUNCTION outbox.drop_route(text) IS 'ends a route; returns the number of its events that were never delivered, in the log and parked; NULL: not known, as it was edited by hand and cannot be read';
