-- ---------------------------------------------------------------------------------------------------------------------
-- Sending delivered events again, from the days that are still in the log.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE outbox.replay (
  number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  who        name        NOT NULL,
  route      text        NOT NULL,
  to_route   text        NOT NULL,
  filter     jsonb       NOT NULL,
  from_time  timestamptz NOT NULL,
  to_time    timestamptz NOT NULL,
  per_second numeric,
  matched    bigint      NOT NULL,
  copied     bigint      NOT NULL DEFAULT 0,
  copied_to  timestamptz,
  state      text        NOT NULL DEFAULT 'copying',
  reason     text,
  CONSTRAINT replay_state CHECK (state IN ('copying', 'interrupted', 'scheduled', 'cancelled'))
) USING heap;
COMMENT ON TABLE outbox.replay IS 'replays: delivered events that people have had sent again; what of a replay is still to be sent is in outbox_internal.parked under its number';
COMMENT ON SEQUENCE outbox.replay_number_seq IS 'numbers of replays';
COMMENT ON COLUMN outbox.replay.number IS 'what cancel_replay() takes, what the header outbox-replay says, and outbox_internal.parked.replay';
COMMENT ON COLUMN outbox.replay.at IS 'when';
COMMENT ON COLUMN outbox.replay.who IS 'role that called';
COMMENT ON COLUMN outbox.replay.route IS 'route that had delivered the events';
COMMENT ON COLUMN outbox.replay.to_route IS 'route that sends them again';
COMMENT ON COLUMN outbox.replay.filter IS 'which of them, as given';
COMMENT ON COLUMN outbox.replay.from_time IS 'created_at of the first event that it may be';
COMMENT ON COLUMN outbox.replay.to_time IS 'and before which its last one was created';
COMMENT ON COLUMN outbox.replay.per_second IS 'how fast; NULL: as fast as it goes';
COMMENT ON COLUMN outbox.replay.matched IS 'how many';
COMMENT ON COLUMN outbox.replay.copied IS 'how many of them have been scheduled so far';
COMMENT ON COLUMN outbox.replay.copied_to IS 'created_at of the last of these: where it goes on after an interruption';
COMMENT ON COLUMN outbox.replay.state IS 'copying: a session is at it, or was: that it ended early is noted at once, or within half a minute where no keeper runs just then or somebody has this row locked; interrupted: the call ended early, CALL outbox.replay(number => ..., dry_run => false) goes on; scheduled: all is copied, as it stays when all is sent (outbox.pg_stat_progress_outbox and outbox.parked_event have what is not); cancelled';
COMMENT ON COLUMN outbox.replay.reason IS 'why, as given';
GRANT SELECT ON outbox.replay TO pg_monitor;
SELECT pg_catalog.pg_extension_config_dump('outbox.replay', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.replay_number_seq', '');

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
COMMENT ON PROCEDURE outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint, boolean) IS
  'sends events that a route has delivered once more, to it or to another route, under their own ids and with the header outbox-replay; a dry run unless told otherwise. * stands for any run of characters in aggregate_type and event_type, and for itself in aggregate_id. since and until are compared with created_at, whose clock may be some seconds ahead of the wall clock after a restart. What people have skipped or discarded is left alone, unless include_given_up says otherwise. Interrupted, it goes on when it is called with nothing but its number and dry_run => false';

CREATE FUNCTION outbox.cancel_replay(number bigint, reason text DEFAULT NULL) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_cancel_replay';
COMMENT ON FUNCTION outbox.cancel_replay(bigint, text) IS
  'ends a replay, also one that is being copied or was interrupted; what has not been sent yet will not be, but its dead letters stay; returns how many events that are';
