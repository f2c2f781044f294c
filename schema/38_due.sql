-- ---------------------------------------------------------------------------------------------------------------------
-- What is tried next, in the order (due_at, created_at): with a key by its lane's owner, without one by any worker that
-- owns a lane of the route. Each is in the words of the index by which it goes. A claim, which locks what it takes, asks
-- outbox_internal.parked in the same words (src/parked/due.cpp): a view would lock, and sort, all that is due.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW outbox_internal.due_keyed AS
  SELECT p.route_id, p.lane, p.due_at, p.created_at, p.state, p.sender, p.topic, p.failed_at, p.error_class, p.error_code,
         p.error_message, p.order_key,
         CASE WHEN p.state OPERATOR(pg_catalog.=) 'retrying' AND p.failed_at IS NULL
              THEN coalesce(p.due_since, greatest(p.created_at, p.deliver_at)) END AS turn_since
  FROM outbox_internal.parked p
  WHERE p.due_at IS NOT NULL AND p.order_key IS NOT NULL;
COMMENT ON VIEW outbox_internal.due_keyed IS 'parked events with a key that have a time at which they are sent';
COMMENT ON COLUMN outbox_internal.due_keyed.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.due_keyed.lane IS 'lane whose owner sends it';
COMMENT ON COLUMN outbox_internal.due_keyed.due_at IS 'when it is to be sent: next try of a retrying, time of a scheduled event';
COMMENT ON COLUMN outbox_internal.due_keyed.created_at IS 'of the event';
COMMENT ON COLUMN outbox_internal.due_keyed.state IS 'retrying or scheduled';
COMMENT ON COLUMN outbox_internal.due_keyed.sender IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.due_keyed.topic IS 'resolved topic';
COMMENT ON COLUMN outbox_internal.due_keyed.failed_at IS 'when it failed last';
COMMENT ON COLUMN outbox_internal.due_keyed.error_class IS 'of its last failure';
COMMENT ON COLUMN outbox_internal.due_keyed.error_code IS 'the destinations own code';
COMMENT ON COLUMN outbox_internal.due_keyed.error_message IS 'for people';
COMMENT ON COLUMN outbox_internal.due_keyed.order_key IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.due_keyed.turn_since IS 'of one that was never refused, and whose turn in its key has come: since when it would have gone, had nothing held it up; NULL: of all others';

CREATE OR REPLACE VIEW outbox_internal.due_shared AS
  SELECT p.route_id, p.lane, p.due_at, p.created_at, p.state, p.sender, p.topic, p.failed_at, p.error_class, p.error_code,
         p.error_message
  FROM outbox_internal.parked p
  WHERE p.due_at IS NOT NULL AND p.order_key IS NULL;
COMMENT ON VIEW outbox_internal.due_shared IS 'parked events without a key that have a time at which they are sent';
COMMENT ON COLUMN outbox_internal.due_shared.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.due_shared.lane IS 'lane that parked it or sent it last';
COMMENT ON COLUMN outbox_internal.due_shared.due_at IS 'when it is to be sent: next try of a retrying, time of a scheduled event';
COMMENT ON COLUMN outbox_internal.due_shared.created_at IS 'of the event';
COMMENT ON COLUMN outbox_internal.due_shared.state IS 'retrying or scheduled';
COMMENT ON COLUMN outbox_internal.due_shared.sender IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.due_shared.topic IS 'resolved topic';
COMMENT ON COLUMN outbox_internal.due_shared.failed_at IS 'when it failed last';
COMMENT ON COLUMN outbox_internal.due_shared.error_class IS 'of its last failure';
COMMENT ON COLUMN outbox_internal.due_shared.error_code IS 'the destinations own code';
COMMENT ON COLUMN outbox_internal.due_shared.error_message IS 'for people';
