-- ---------------------------------------------------------------------------------------------------------------------
-- No event is lost without a word: rows of the log are neither changed nor deleted by hand, and what is undelivered is
-- not dropped, unless a superuser has said SET outbox.allow_loss = on. Day tables get the trigger when they are made;
-- DROP and DETACH are looked at by the library, see src/admin/loss.h.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._refuse_loss() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_loss';
COMMENT ON FUNCTION outbox._refuse_loss() IS 'refuses UPDATE and DELETE on outbox.log, and TRUNCATE while it holds undelivered events';

CREATE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox.log
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss();
ALTER TABLE outbox.log ENABLE ALWAYS TRIGGER log_loss;
COMMENT ON TRIGGER log_loss ON outbox.log IS 'the log is append-only, and undelivered events are not dropped unasked: see outbox.allow_loss';

DO $day_tables$
DECLARE
  day regclass;
BEGIN
  FOR day IN
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i
    WHERE i.inhparent OPERATOR(pg_catalog.=) 'outbox.log'::pg_catalog.regclass AND NOT i.inhdetachpending
  LOOP
    EXECUTE pg_catalog.format('CREATE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss()', day);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER log_loss', day);
  END LOOP;
END
$day_tables$;

-- Where a route's lanes began anew, so that the words about older events are exact: what a seek passed over was never
-- delivered, and what was delivered before is not where the lanes have been since.
CREATE TABLE outbox.lane_start (
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
  PRIMARY KEY (route_id, at, lane, topic)
);
COMMENT ON TABLE outbox.lane_start IS 'where all lanes of a route began anew (a seek, another number of lanes), and where each stood before';
COMMENT ON COLUMN outbox.lane_start.route_id IS 'route';
COMMENT ON COLUMN outbox.lane_start.at IS 'when: a reading of the shared clock, outbox.lane.since of the lanes that began';
COMMENT ON COLUMN outbox.lane_start.lane IS 'a lane that there was before';
COMMENT ON COLUMN outbox.lane_start.topic IS 'empty: the lane itself; else a topic that had left it';
COMMENT ON COLUMN outbox.lane_start.reason IS 'seek or lanes';
COMMENT ON COLUMN outbox.lane_start.lanes IS 'number of lanes that keys were hashed over before';
COMMENT ON COLUMN outbox.lane_start.start_time IS 'the route''s start_time before';
COMMENT ON COLUMN outbox.lane_start.start_from IS 'position that all lanes began at';
COMMENT ON COLUMN outbox.lane_start.start_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.start_done_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.stood_from IS 'position that the lane, or the topic''s side lane, had come to';
COMMENT ON COLUMN outbox.lane_start.stood_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.stood_done_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.fork_from IS 'of a topic: where it had left the lane; events up to there were the lane''s';
COMMENT ON COLUMN outbox.lane_start.fork_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.fork_done_to IS 'likewise';

CREATE TRIGGER ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON outbox.lane_start
  FOR EACH ROW EXECUTE FUNCTION outbox._ignore_replicated();
ALTER TABLE outbox.lane_start ENABLE REPLICA TRIGGER ignore_replicated;
COMMENT ON TRIGGER ignore_replicated ON outbox.lane_start IS 'drops what a subscription brings; fires for nothing else';

COMMENT ON FUNCTION outbox.wait_for(uuid, interval) IS
  'waits until a committed event is delivered or dead on every route that it matches; false: not within the timeout; NULL: no route will deliver it, because none takes it or one was moved behind it by seek()';

COMMENT ON FUNCTION outbox.wait_until_idle(interval) IS
  'waits until every event committed before the call is delivered to each route, passed over, dead, or scheduled for later (deliver_at, a replay); false: not within the timeout';

COMMENT ON FUNCTION outbox.status(uuid) IS
  'one row per route that the event matches, and per replay: uncommitted (by this transaction), pending, paused, delivered, retrying, blocked, scheduled, dead, skipped, discarded or passed over (the route was moved behind it by seek()); not routed where it matches none, or is older than they; no row where there is no such event. Delivered: place is where exactly, places the first and last offset or stream id of its window (window_from, window_to); NULL where that is not known exactly any more. attempts counts refusals; error_* is the last of them, of an event that is pending what is in its lane''s way. reason: why it was paused, skipped or discarded, or whom it waits behind';

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
  'erases payload and headers of what the log keeps of one key; events that some route has not delivered yet, parked ones and rows of outbox.foreign_event are kept, or with undelivered => true given up: nobody sends them. A dry run unless told otherwise; it cannot be undone. Returns how many were erased and kept. The key itself stays in the log; outbox.audit keeps a hash of it';
COMMENT ON COLUMN outbox.audit.action IS 'retry, redrive, skip, discard, replay, seek, pause, resume, forget; rewind and lost writes by a worker';
