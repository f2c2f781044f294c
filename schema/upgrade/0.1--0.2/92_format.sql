-- A route has a format. create_route and alter_route have gained an argument: rights on them go on in 99_finish.sql.
ALTER TABLE outbox.route ADD COLUMN format text NOT NULL DEFAULT 'outbox';
COMMENT ON COLUMN outbox.route.format IS 'how events become records: outbox, or one that consumers read already';
COMMENT ON COLUMN outbox.route.options IS 'topics_known; options of the destination kind, for Redis: mode (stream, list, publish); options of the format';

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
REVOKE ALL ON FUNCTION outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval, text) FROM PUBLIC;
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
REVOKE ALL ON FUNCTION outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval, text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval, text) IS
  'changes a route, for events not sent yet; what is NULL stays as it is';
