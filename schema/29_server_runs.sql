-- ---------------------------------------------------------------------------------------------------------------------
-- What a Redis server has acknowledged, and what of that later runs of it (outbox_internal.server_run) have lost. Asked by
-- src/log/{pg_server_runs,lost_acknowledged,lost_parked}.cpp and src/parked/settle.cpp. All are inlined into the statements
-- that call them, so they have no SET clause, and every name in them is qualified.
--
-- A row of outbox_internal.progress says when the row before the first of its run was written (run_after): so the runs that a lane
-- has had are found from one to the one before, however many rows each has. What another server acknowledged, or the
-- same one at another address, is of another period, and never counts as written here.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox_internal.run_endpoint(run text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pg_catalog.split_part($1, '.', 1);
COMMENT ON FUNCTION outbox_internal.run_endpoint(text) IS 'what the runs have in common that are lives of the server at one configured address';

CREATE OR REPLACE FUNCTION outbox_internal.server_runs(of_run text)
  RETURNS TABLE (run text, number bigint, survived bigint[], met_at timestamptz, there_to timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT m.run, m.number, string_to_array(m.survived, '-')::bigint[], m.met_at, coalesce(m.there_to, '-infinity')
  FROM outbox_internal.server_run m
  WHERE outbox_internal.run_endpoint(m.run) OPERATOR(pg_catalog.=) outbox_internal.run_endpoint($1);
END;
COMMENT ON FUNCTION outbox_internal.server_runs(text) IS
  'the runs that were met at the address of this one; survived as both numbers of the stream id';

CREATE OR REPLACE FUNCTION outbox_internal.newest_run(of_run text)
  RETURNS TABLE (run text, number bigint)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT m.run, m.number FROM outbox_internal.server_runs($1) m ORDER BY m.number DESC LIMIT 1;
END;
COMMENT ON FUNCTION outbox_internal.newest_run(text) IS
  'the run that was met last at the address of this one';

-- Meetings later than `after` (and than the one with that run itself), no later than `upto`, and none from before `since`.
CREATE OR REPLACE FUNCTION outbox_internal.survived(run text, after bigint, upto bigint, since timestamptz DEFAULT '-infinity')
  RETURNS TABLE (bound bigint[], there_to timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT min(m.survived), min(m.there_to) FILTER (WHERE m.survived IS NOT NULL)
  FROM outbox_internal.server_runs($1) m
  WHERE m.number OPERATOR(pg_catalog.>) $2 AND m.number OPERATOR(pg_catalog.<=) $3 AND m.met_at OPERATOR(pg_catalog.>=) $4
    AND m.number OPERATOR(pg_catalog.>)
      coalesce((SELECT h.number FROM outbox_internal.server_run h WHERE h.run OPERATOR(pg_catalog.=) $1), 0);
END;
COMMENT ON FUNCTION outbox_internal.survived(text, bigint, bigint, timestamptz) IS
  'the last stream id of which all these meetings have shown that it is there, see outbox_internal.is_lost(); NULL: there were none, or they tell nothing';

CREATE OR REPLACE FUNCTION outbox_internal.is_lost(acknowledged bigint[], at timestamptz, bound bigint[], there_to timestamptz) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN $1 OPERATOR(pg_catalog.>) $3 AND $2 OPERATOR(pg_catalog.>) $4;
COMMENT ON FUNCTION outbox_internal.is_lost(bigint[], timestamptz, bigint[], timestamptz) IS
  'whether what was acknowledged under this id, and noted at that time, is lost, by outbox_internal.survived(); NULL: that tells nothing';

-- A period begins after `after`, and ends with the row of `upto`.
CREATE OR REPLACE FUNCTION outbox_internal.run_periods(route_id bigint, lane integer, side integer, since timestamptz, until timestamptz)
  RETURNS TABLE (run text, after timestamptz, upto timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  WITH RECURSIVE period AS (
    SELECT n.run, n.run_after, n.at FROM outbox_internal.newest_progress($1, $2, $3, $4, $5) n
    UNION ALL
    SELECT n.run, n.run_after, n.at
    FROM period p CROSS JOIN LATERAL outbox_internal.newest_progress($1, $2, $3, $4, p.run_after) n)
  SELECT p.run, greatest(p.run_after, $4), p.at FROM period p;
END;
COMMENT ON FUNCTION outbox_internal.run_periods(bigint, integer, integer, timestamptz, timestamptz) IS
  'which runs acknowledged what a lane, or side lane, has written down after `since` and no later than `until`: from the newest back, a row for each time under one run';

-- A row that put the lane back tells what was there then: if less is there now, all since is lost.
CREATE OR REPLACE FUNCTION outbox_internal.period_rows(route_id bigint, lane integer, side integer, run text, after timestamptz, upto timestamptz)
  RETURNS TABLE (at timestamptz, places jsonb, acknowledged bigint[], reached bigint[])
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT g.at, g.places, g.acknowledged,
         CASE WHEN g.survived IS NULL THEN g.acknowledged ELSE string_to_array(g.survived, '-')::bigint[] END
  FROM outbox_internal.progress g
  WHERE g.route_id OPERATOR(pg_catalog.=) $1 AND g.lane OPERATOR(pg_catalog.=) $2 AND g.side OPERATOR(pg_catalog.=) $3
    AND g.at OPERATOR(pg_catalog.>) $5 AND g.at OPERATOR(pg_catalog.<=) $6 AND g.run OPERATOR(pg_catalog.=) $4;
END;
COMMENT ON FUNCTION outbox_internal.period_rows(bigint, integer, integer, text, timestamptz, timestamptz) IS
  'what a lane has written down in a period; reached: if the server has not kept this id, what the row tells of is lost, NULL: it tells nothing';

CREATE OR REPLACE FUNCTION outbox_internal.lane_periods(route_id bigint, lane integer, since timestamptz, until timestamptz)
  RETURNS TABLE (side integer, run text, after timestamptz, upto timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  WITH RECURSIVE sides AS (
    SELECT 0 AS side
    UNION ALL
    SELECT (SELECT g.side FROM outbox_internal.progress g
            WHERE g.route_id OPERATOR(pg_catalog.=) $1 AND g.lane OPERATOR(pg_catalog.=) $2
              AND g.side OPERATOR(pg_catalog.>) s.side
            ORDER BY g.side LIMIT 1)
    FROM sides s WHERE s.side IS NOT NULL)
  SELECT s.side, p.run, p.after, p.upto
  FROM sides s CROSS JOIN LATERAL outbox_internal.run_periods($1, $2, s.side, $3, $4) p;
END;
COMMENT ON FUNCTION outbox_internal.lane_periods(bigint, integer, timestamptz, timestamptz) IS
  'the periods of a lane and of its side lanes; see outbox_internal.run_periods()';

CREATE OR REPLACE FUNCTION outbox_internal.lane_run(route_id bigint, lane integer, of_run text, since timestamptz, until timestamptz)
  RETURNS TABLE (run text, number bigint)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT p.run, coalesce(m.number, 0)
  FROM outbox_internal.run_periods($1, $2, 0, $4, $5) p
  LEFT JOIN outbox_internal.server_run m ON m.run OPERATOR(pg_catalog.=) p.run
  WHERE outbox_internal.run_endpoint(p.run) OPERATOR(pg_catalog.=) outbox_internal.run_endpoint($3)
  ORDER BY p.upto DESC LIMIT 1;
END;
COMMENT ON FUNCTION outbox_internal.lane_run(bigint, integer, text, timestamptz, timestamptz) IS
  'the last run at the address of this one that has acknowledged anything to the lane; number 0: one that is not in outbox_internal.server_run';

-- bound: of all meetings since. known: of those that were looked at before, up to the number `looked` or, whatever came between, under any run from which the lane has
-- written something down later. (It may have gone back to an earlier run since: another worker was still connected to
-- that. What it has written down there was not looked at.)
CREATE OR REPLACE FUNCTION outbox_internal.judged_periods(route_id bigint, lane integer, of_run text, since timestamptz, until timestamptz, looked bigint)
  RETURNS TABLE (side integer, run text, after timestamptz, upto timestamptz, bound bigint[], there_to timestamptz,
                 known bigint[], known_there_to timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  WITH look AS MATERIALIZED (
    SELECT p.upto, m.number FROM outbox_internal.run_periods($1, $2, 0, $4, $5) p
    JOIN outbox_internal.server_run m ON m.run OPERATOR(pg_catalog.=) p.run
    WHERE outbox_internal.run_endpoint(p.run) OPERATOR(pg_catalog.=) outbox_internal.run_endpoint($3))
  SELECT h.side, h.run, h.after, h.upto, b.bound, b.there_to, k.bound, k.there_to
  FROM outbox_internal.lane_periods($1, $2, $4, $5) h
  CROSS JOIN LATERAL (SELECT greatest(max(l.number), $6) AS number FROM look l WHERE l.upto OPERATOR(pg_catalog.>=) h.upto) seen
  CROSS JOIN LATERAL outbox_internal.survived(h.run, seen.number, 9223372036854775807) b
  CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, seen.number) k
  WHERE outbox_internal.run_endpoint(h.run) OPERATOR(pg_catalog.=) outbox_internal.run_endpoint($3);
END;
COMMENT ON FUNCTION outbox_internal.judged_periods(bigint, integer, text, timestamptz, timestamptz, bigint) IS
  'the periods in which the server of that run acknowledged something to the lane or its side lanes; lost is what outbox_internal.is_lost() says of bound and there_to, which is no news where it says so of known and known_there_to';

-- From one lane to the next through the index, however many rows there are.
CREATE OR REPLACE VIEW outbox_internal.noted_lane AS
  WITH RECURSIVE noted AS (
    (SELECT g.route_id, g.lane, g.side FROM outbox_internal.progress g ORDER BY g.route_id, g.lane, g.side LIMIT 1)
    UNION ALL
    SELECT n.route_id, n.lane, n.side
    FROM noted w CROSS JOIN LATERAL
      (SELECT g.route_id, g.lane, g.side FROM outbox_internal.progress g
       WHERE ROW(g.route_id, g.lane, g.side) OPERATOR(pg_catalog.>) ROW(w.route_id, w.lane, w.side)
       ORDER BY g.route_id, g.lane, g.side LIMIT 1) n)
  SELECT w.route_id, w.lane, w.side FROM noted w;
COMMENT ON VIEW outbox_internal.noted_lane IS 'lanes and side lanes that outbox_internal.progress has anything of, also those that are no more';
COMMENT ON COLUMN outbox_internal.noted_lane.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.noted_lane.lane IS 'lane';
COMMENT ON COLUMN outbox_internal.noted_lane.side IS '0: the lane itself; else its side lane of that number';

CREATE OR REPLACE FUNCTION outbox_internal.other_periods(of_run text)
  RETURNS TABLE (route_id bigint, lane integer, side integer, run text, after timestamptz, upto timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT w.route_id, w.lane, w.side, p.run, p.after, p.upto
  FROM outbox_internal.noted_lane w
  CROSS JOIN LATERAL outbox_internal.run_periods(w.route_id, w.lane, w.side, '-infinity', 'infinity') p
  WHERE p.run OPERATOR(pg_catalog.<>) $1
    AND outbox_internal.run_endpoint(p.run) OPERATOR(pg_catalog.=) outbox_internal.run_endpoint($1);
END;
COMMENT ON FUNCTION outbox_internal.other_periods(text) IS
  'the periods in which other runs than this one, at its address, acknowledged what any lane has written down';

-- What became of parked events, as far as it still holds.
CREATE OR REPLACE VIEW outbox_internal.latest_outcome AS
  SELECT o.at, o.route_id, o.created_at, o.id, o.replay, o.outcome, o.attempts, o.topic, o.place, o.error_class,
         o.error_code, o.error_message, o.lane, o.order_key, o.xid, o.run, o.acknowledged
  FROM outbox_internal.outcome o
  WHERE o.outcome <> 'lost'
    AND NOT EXISTS (SELECT FROM outbox_internal.outcome n WHERE n.id = o.id AND n.route_id = o.route_id
                    AND n.created_at = o.created_at AND n.replay = o.replay AND n.outcome = 'lost' AND n.at > o.at);
COMMENT ON VIEW outbox_internal.latest_outcome IS 'outbox_internal.outcome without what a destination has lost since';
COMMENT ON COLUMN outbox_internal.latest_outcome.at IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.route_id IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.created_at IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.id IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.replay IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.outcome IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.attempts IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.topic IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.place IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.error_class IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.error_code IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.error_message IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.lane IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.order_key IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.xid IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.run IS 'as in outbox_internal.outcome';
COMMENT ON COLUMN outbox_internal.latest_outcome.acknowledged IS 'as in outbox_internal.outcome';
