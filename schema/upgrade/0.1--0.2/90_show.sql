-- ---------------------------------------------------------------------------------------------------------------------
-- What is said of objects that are there already; who may operate is kept in the audit.
-- ---------------------------------------------------------------------------------------------------------------------
COMMENT ON FUNCTION outbox.status(uuid) IS
  'one row per route that the event matches, and per replay: uncommitted (by this transaction), pending, paused, delivered, retrying, blocked, scheduled, due (its deliver_at has come, or what it waited for in its key has gone: it goes next, or waits for what error_* and reason say), dead, skipped, discarded, passed over (the route was moved behind it by seek() or adopt(keep_positions => false)) or not known (alter_route() has made the route want it, and may have come when it had passed it already); not routed where it matches none, or is older than they; no row where there is no such event. Delivered: place is where exactly, places the first and last offset or stream id of its window (window_from, window_to); NULL where that is not known exactly any more. attempts counts refusals; error_* is the last of them, of an event that is pending or due what is in its way. reason: why it was paused, skipped or discarded, or what it waits for';
COMMENT ON FUNCTION outbox.doctor() IS 'looks at settings, workers, day tables, routes and lanes; status is ok, warning (it works, or goes on by itself), or problem: events are not published, or soon will not be, until somebody acts (what somebody has said, outbox.enabled = off or a pause, is a warning)';
COMMENT ON COLUMN outbox.destination.state IS 'closed: events go there; open: nothing is sent until next_try; half-open: a small batch is being tried, for seconds at most while the destination is down, or when nobody has anything to send; paused: by outbox.pause(); unused: no relay worker has events for it; not shown: one has, and outbox.max_destinations is too small to tell more';
COMMENT ON COLUMN outbox.destination.since IS 'begin of the state; of an outage, in which open and half-open take turns, its first failure. It stays over restarts of the workers and orderly ones of the server. Closed: since when the last of the workers has found it well, or has used it, which may be before a pause that is over; outbox.audit has when it was resumed';
COMMENT ON COLUMN outbox.worker.since IS 'when it was started; NULL for the launcher, which the server starts';
COMMENT ON COLUMN outbox.worker.wait_event_type IS 'as in pg_stat_activity, to those whom that tells it of all roles: members of pg_monitor or pg_read_all_stats; NULL for others, operators among them';
COMMENT ON COLUMN outbox.worker.wait_event IS 'as in pg_stat_activity, to those whom that tells it of all roles: members of pg_monitor or pg_read_all_stats; NULL for others, operators among them';
COMMENT ON COLUMN outbox.audit.action IS 'create_route, alter_route, drop_route; alter server, create, alter or drop user mapping, of a server that a route uses; retry, redrive, skip, discard, replay, cancel_replay, seek, drop_expired, pause, resume, forget; adopt, reset_clock, allow_loss (something was let go, or changed by hand); grant_emit, revoke_emit, grant_operate, revoke_operate; rewind and lost writes by a worker';
COMMENT ON COLUMN outbox.audit.detail IS 'what exactly: filters, counts, what was changed from what to what, what was left unsent; role: whose rights were used, where it is not the role that called; never a secret';
COMMENT ON FUNCTION outbox.skip(uuid, text, text) IS
  'gives a parked event up, whatever its state, and lets its key go on; returns on how many routes. One that waits in the log is not parked: pause its key first, and skip it when status() says blocked';
COMMENT ON FUNCTION outbox.drop_route(text) IS 'ends a route; returns the number of its events that were never delivered, in the log and parked; NULL: not known, as it was edited by hand and cannot be read';
COMMENT ON FUNCTION outbox.wait_for(uuid, interval) IS
  'waits until a committed event is delivered or dead on every route that it matches; false: not within the timeout, and a NOTICE says what it waited for; NULL: nothing tells that it was or will be, because no route takes it, one was moved behind it by seek() or adopt(keep_positions => false), or alter_route() has made one want it that may have passed it already (status() says not known). It wakes workers, so looking (pg_monitor) is not enough: EXECUTE has to be granted';
-- Dry runs unless told otherwise, as the others.
CREATE OR REPLACE PROCEDURE outbox.redrive(
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
CREATE OR REPLACE PROCEDURE outbox.seek(
  route             text,
  at                timestamptz,
  reason            text    DEFAULT NULL,
  dry_run           boolean DEFAULT true,
  INOUT again       bigint  DEFAULT NULL,
  INOUT passed_over bigint  DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_seek';
COMMENT ON PROCEDURE outbox.seek(text, timestamptz, text, boolean, bigint, bigint) IS
  'moves a route to a moment (infinity: behind the newest event): it sends again what it has delivered since, and passes over what it has not delivered of before; returns how many of each. A dry run unless told otherwise. Parked events stay parked: they are tried, wait or are dead as before. The moment is compared with created_at, whose clock may be some seconds ahead of the wall clock after a restart';
-- It has gained an argument; the other one goes at the end, when whoever may call it may call this one.
CREATE PROCEDURE outbox.replay(
  since          timestamptz DEFAULT NULL,
  until          timestamptz DEFAULT NULL,
  aggregate_type text        DEFAULT NULL,
  aggregate_id   text        DEFAULT NULL,
  event_type     text        DEFAULT NULL,
  ids            uuid[]      DEFAULT NULL,
  route          text        DEFAULT NULL,
  to_route       text        DEFAULT NULL,
  dry_run        boolean     DEFAULT true,
  per_second     numeric     DEFAULT 100,
  reason         text        DEFAULT NULL,
  INOUT number   bigint      DEFAULT NULL,
  INOUT events   bigint      DEFAULT NULL,
  include_given_up boolean   DEFAULT false
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_replay';
REVOKE ALL ON PROCEDURE outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint, boolean) FROM PUBLIC;
COMMENT ON PROCEDURE outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint, boolean) IS
  'sends events that a route has delivered once more, to it or to another route, under their own ids and with the header outbox-replay; a dry run unless told otherwise. * stands for any run of characters in aggregate_type and event_type, and for itself in aggregate_id. since and until are compared with created_at, whose clock may be some seconds ahead of the wall clock after a restart. What people have skipped or discarded is left alone, unless include_given_up says otherwise. Interrupted, it goes on when it is called with nothing but its number and dry_run => false';
COMMENT ON COLUMN outbox.replay.state IS 'copying: a session is at it, or was: that it ended early is noted at once, or within half a minute where no keeper runs just then or somebody has this row locked; interrupted: the call ended early, CALL outbox.replay(number => ..., dry_run => false) goes on; scheduled: all is copied, as it stays when all is sent (outbox.pg_stat_progress_outbox and outbox.parked_event have what is not); cancelled';

COMMENT ON FUNCTION outbox.peek(text, bigint) IS
  'the events that each lane of a route would send next, from what it last recorded as done, in its order; up to limit per lane, and per side lane of topics that have left it. With a limit it looks at 100,000 events of the log at most, and says so where that did not do; NULL: at all that waits';
