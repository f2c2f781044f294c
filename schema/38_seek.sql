-- ---------------------------------------------------------------------------------------------------------------------
-- Moving a route.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE PROCEDURE outbox.seek(
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
