-- ---------------------------------------------------------------------------------------------------------------------
-- wait_until_idle() can wait for delayed events. Roles that were granted the old one get the new one: 99_finish.sql.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox.wait_until_idle(timeout interval DEFAULT '30 s', include_delayed boolean DEFAULT false) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_wait_until_idle';
REVOKE ALL ON FUNCTION outbox.wait_until_idle(interval, boolean) FROM PUBLIC;
COMMENT ON FUNCTION outbox.wait_until_idle(interval, boolean) IS
  'waits until every event committed before the call is delivered to each route, passed over, dead, or scheduled for later (deliver_at, a replay), with include_delayed until those are delivered or dead as well. An event that is retried, overdue or paused, and one that waits behind another of its key (under on_failure => block behind a dead letter, until somebody acts), is work; a pause or an outage behind which nothing waits is not: false when the timeout is over, and a NOTICE says what it waited for';
