-- What a lane has had acknowledged at most, over all streams: the loss of a Redis is told by it, and outbox_internal.progress keeps
-- the places of 64 streams only.
ALTER TABLE outbox_internal.progress ADD COLUMN acknowledged bigint[];
COMMENT ON COLUMN outbox_internal.progress.places IS 'where the events went that were acknowledged since the row before: first and last offset or stream id, by "topic/partition" or stream; of 64 of them at most; {}: the side lane was over';
COMMENT ON COLUMN outbox_internal.progress.run IS 'which life of the Redis server, see outbox_internal.server_run, or which Kafka cluster acknowledged them; NULL: the destination does not tell';
COMMENT ON COLUMN outbox_internal.progress.acknowledged IS 'both numbers of the highest stream id that was acknowledged since the row before, over all streams, also those that places has no room for; NULL: run is, or nothing was';
UPDATE outbox_internal.progress g SET acknowledged = (
    SELECT pg_catalog.max(pg_catalog.string_to_array(e.value OPERATOR(pg_catalog.->>) 1, '-')::pg_catalog.int8[])
    FROM pg_catalog.jsonb_each(g.places) e
    WHERE pg_catalog.jsonb_typeof(e.value) OPERATOR(pg_catalog.=) 'array'
      AND (e.value OPERATOR(pg_catalog.->>) 1) OPERATOR(pg_catalog.~) '^[0-9]{1,18}-[0-9]{1,18}$')
  WHERE g.run IS NOT NULL AND g.places IS NOT NULL;

-- Where a run's rows begin: the runs that a lane has had are found from one to the one before.
ALTER TABLE outbox_internal.progress ADD COLUMN run_after timestamptz;
COMMENT ON COLUMN outbox_internal.progress.run_after IS 'the newest row of this lane (or side lane) before, under another run; NULL: there is none';
UPDATE outbox_internal.progress g SET run_after = p.run_after
  FROM (SELECT at, route_id, lane, side,
          pg_catalog.max(CASE WHEN run IS DISTINCT FROM before THEN before_at END) OVER (PARTITION BY route_id, lane, side ORDER BY at) AS run_after
        FROM (SELECT at, route_id, lane, side, run,
                pg_catalog.lag(run) OVER w AS before, pg_catalog.lag(at) OVER w AS before_at
              FROM outbox_internal.progress WINDOW w AS (PARTITION BY route_id, lane, side ORDER BY at)) r) p
  WHERE p.run_after IS NOT NULL AND g.at OPERATOR(pg_catalog.=) p.at AND g.route_id OPERATOR(pg_catalog.=) p.route_id
    AND g.lane OPERATOR(pg_catalog.=) p.lane AND g.side OPERATOR(pg_catalog.=) p.side;

-- What a run still had is its own, whichever destination met it; and the order of the meetings tells which of them concern
-- what a run before has acknowledged.
DELETE FROM outbox_internal.server_run m USING outbox_internal.server_run e
  WHERE e.run OPERATOR(pg_catalog.=) m.run
    AND (e.met_at OPERATOR(pg_catalog.<) m.met_at
         OR (e.met_at OPERATOR(pg_catalog.=) m.met_at AND e.server OPERATOR(pg_catalog.<) m.server));
ALTER TABLE outbox_internal.server_run DROP CONSTRAINT server_run_pkey, DROP COLUMN resend, ALTER COLUMN survived DROP NOT NULL,
  ADD COLUMN number bigint, ADD COLUMN there_to timestamptz,
  ADD COLUMN noted_to timestamptz;
ALTER TABLE outbox_internal.server_run ADD PRIMARY KEY (run);
UPDATE outbox_internal.server_run m SET number = n.number
  FROM (SELECT run, pg_catalog.row_number() OVER (ORDER BY met_at) AS number FROM outbox_internal.server_run) n
  WHERE n.run OPERATOR(pg_catalog.=) m.run;
