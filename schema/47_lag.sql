-- ---------------------------------------------------------------------------------------------------------------------
-- Looking: what waits, in the log and beside it. May be run again: an update of the extension does.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox_internal.lanes(
  OUT route text, OUT lane integer, OUT side integer, OUT topic text, OUT server text, OUT state text,
  OUT pending bigint, OUT pending_capped boolean,
  OUT oldest_pending timestamptz, OUT delay interval, OUT delivered_to timestamptz, OUT inflight bigint,
  OUT parked bigint, OUT parked_capped boolean, OUT next_try timestamptz, OUT error_class text, OUT error_code text, OUT error_message text,
  OUT error_since timestamptz, OUT overdue bigint
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_lag';
GRANT EXECUTE ON FUNCTION outbox_internal.lanes() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.lanes() IS 'behind the view outbox.lag';

-- Which routes there are, and what goes where: hints send people there, and nothing in it is secret (those are options of user mappings).
GRANT SELECT ON outbox.route TO pg_monitor;

CREATE OR REPLACE VIEW outbox.lag AS
  SELECT l.route, l.lane, l.side, l.topic, l.server, l.state, l.pending, l.pending_capped, l.oldest_pending, l.delay, l.delivered_to,
         l.inflight, l.parked, l.parked_capped, l.next_try, l.error_class, l.error_code, l.error_message, l.error_since,
         l.overdue
  FROM outbox_internal.lanes() l;
GRANT SELECT ON outbox.lag TO pg_monitor;
COMMENT ON VIEW outbox.lag IS 'every lane of every route: how much waits, since when, and what is in the way; topics that have left their lane have rows of their own';
COMMENT ON COLUMN outbox.lag.route IS 'route';
COMMENT ON COLUMN outbox.lag.lane IS 'number within the route, from 0';
COMMENT ON COLUMN outbox.lag.side IS 'number of a side lane, which serves topics that have left the lane; NULL: the lane itself';
COMMENT ON COLUMN outbox.lag.topic IS 'the topics of a side lane';
COMMENT ON COLUMN outbox.lag.server IS 'destination';
COMMENT ON COLUMN outbox.lag.state IS 'what its relay worker is doing; idle: nothing waits, in the log or parked and due; running: events are read or sent, parked ones too; backing off: what waits is tried again, see next_try; unowned: no worker has it; not shown: one has, and outbox.max_lanes is too small, or it has not shown yet what it does';
COMMENT ON COLUMN outbox.lag.pending IS 'committed events that the lane wants and has not delivered, counted in the log; parked ones are not among them, nor those whose deliver_at is to come; an estimate where pending_capped; NULL: not known, as the route was edited by hand and cannot be read, or a page or a file of the log behind it cannot';
COMMENT ON COLUMN outbox.lag.pending_capped IS 'not all of the log behind the lane was looked at, of which 300,000 rows are for all lanes together: what was counted and what samples of the rest make probable';
COMMENT ON COLUMN outbox.lag.oldest_pending IS 'since when the oldest of them has waited (created_at, or deliver_at where that is later, or when create_route(), seek() or a change of lanes put the lane there), or where pending_capped the oldest that is known';
COMMENT ON COLUMN outbox.lag.delay IS 'how long the oldest waits: since it was emitted (a parked one, too, that nobody has refused and whose turn in its key has come), or was due, or since create_route(), seek() or a change of lanes put the lane there, whichever came last; where counting stopped before one was found, since the first event that was not looked at, or, where the log is locked or cannot be read, since the lane has been behind, or since a worker had it last; NULL: nothing waits that could go';
COMMENT ON COLUMN outbox.lag.delivered_to IS 'created_at of the last event delivered without a gap, since the worker took the lane';
COMMENT ON COLUMN outbox.lag.inflight IS 'read from the log and not yet acknowledged';
COMMENT ON COLUMN outbox.lag.parked IS 'events of this lane in outbox_internal.parked, whatever their state; NULL: not known, as a page or a file of it cannot be read';
COMMENT ON COLUMN outbox.lag.parked_capped IS 'counting stopped after 10,000 events of a lane and state: there are at least as many as parked, or overdue, says';
COMMENT ON COLUMN outbox.lag.next_try IS 'while something is in the way: when it is tried again';
COMMENT ON COLUMN outbox.lag.error_class IS 'what is in the way: topic, destination, config, ...; of a lane without an owner, why a relay worker that runs cannot claim it; NULL: nothing';
COMMENT ON COLUMN outbox.lag.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.lag.error_message IS 'for people';
COMMENT ON COLUMN outbox.lag.error_since IS 'since when';
COMMENT ON COLUMN outbox.lag.overdue IS 'of the parked ones: those that are due (deliver_at, or the next try) and have not gone yet; NULL: as of parked';

CREATE OR REPLACE VIEW outbox.parked_event AS
  SELECT r.name AS route, p.lane,
         -- By the rule of status(): retrying is what was refused.
         CASE WHEN (p.state OPERATOR(pg_catalog.=) 'scheduled' OR (p.state OPERATOR(pg_catalog.=) 'retrying' AND p.failed_at IS NULL))
                   AND p.due_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
              THEN 'due' ELSE p.state END AS state,
         p.id, p.created_at, p.aggregate_type, p.aggregate_id, p.event_type, p.topic, p.due_at, p.attempts, p.error_class, p.error_code,
         p.error_message, p.failed_at, p.parked_at, p.replay, pg_catalog.octet_length(p.payload) AS payload_bytes
  FROM outbox_internal.parked p JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) p.route_id;
