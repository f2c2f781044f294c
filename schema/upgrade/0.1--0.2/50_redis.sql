-- What a lane has had acknowledged at most, over all streams: the loss of a Redis is told by it, and outbox.progress keeps
-- the places of 64 streams only.
ALTER TABLE outbox.progress ADD COLUMN acknowledged bigint[];
COMMENT ON COLUMN outbox.progress.places IS 'where the events went that were acknowledged since the row before: first and last offset or stream id, by "topic/partition" or stream; of 64 of them at most';
COMMENT ON COLUMN outbox.progress.acknowledged IS 'both numbers of the highest stream id that was acknowledged since the row before, over all streams, also those that places has no room for; NULL: run is, or nothing was';
UPDATE outbox.progress g SET acknowledged = (
    SELECT pg_catalog.max(pg_catalog.string_to_array(e.value OPERATOR(pg_catalog.->>) 1, '-')::pg_catalog.int8[])
    FROM pg_catalog.jsonb_each(g.places) e
    WHERE pg_catalog.jsonb_typeof(e.value) OPERATOR(pg_catalog.=) 'array'
      AND (e.value OPERATOR(pg_catalog.->>) 1) OPERATOR(pg_catalog.~) '^[0-9]{1,18}-[0-9]{1,18}$')
  WHERE g.run IS NOT NULL AND g.places IS NOT NULL;
