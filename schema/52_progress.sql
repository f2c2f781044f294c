-- ---------------------------------------------------------------------------------------------------------------------
-- What takes long and is under way. May be run again: an update of the extension does.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox_internal.progress_view(
  OUT command text, OUT pid integer, OUT who name, OUT route text, OUT phase text, OUT since timestamptz, OUT done bigint,
  OUT total bigint, OUT rate numeric, OUT time_left interval, OUT hint text
) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_progress';
REVOKE ALL ON FUNCTION outbox_internal.progress_view() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_internal.progress_view() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.progress_view() IS 'behind the view outbox.pg_stat_progress_outbox';

CREATE OR REPLACE VIEW outbox.pg_stat_progress_outbox AS
  SELECT p.command, p.pid, p.who, p.route, p.phase, p.since, p.done, p.total, p.rate, p.time_left, p.hint
  FROM outbox_internal.progress_view() p;
REVOKE ALL ON outbox.pg_stat_progress_outbox FROM PUBLIC;
GRANT SELECT ON outbox.pg_stat_progress_outbox TO pg_monitor;
COMMENT ON VIEW outbox.pg_stat_progress_outbox IS 'what takes long and is under way: replays, redrives, dead letters that are discarded, changes of the number of lanes, backlogs that are drained';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.command IS 'replay, redrive, discard, lane change, or drain: a route that has been behind for three seconds';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.pid IS 'session that is at it; NULL: the background workers are, or nobody';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.who IS 'role that called; of a lane change the one that altered the route last; NULL: nobody did';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.route IS 'route; NULL: all';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.phase IS 'replay: copying, then sending; interrupted: the call ended early, see hint. Redrive and discard: in batches. Lane change: waits, lanes stop, reading up to the common snapshot. Drain: sending; waits: see outbox.lag';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.since IS 'begun at; NULL: not yet';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.done IS 'events; of a lane change lanes; of a drain events that were delivered or parked since the route fell behind';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.total IS 'of so many; of a drain those that are done and those that wait: where many do, an estimate';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.rate IS 'done a second, since it began; of a replay that is being sent the rate that was asked for; of a drain since the first event went; NULL: not known';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.time_left IS 'at that rate; NULL: not known';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.hint IS 'what may be done about it';
