-- ---------------------------------------------------------------------------------------------------------------------
-- Monitoring: what waits, which workers run, what became of one event. pg_monitor may look; nothing here shows a
-- payload. Functions of outbox_internal are for the views. outbox.lag: 47_lag.sql.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox_internal.destination(
  OUT server text, OUT wrapper text, OUT state text, OUT since timestamptz, OUT next_try timestamptz, OUT workers bigint,
  OUT trips bigint, OUT deaths bigint, OUT error_class text, OUT error_code text, OUT error_message text,
  OUT paused_by text, OUT pause_reason text
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_destination';
GRANT EXECUTE ON FUNCTION outbox_internal.destination() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.destination() IS 'behind the view outbox.destination';

CREATE VIEW outbox.destination AS
  SELECT d.server, d.wrapper, d.state, d.since, d.next_try, d.workers, d.trips, d.deaths, d.error_class, d.error_code,
         d.error_message, d.paused_by, d.pause_reason
  FROM outbox_internal.destination() d;
GRANT SELECT ON outbox.destination TO pg_monitor;
COMMENT ON VIEW outbox.destination IS 'every destination, and its circuit breaker; of several relay workers the one that is worst off';
COMMENT ON COLUMN outbox.destination.server IS 'foreign server';
COMMENT ON COLUMN outbox.destination.wrapper IS 'foreign-data wrapper of the server, which tells the kind of destination: outbox_kafka, for example';
COMMENT ON COLUMN outbox.destination.state IS 'closed: events go there; open: nothing is sent until next_try; half-open: a small batch is being tried, for seconds at most while the destination is down, or when nobody has anything to send; paused: by outbox.pause(); unused: no relay worker has events for it; not shown: one has, and outbox.max_destinations is too small to tell more';
COMMENT ON COLUMN outbox.destination.since IS 'begin of the state; of an outage, in which open and half-open take turns, its first failure. It stays over restarts of the workers and orderly ones of the server. Closed: since when the last of the workers has found it well, or has used it, which may be before a pause that is over; outbox.audit has when it was resumed';
COMMENT ON COLUMN outbox.destination.next_try IS 'while open: when it is tried again; sooner where the destination comes back before';
COMMENT ON COLUMN outbox.destination.workers IS 'relay workers that use it';
COMMENT ON COLUMN outbox.destination.trips IS 'how often it opened since these workers use it';
COMMENT ON COLUMN outbox.destination.deaths IS 'how often a sink process ended unasked since then';
COMMENT ON COLUMN outbox.destination.error_class IS 'why it is not closed, or of a warning; NULL: all is well';
COMMENT ON COLUMN outbox.destination.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.destination.error_message IS 'for people';
COMMENT ON COLUMN outbox.destination.paused_by IS 'role that paused it; NULL: nobody';
COMMENT ON COLUMN outbox.destination.pause_reason IS 'as given';

CREATE FUNCTION outbox_internal.worker(
  OUT kind text, OUT pid integer, OUT database text, OUT ordinal integer, OUT since timestamptz, OUT lanes bigint,
  OUT state text
) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_worker';
GRANT EXECUTE ON FUNCTION outbox_internal.worker() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.worker() IS 'behind the view outbox.worker';

CREATE VIEW outbox.worker AS
  SELECT w.kind, w.pid, w.database, w.ordinal, w.since, w.lanes, w.state, a.wait_event_type, a.wait_event
  FROM outbox_internal.worker() w LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) w.pid;
GRANT SELECT ON outbox.worker TO pg_monitor;
COMMENT ON VIEW outbox.worker IS 'background processes of the extension, of all databases of the server';
COMMENT ON COLUMN outbox.worker.kind IS 'launcher, keeper or relay';
COMMENT ON COLUMN outbox.worker.pid IS 'process id; NULL while it starts';
COMMENT ON COLUMN outbox.worker.database IS 'NULL for the launcher';
COMMENT ON COLUMN outbox.worker.ordinal IS 'number among the relay workers of one database, from 0';
COMMENT ON COLUMN outbox.worker.since IS 'when it was started; NULL for the launcher, which the server starts';
COMMENT ON COLUMN outbox.worker.lanes IS 'lanes that a relay worker owns';
COMMENT ON COLUMN outbox.worker.state IS 'starting, running or stopping';
COMMENT ON COLUMN outbox.worker.wait_event_type IS 'as in pg_stat_activity, to those whom that tells it of all roles: members of pg_monitor or pg_read_all_stats; NULL for others, operators among them';
COMMENT ON COLUMN outbox.worker.wait_event IS 'as in pg_stat_activity, to those whom that tells it of all roles: members of pg_monitor or pg_read_all_stats; NULL for others, operators among them';

CREATE FUNCTION outbox.status(
  id uuid, OUT route text, OUT lane integer, OUT state text, OUT created_at timestamptz, OUT topic text,
  OUT attempts integer, OUT error_class text, OUT error_code text, OUT error_message text, OUT error_since timestamptz,
  OUT next_try timestamptz, OUT delivered_at timestamptz, OUT place text, OUT places jsonb, OUT window_from pg_snapshot,
  OUT window_to pg_snapshot, OUT replay bigint, OUT reason text
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_status';
GRANT EXECUTE ON FUNCTION outbox.status(uuid) TO pg_monitor;
COMMENT ON FUNCTION outbox.status(uuid) IS
  'one row per route that the event matches, and per replay: uncommitted (by this transaction), pending, paused, delivered, retrying, blocked, scheduled, due (its deliver_at has come, or what it waited for in its key has gone: it goes next, or waits for what error_* and reason say), dead, skipped, discarded, passed over (the route was moved behind it by seek() or adopt(keep_positions => false)) or not known (alter_route() has made the route want it, and may have come when it had passed it already); not routed where it matches none, or is older than they; no row where there is no such event. Delivered: place is where exactly, places the first and last offset or stream id of its window (window_from, window_to); NULL where that is not known exactly any more. attempts counts refusals; error_* is the last of them, of an event that is pending or due what is in its way. reason: why it was paused, skipped or discarded, or what it waits for';

CREATE FUNCTION outbox.version() RETURNS text
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_version';
GRANT EXECUTE ON FUNCTION outbox.version() TO pg_monitor;
COMMENT ON FUNCTION outbox.version() IS 'versions of the loaded library and of the installed extension; they should be equal';

GRANT USAGE ON SCHEMA outbox TO pg_monitor;
