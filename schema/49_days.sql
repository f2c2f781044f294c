-- ---------------------------------------------------------------------------------------------------------------------
-- Looking: the log's days, how large they are, what keeps each. May be run again: an update of the extension does.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.day(
  OUT day date, OUT log_table text, OUT state text, OUT rows bigint, OUT bytes bigint, OUT undelivered bigint, OUT undelivered_capped boolean,
  OUT oldest_undelivered timestamptz, OUT held_by text, OUT goes_at timestamptz
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_day';
GRANT EXECUTE ON FUNCTION outbox_internal.day() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.day() IS 'behind the view outbox.day';

CREATE OR REPLACE VIEW outbox.day AS
  SELECT d.day, d.log_table, d.state, d.rows, d.bytes, d.undelivered, d.undelivered_capped, d.oldest_undelivered, d.held_by, d.goes_at
  FROM outbox_internal.day() d;
GRANT SELECT ON outbox.day TO pg_monitor;
COMMENT ON VIEW outbox.day IS 'the log by days, in UTC: how large each is, what keeps it, and when it goes. No day is dropped while a transaction that has looked here is open';
COMMENT ON COLUMN outbox.day.day IS 'NULL: outbox_internal.log_spare, whose events are of several days';
COMMENT ON COLUMN outbox.day.log_table IS 'where the events are';
COMMENT ON COLUMN outbox.day.state IS 'open: it has not ended; held: over, and routes have still to deliver some of it, however long that takes; kept: delivered, and there for replay() and seek() until goes_at; expired: dropped with the next round of the keeper, within a minute, or by drop_expired(), unless held_by names what is in the way';
COMMENT ON COLUMN outbox.day.rows IS 'events of it, about: a sample is counted where there are more than some thousands; NULL: not known, as a page or a file of it cannot be read';
COMMENT ON COLUMN outbox.day.bytes IS 'on disk, with indexes and TOAST';
COMMENT ON COLUMN outbox.day.undelivered IS 'committed events that a route has not delivered, of the route that has most of them; parked ones have a copy of their own and are not among them; NULL: not known, as a route was edited by hand and cannot be read, or a page or a file of the day cannot';
COMMENT ON COLUMN outbox.day.undelivered_capped IS '30,000 events of a day were looked at, for all routes together, and samples of the rest: about as many as undelivered says';
COMMENT ON COLUMN outbox.day.oldest_undelivered IS 'created_at of the oldest of them that is due';
COMMENT ON COLUMN outbox.day.held_by IS 'routes that have not delivered all of it, how much each, and since when; a route that is behind keeps a day also where nothing of it is its own. Of an expired day: transactions that have it locked, and views that were made of it';
COMMENT ON COLUMN outbox.day.goes_at IS 'when outbox.retention is over; it goes then, or when every route has delivered it, whichever is later';

CREATE OR REPLACE PROCEDURE outbox.drop_expired(
  dry_run     boolean  DEFAULT true,
  keep        interval DEFAULT NULL,
  reason      text     DEFAULT NULL,
  INOUT days  bigint   DEFAULT NULL,
  INOUT bytes bigint   DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_drop_expired';
COMMENT ON PROCEDURE outbox.drop_expired(boolean, interval, text, bigint, bigint) IS
  'drops days of the log that every route has delivered and that ended longer ago than outbox.retention, or than keep, which takes its place: replay(), seek() and status() know of them no more. Never what is undelivered, nor a day that somebody has locked. A dry run unless told otherwise; says of each day what keeps it. Returns how many, and how large they were';
