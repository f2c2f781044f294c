-- Where a route's lanes started from another position, so that status() is exact about older events: what a seek passed
-- over was never delivered, and what was delivered before is not where the lanes have been since.
CREATE TABLE outbox_internal.lane_start (
  route_id      bigint      NOT NULL REFERENCES outbox.route (id) ON DELETE CASCADE,
  at            timestamptz NOT NULL,
  lane          integer     NOT NULL,
  topic         text        NOT NULL DEFAULT '',
  reason        text        NOT NULL,
  lanes         integer     NOT NULL,
  start_time    timestamptz NOT NULL,
  start_from    pg_snapshot NOT NULL,
  start_to      pg_snapshot,
  start_done_to timestamptz,
  stood_from    pg_snapshot NOT NULL,
  stood_to      pg_snapshot,
  stood_done_to timestamptz,
  fork_from     pg_snapshot,
  fork_to       pg_snapshot,
  fork_done_to  timestamptz,
  written_to    text[],
  PRIMARY KEY (route_id, at, lane, topic)
) USING heap;
COMMENT ON TABLE outbox_internal.lane_start IS 'where all lanes of a route began anew (a seek, another number of lanes, the adoption of a dump), and where each stood before';
COMMENT ON COLUMN outbox_internal.lane_start.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.lane_start.at IS 'when: a reading of the shared clock, outbox_internal.lane.since of the lanes that began';
COMMENT ON COLUMN outbox_internal.lane_start.lane IS 'a lane that there was before';
COMMENT ON COLUMN outbox_internal.lane_start.topic IS 'empty: the lane itself; else a topic that had left it';
COMMENT ON COLUMN outbox_internal.lane_start.reason IS 'seek, lanes or adopt (the lanes of a dump: they stood where those of the original did, in numbers of outbox_internal.adopted)';
COMMENT ON COLUMN outbox_internal.lane_start.lanes IS 'number of lanes that keys were hashed over before';
COMMENT ON COLUMN outbox_internal.lane_start.start_time IS 'the route''s start_time before';
COMMENT ON COLUMN outbox_internal.lane_start.start_from IS 'position that all lanes began at';
COMMENT ON COLUMN outbox_internal.lane_start.start_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane_start.start_done_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane_start.stood_from IS 'position that the lane, or the topic''s side lane, had come to';
COMMENT ON COLUMN outbox_internal.lane_start.stood_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane_start.stood_done_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane_start.fork_from IS 'of a topic: where it had left the lane; events up to there were the lane''s';
COMMENT ON COLUMN outbox_internal.lane_start.fork_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane_start.fork_done_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane_start.written_to IS 'of an adoption: the addresses, as in outbox_internal.run_endpoint(), of the Redis servers that the original''s lanes wrote to; NULL: none';
-- adopt() tells by it what the original's lanes had been moved behind.
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.lane_start', '');

CREATE PROCEDURE outbox.forget(
  aggregate_type  text,
  aggregate_id    text,
  undelivered     boolean DEFAULT false,
  reason          text    DEFAULT NULL,
  dry_run         boolean DEFAULT true,
  INOUT forgotten bigint  DEFAULT NULL,
  INOUT kept      bigint  DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_forget';
REVOKE ALL ON PROCEDURE outbox.forget(text, text, boolean, text, boolean, bigint, bigint) FROM PUBLIC;
COMMENT ON PROCEDURE outbox.forget(text, text, boolean, text, boolean, bigint, bigint) IS
  'erases payload and headers of what the log keeps of one key; events that some route has not delivered yet, parked ones and rows of outbox_internal.foreign_event are kept, or with undelivered => true given up: nobody sends them. A dry run unless told otherwise; it cannot be undone. Returns how many were erased and kept. The key itself stays in the log; outbox.audit keeps a hash of it';

DROP FUNCTION outbox.grant_emit(regrole);  -- it has gained an argument

REVOKE ALL ON outbox_internal.lane_start FROM PUBLIC;
