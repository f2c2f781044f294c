-- ---------------------------------------------------------------------------------------------------------------------
-- What takes long and is under way. May be run again: an update of the extension does.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox_internal.progress_view(
  OUT command text, OUT pid integer, OUT who name, OUT route text, OUT phase text, OUT since timestamptz, OUT done bigint,
  OUT total bigint, OUT total_estimated boolean, OUT rate numeric, OUT time_left interval, OUT hint text
) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_progress';
GRANT EXECUTE ON FUNCTION outbox_internal.progress_view() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.progress_view() IS 'behind the view outbox.pg_stat_progress_outbox';

CREATE OR REPLACE VIEW outbox.pg_stat_progress_outbox AS
  SELECT p.command, p.pid, p.who, p.route, p.phase, p.since, p.done, p.total, p.total_estimated, p.rate, p.time_left, p.hint
  FROM outbox_internal.progress_view() p;
GRANT SELECT ON outbox.pg_stat_progress_outbox TO pg_monitor;
COMMENT ON VIEW outbox.pg_stat_progress_outbox IS 'what takes long and is under way: replays, redrives, dead letters that are discarded, changes of the number of lanes, backlogs that are drained';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.command IS 'replay, redrive, discard, lane change, or drain: a route that has had events waiting, read or not, for three seconds';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.pid IS 'session that is at it; NULL: the background workers are, or nobody';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.who IS 'role that called; of a lane change the one that altered the route last; NULL: nobody did';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.route IS 'route; NULL: all';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.phase IS 'replay: copying (what is copied is sent meanwhile), then sending; waits: nothing of it can go, see hint; interrupted: the call ended early, see hint. Redrive and discard: in batches. Lane change: waits, lanes stop, reading up to the common snapshot. Drain: sending; waits: see outbox.lag';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.since IS 'begun at; of a drain since when something waits that is not acknowledged; NULL: not yet';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.done IS 'events; of a replay those that have gone, also while it is still copying; NULL: more than a million are left; of a lane change lanes; of a drain events that the destination acknowledged since the route fell behind';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.total IS 'of so many; of a drain those that are done, those that wait in the log, those that are parked and due (10,000 of a lane at most), and those that follow them in their key and nobody has refused (10,000 at most); NULL: the log is locked and cannot be counted';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.total_estimated IS 'not all of that was counted: total comes from samples of the log (outbox_pending_estimated in outbox.metrics()), or stands for as many parked events or more; NULL: there is no total';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.rate IS 'done a second, since it began; of a replay copies that have gone; of a drain since the first event went; NULL: not known, or nothing is being sent';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.time_left IS 'at that rate; NULL: not known, or some of it waits for somebody (a pause, a destination or topic in trouble): hint says for what';
COMMENT ON COLUMN outbox.pg_stat_progress_outbox.hint IS 'what may be done about it; of a drain what is in the way';