GRANT SELECT ON outbox.parked_event TO pg_monitor;
COMMENT ON VIEW outbox.parked_event IS 'events that wait beside the log, by the name of their route: refused, behind a refused one, not due yet, dead';
COMMENT ON COLUMN outbox.parked_event.route IS 'route';
COMMENT ON COLUMN outbox.parked_event.lane IS 'lane that owns it; of an event without a key: the lane that parked it or sent it last';
COMMENT ON COLUMN outbox.parked_event.state IS 'retrying: tried again at due_at; blocked: behind an event of its key, or its key is paused; scheduled: delivered at due_at; due: its time has come, or what it waited for in its key has gone, and nobody has refused it: it goes next or waits for its topic or destination; dead: not tried again until somebody says so';
COMMENT ON COLUMN outbox.parked_event.id IS 'event id; what status(), retry() and skip() take';
COMMENT ON COLUMN outbox.parked_event.created_at IS 'of the event';
COMMENT ON COLUMN outbox.parked_event.aggregate_type IS 'of the event';
COMMENT ON COLUMN outbox.parked_event.aggregate_id IS 'of the event';
COMMENT ON COLUMN outbox.parked_event.event_type IS 'of the event';
COMMENT ON COLUMN outbox.parked_event.topic IS 'where it is to go';
COMMENT ON COLUMN outbox.parked_event.due_at IS 'next try of a retrying, time of a scheduled event';
COMMENT ON COLUMN outbox.parked_event.attempts IS 'how often it was refused; trouble of topic or destination does not count';
COMMENT ON COLUMN outbox.parked_event.error_class IS 'of the last failure: message, solo-retry, topic, ...; NULL: none';
COMMENT ON COLUMN outbox.parked_event.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.parked_event.error_message IS 'for people';
COMMENT ON COLUMN outbox.parked_event.failed_at IS 'when it failed last';
COMMENT ON COLUMN outbox.parked_event.parked_at IS 'when it came here';
COMMENT ON COLUMN outbox.parked_event.replay IS '0: the event itself; else the number of the replay';
COMMENT ON COLUMN outbox.parked_event.payload_bytes IS 'size of its payload; NULL: a tombstone';
