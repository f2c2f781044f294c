-- ---------------------------------------------------------------------------------------------------------------------
-- Parked events and dead letters: looking at them, and acting on them. Every action leaves a row in outbox.audit.
-- Only the owner and operators see payloads and headers.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE VIEW outbox.dead_letter AS
  SELECT r.name AS route, p.id, p.created_at, p.aggregate_type, p.aggregate_id, p.event_type, p.topic, p.attempts,
         p.error_class, p.error_code, p.error_message, p.failed_at, p.parked_at, p.replay,
         pg_catalog.octet_length(p.payload) AS payload_bytes
  FROM outbox_internal.parked p JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) p.route_id
  WHERE p.state OPERATOR(pg_catalog.=) 'dead';
GRANT SELECT ON outbox.dead_letter TO pg_monitor;
COMMENT ON VIEW outbox.dead_letter IS 'events that a destination would not take and that are not tried again until somebody says so';
COMMENT ON COLUMN outbox.dead_letter.route IS 'route';
COMMENT ON COLUMN outbox.dead_letter.id IS 'event id; what retry(), skip(), discard() and status() take';
COMMENT ON COLUMN outbox.dead_letter.created_at IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.aggregate_type IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.aggregate_id IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.event_type IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.topic IS 'where it was to go';
COMMENT ON COLUMN outbox.dead_letter.attempts IS 'how often it was refused';
COMMENT ON COLUMN outbox.dead_letter.error_class IS 'message: refused for good; solo-retry: refused alone, until the attempts were used up';
COMMENT ON COLUMN outbox.dead_letter.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.dead_letter.error_message IS 'for people';
COMMENT ON COLUMN outbox.dead_letter.failed_at IS 'when it failed last';
COMMENT ON COLUMN outbox.dead_letter.parked_at IS 'when it was first parked';
COMMENT ON COLUMN outbox.dead_letter.replay IS '0: the event itself; else the number of the replay';
COMMENT ON COLUMN outbox.dead_letter.payload_bytes IS 'size of its payload; NULL: a tombstone';

CREATE VIEW outbox.dead_letter_summary AS
  SELECT d.route, d.topic, d.error_class, d.error_code, pg_catalog.count(*) AS count,
         pg_catalog.min(coalesce(d.failed_at, d.parked_at)) AS oldest, pg_catalog.max(coalesce(d.failed_at, d.parked_at)) AS newest,
         (pg_catalog.array_agg(d.error_message ORDER BY d.created_at DESC))[1] AS sample_message,
         (pg_catalog.array_agg(d.id ORDER BY d.created_at DESC))[1] AS sample_id
  FROM outbox.dead_letter d
  GROUP BY d.route, d.topic, d.error_class, d.error_code;
GRANT SELECT ON outbox.dead_letter_summary TO pg_monitor;
COMMENT ON VIEW outbox.dead_letter_summary IS 'dead letters by route, topic and reason';
COMMENT ON COLUMN outbox.dead_letter_summary.route IS 'route';
COMMENT ON COLUMN outbox.dead_letter_summary.topic IS 'where they were to go';
COMMENT ON COLUMN outbox.dead_letter_summary.error_class IS 'message or solo-retry';
COMMENT ON COLUMN outbox.dead_letter_summary.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.dead_letter_summary.count IS 'how many';
COMMENT ON COLUMN outbox.dead_letter_summary.oldest IS 'when the first of them failed';
COMMENT ON COLUMN outbox.dead_letter_summary.newest IS 'when the last of them failed';
COMMENT ON COLUMN outbox.dead_letter_summary.sample_message IS 'what the destination said of the newest event';
COMMENT ON COLUMN outbox.dead_letter_summary.sample_id IS 'id of that event';

-- Everything of a parked event but what only its reader should see.
GRANT SELECT (route_id, lane, created_at, id, replay, state, order_key, due_at, sender, aggregate_type, aggregate_id,
  event_type, content_type, own_topic, topic, attempts, error_class, error_code, error_message, failed_at, parked_at)
  ON outbox_internal.parked TO pg_monitor;