ALTER TABLE outbox_internal.server_run ALTER COLUMN number SET NOT NULL;
COMMENT ON TABLE outbox_internal.server_run IS 'lives of Redis servers, and what each still had when a worker met it, before anything new was written';
COMMENT ON COLUMN outbox_internal.server_run.server IS 'destination that met it first; another with the same address asks only about what was noted since';
COMMENT ON COLUMN outbox_internal.server_run.run IS 'hash of the configured address, run id of the server and history of its data (the first 16 characters of each; history: how much it has received as a replica, zeros: nothing, or a replication id where it does not tell); with a ? behind it: it would not tell what it had';
COMMENT ON COLUMN outbox_internal.server_run.survived IS 'the last id of all streams asked about, or an earlier one after which one of them has lost something, or the highest that was noted then: what other runs at that address had acknowledged before, under a later one, is lost; NULL: there was nothing to ask, or it would not tell';
COMMENT ON COLUMN outbox_internal.server_run.there_to IS 'ids of some streams are ahead of others, and do not tell: what was noted no later than this is there, whatever its id; NULL: ids tell';
COMMENT ON COLUMN outbox_internal.server_run.number IS 'order of the meetings; a run that is met again after another one at its address comes last';
COMMENT ON COLUMN outbox_internal.server_run.noted_to IS 'when the newest was noted of what the run was asked about, where nothing of that was lost: survived is no higher than the highest id of it then, and both rise when a worker has noted more and asks again; NULL: something was lost, or it would not tell';

-- What was delivered from outbox_internal.parked is told to be lost one by one, and found in the log by its transaction.
ALTER TABLE outbox_internal.parked ADD COLUMN xid xid8;
COMMENT ON COLUMN outbox_internal.parked.xid IS 'as in outbox_internal.log; NULL: it came here under an older version, or with a dump';
ALTER TABLE outbox_internal.parked ADD COLUMN due_since timestamptz;
COMMENT ON COLUMN outbox_internal.parked.due_since IS 'of one that was blocked when it fell due: its time then; NULL: it may go since it was emitted, or since its deliver_at, for all that is its own';
ALTER TABLE outbox_internal.parked ADD COLUMN deliver_at timestamptz;
UPDATE outbox_internal.parked SET deliver_at = due_at WHERE state OPERATOR(pg_catalog.=) 'scheduled' AND replay OPERATOR(pg_catalog.=) 0;
COMMENT ON COLUMN outbox_internal.parked.deliver_at IS 'of the event, as in outbox_internal.log; NULL: it has none, or came here under an older version or with a dump of one';
ALTER TABLE outbox_internal.outcome ADD COLUMN lane integer, ADD COLUMN order_key bigint, ADD COLUMN xid xid8, ADD COLUMN run text,
  ADD COLUMN acknowledged bigint[];
COMMENT ON TABLE outbox_internal.outcome IS 'history of what became of parked events; one table a day, dropped with the log; rows are inserted; outbox.forget() settles its own once, and outbox.reset_clock() dates those of the future anew, no more';
COMMENT ON COLUMN outbox_internal.lane.claimed_at IS 'when it was claimed; without an owner: it was let go with events in flight, of which nobody knows';
COMMENT ON COLUMN outbox_internal.outcome.outcome IS 'delivered, skipped or discarded; lost: the destination no longer has what it was given before, and is sent it again';
COMMENT ON COLUMN outbox_internal.outcome.lane IS 'lane that delivered it';
COMMENT ON COLUMN outbox_internal.outcome.order_key IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.outcome.xid IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.outcome.run IS 'which life of the Redis server acknowledged it, see outbox_internal.server_run; NULL: the destination does not tell';
COMMENT ON COLUMN outbox_internal.outcome.acknowledged IS 'both numbers of its stream id, or of the last one of those of its key that were sent together; NULL: run is';
DO $index$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT c.relname FROM pg_catalog.pg_inherits i
    JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid
    WHERE i.inhparent OPERATOR(pg_catalog.=) 'outbox_internal.outcome'::pg_catalog.regclass
  LOOP
    EXECUTE pg_catalog.format('CREATE INDEX %I ON outbox_internal.%I USING btree (run, acknowledged) WHERE run IS NOT NULL',
      name OPERATOR(pg_catalog.||) '_acknowledged', name);
  END LOOP;
END
$index$;
ALTER TABLE outbox_internal.lane ADD COLUMN repeats_to pg_snapshot;
COMMENT ON COLUMN outbox_internal.lane.repeats_to IS 'the lane was put back, by a destination''s loss or by outbox.seek(), and reads again up to here: what is parked, was given up, or was delivered from where it was parked since the last seek, is not its own; NULL: never';
