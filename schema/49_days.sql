-- ---------------------------------------------------------------------------------------------------------------------
-- Looking: the log's days, how large they are, what keeps each. May be run again: an update of the extension does.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.day(
  OUT day date, OUT log_table text, OUT state text, OUT bytes bigint, OUT undelivered bigint, OUT undelivered_capped boolean,
  OUT oldest_undelivered timestamptz, OUT held_by text, OUT goes_at timestamptz
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_day';
REVOKE ALL ON FUNCTION outbox_internal.day() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_internal.day() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.day() IS 'behind the view outbox.day';

CREATE OR REPLACE VIEW outbox.day AS
  SELECT d.day, d.log_table, d.state, d.bytes, d.undelivered, d.undelivered_capped, d.oldest_undelivered, d.held_by, d.goes_at
  FROM outbox_internal.day() d;
REVOKE ALL ON outbox.day FROM PUBLIC;
GRANT SELECT ON outbox.day TO pg_monitor;
COMMENT ON VIEW outbox.day IS 'the log by days, in UTC: how large each is, which routes have not delivered all of it, and when it goes. No day is dropped while a transaction that has looked here is open';
COMMENT ON COLUMN outbox.day.day IS 'NULL: outbox_internal.log_spare, whose events are of several days';
COMMENT ON COLUMN outbox.day.log_table IS 'where the events are';
COMMENT ON COLUMN outbox.day.state IS 'open: it has not ended; held: over, and routes have still to deliver some of it, however long that takes; kept: delivered, and there for replay() and seek() until goes_at; expired: dropped with the next round of the keeper, within a minute where nobody has the table locked';
COMMENT ON COLUMN outbox.day.bytes IS 'on disk, with indexes and TOAST';
COMMENT ON COLUMN outbox.day.undelivered IS 'committed events that a route has not delivered, of the route that has most of them; parked ones have a copy of their own and are not among them';
COMMENT ON COLUMN outbox.day.undelivered_capped IS 'counting stopped after 30,000 events of a day and route: there are at least as many as undelivered says';
COMMENT ON COLUMN outbox.day.oldest_undelivered IS 'created_at of the oldest of them';
COMMENT ON COLUMN outbox.day.held_by IS 'routes that have not delivered all of it, and how much each; a route that is behind keeps a day also where nothing of it is its own';
COMMENT ON COLUMN outbox.day.goes_at IS 'when outbox.retention is over; it goes then, or when every route has delivered it, whichever is later';
