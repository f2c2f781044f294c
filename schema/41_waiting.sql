-- ---------------------------------------------------------------------------------------------------------------------
-- Waiting, for tests and scripts: not for the path of a request, where a broker's trouble would become the caller's.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.wait_for(id uuid, timeout interval DEFAULT '10 s') RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_wait_for';
COMMENT ON FUNCTION outbox.wait_for(uuid, interval) IS
  'waits until a committed event is delivered or dead on every route that it matches; false: not within the timeout, and a NOTICE says what it waited for; NULL: nothing tells that it was or will be, because no route takes it, one was moved behind it by seek() or adopt(keep_positions => false), or alter_route() has made one want it that may have passed it already (status() says not known). It wakes workers, so looking (pg_monitor) is not enough: EXECUTE has to be granted';

CREATE FUNCTION outbox.wait_until_idle(timeout interval DEFAULT '30 s', include_delayed boolean DEFAULT false) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_wait_until_idle';
COMMENT ON FUNCTION outbox.wait_until_idle(interval, boolean) IS
  'waits until every event committed before the call is delivered to each route, passed over, dead, or scheduled for later (deliver_at, a replay), with include_delayed until those are delivered or dead as well. An event that is retried, overdue or paused, and one that waits behind another of its key (under on_failure => block behind a dead letter, until somebody acts), is work; a pause or an outage behind which nothing waits is not: false when the timeout is over, and a NOTICE says what it waited for';
