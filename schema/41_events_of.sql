-- ---------------------------------------------------------------------------------------------------------------------
-- What was emitted about one thing. (Run again in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox.events_of(
  aggregate_type text,
  aggregate_id   text,
  since          timestamptz DEFAULT pg_catalog.now() OPERATOR(pg_catalog.-) '1 day'::pg_catalog.interval,
  "limit"        bigint DEFAULT 100
) RETURNS TABLE (
  created_at    timestamptz,
  id            uuid,
  event_type    text,
  topic         text,
  content_type  text,
  payload_bytes bigint,
  forgotten     boolean
)
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_events_of';
GRANT EXECUTE ON FUNCTION outbox.events_of(text, text, timestamptz, bigint) TO pg_monitor;
COMMENT ON FUNCTION outbox.events_of(text, text, timestamptz, bigint) IS
  'committed events of one key, the newest first, as many as limit (10000 at most), without payloads and headers; topic: the one of its own; forgotten: erased by forget(). The log has no index by key: all events since then are read through, a million in about a second. status(id) says what became of each';
