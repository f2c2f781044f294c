-- ---------------------------------------------------------------------------------------------------------------------
-- What would go next. Reads with the relay workers' own reader; moves no position and takes nothing away.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.peek(
  route text,
  "limit" bigint DEFAULT 10
) RETURNS TABLE (
  lane           integer,
  created_at     timestamptz,
  id             uuid,
  aggregate_type text,
  aggregate_id   text,
  event_type     text,
  payload        bytea,
  content_type   text,
  headers        jsonb,
  topic          text,
  deliver_at     timestamptz
)
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_peek';
COMMENT ON FUNCTION outbox.peek(text, bigint) IS
  'the events that each lane of a route would send next, from what it last recorded as done, in its order; up to limit per lane, and per side lane of topics that have left it. With a limit it looks at 100,000 events of the log at most, and says so where that did not do; NULL: at all that waits';
