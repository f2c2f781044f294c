-- ---------------------------------------------------------------------------------------------------------------------
-- wait_until_idle() can wait for delayed events. Whoever was given the old one has the new one: 99_finish.sql.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox.wait_until_idle(timeout interval DEFAULT '30 s', include_delayed boolean DEFAULT false) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_wait_until_idle';
REVOKE ALL ON FUNCTION outbox.wait_until_idle(interval, boolean) FROM PUBLIC;
COMMENT ON FUNCTION outbox.wait_until_idle(interval, boolean) IS
  'waits until every event committed before the call is delivered to each route, passed over, dead, or scheduled for later (deliver_at, a replay), with include_delayed until those are delivered or dead as well; false: not within the timeout';
