COMMENT ON COLUMN outbox_internal.outcome.place IS 'partition and offset, or stream id; NULL: not delivered, or the destination did not say, or told of several events of one key together';