GRANT SELECT ON outbox.audit TO pg_monitor;

CREATE FUNCTION outbox.parked_content(
  id    uuid,
  route text DEFAULT NULL
) RETURNS TABLE (route text, created_at timestamptz, replay bigint, state text, payload bytea, payload_text text, content_type text, headers jsonb)
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_parked_content';
COMMENT ON FUNCTION outbox.parked_content(uuid, text) IS
  'payload and headers of a parked event, one row per route; payload_text where the payload is UTF-8';

CREATE FUNCTION outbox.retry(
  id            uuid,
  route         text  DEFAULT NULL,
  reason        text  DEFAULT NULL,
  payload       jsonb DEFAULT NULL,
  headers       jsonb DEFAULT NULL,
  topic         text  DEFAULT NULL,
  payload_bytes bytea DEFAULT NULL
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_retry';
COMMENT ON FUNCTION outbox.retry(uuid, text, text, jsonb, jsonb, text, bytea) IS
  'has a parked event tried at once, on one route or on all where it is parked, with what is given here in place of its own; returns on how many';

CREATE FUNCTION outbox.skip(
  id     uuid,
  reason text,
  route  text DEFAULT NULL
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_skip';
COMMENT ON FUNCTION outbox.skip(uuid, text, text) IS
  'gives a parked event up, whatever its state, and lets its key go on; returns on how many routes. One that waits in the log is not parked: pause its key first, and skip it when status() says blocked';

CREATE FUNCTION outbox.discard(
  id     uuid,
  reason text,
  route  text DEFAULT NULL
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_discard';
COMMENT ON FUNCTION outbox.discard(uuid, text, text) IS
  'gives a dead letter up; returns on how many routes';

-- Procedures: they commit after each batch. A filter that is NULL takes everything; aggregate_type, event_type, topic
-- and error may hold * for any run of characters; aggregate_id is compared as it is, because a key may hold a *.
CREATE PROCEDURE outbox.redrive(
  route          text        DEFAULT NULL,
  topic          text        DEFAULT NULL,
  aggregate_type text        DEFAULT NULL,
  aggregate_id   text        DEFAULT NULL,
  event_type     text        DEFAULT NULL,
  since          timestamptz DEFAULT NULL,
  until          timestamptz DEFAULT NULL,
  error          text        DEFAULT NULL,
  dry_run        boolean     DEFAULT true,
  batch          bigint      DEFAULT 1000,
  per_second     numeric     DEFAULT NULL,
  reason         text        DEFAULT NULL,
  INOUT events   bigint      DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_redrive';
COMMENT ON PROCEDURE outbox.redrive(text, text, text, text, text, timestamptz, timestamptz, text, boolean, bigint, numeric, text, bigint) IS
  'has dead letters tried again, oldest first, in batches that it commits; since and until: when they failed; error: class, code or message; * stands for any run of characters in topic, aggregate_type, event_type and error, and for itself in aggregate_id. A dry run unless told otherwise';

CREATE PROCEDURE outbox.discard_dead_letters(
  route          text        DEFAULT NULL,
  topic          text        DEFAULT NULL,
  aggregate_type text        DEFAULT NULL,
  aggregate_id   text        DEFAULT NULL,
  event_type     text        DEFAULT NULL,
  since          timestamptz DEFAULT NULL,
  until          timestamptz DEFAULT NULL,
  error          text        DEFAULT NULL,
  dry_run        boolean     DEFAULT true,
  batch          bigint      DEFAULT 1000,
  reason         text        DEFAULT NULL,
  INOUT events   bigint      DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_discard_dead_letters';
COMMENT ON PROCEDURE outbox.discard_dead_letters(text, text, text, text, text, timestamptz, timestamptz, text, boolean, bigint, text, bigint) IS
  'gives dead letters up, in batches that it commits; the filters of redrive(); a dry run unless told otherwise';
