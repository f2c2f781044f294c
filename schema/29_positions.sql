-- ---------------------------------------------------------------------------------------------------------------------
-- Positions. The position of a lane is its newest row in outbox_internal.progress, where that is newer than the lane (since), else
-- what outbox_internal.lane has; the position of a side lane likewise, by its number. Whatever asks how far the log has been read
-- (workers, the keeper, status(), a change of the number of lanes) asks here.
--
-- The function is inlined into the statements that call it, which EXPLAIN shows; so it has no SET clause, and every name
-- in it is qualified.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox_internal.newest_progress(route_id bigint, lane integer, side integer, since timestamptz,
    until timestamptz DEFAULT 'infinity')
  RETURNS TABLE (at timestamptz, window_from pg_snapshot, window_to pg_snapshot, done_to timestamptz, run text,
                 run_after timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT g.at, g.window_from, g.window_to, g.done_to, g.run, g.run_after
  FROM outbox_internal.progress g
  WHERE g.route_id OPERATOR(pg_catalog.=) $1 AND g.lane OPERATOR(pg_catalog.=) $2 AND g.side OPERATOR(pg_catalog.=) $3
    AND g.at OPERATOR(pg_catalog.>) $4 AND g.at OPERATOR(pg_catalog.<=) $5
  ORDER BY g.at DESC LIMIT 1;
END;
COMMENT ON FUNCTION outbox_internal.newest_progress(bigint, integer, integer, timestamptz, timestamptz) IS
  'the newest saved position, or that as of `until`, of a lane, or side lane, that was made at `since`: older rows are another one''s of that number';

CREATE OR REPLACE VIEW outbox_internal.lane_position AS
  SELECT l.route_id, l.lane, l.since, p.at AS saved_at,
         CASE WHEN p.at IS NULL THEN l.window_from ELSE p.window_from END AS window_from,
         CASE WHEN p.at IS NULL THEN l.window_to ELSE p.window_to END AS window_to,
         CASE WHEN p.at IS NULL THEN l.done_to ELSE p.done_to END AS done_to,
         l.home,
         p.at IS NULL OR NOT (l.window_from::text, l.window_to::text, l.done_to)
           IS DISTINCT FROM (p.window_from::text, p.window_to::text, p.done_to) AS carried
  FROM outbox_internal.lane l
  LEFT JOIN LATERAL outbox_internal.newest_progress(l.route_id, l.lane, 0, l.since) p ON true;
COMMENT ON VIEW outbox_internal.lane_position IS 'how far each lane has come';
COMMENT ON COLUMN outbox_internal.lane_position.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.lane_position.lane IS 'lane';
COMMENT ON COLUMN outbox_internal.lane_position.since IS 'as in outbox_internal.lane';
COMMENT ON COLUMN outbox_internal.lane_position.saved_at IS 'outbox_internal.progress.at of the position; NULL: it is the one in outbox_internal.lane';
COMMENT ON COLUMN outbox_internal.lane_position.window_from IS 'all events visible in this snapshot are done';
COMMENT ON COLUMN outbox_internal.lane_position.window_to IS 'end of the window that is under way; NULL: none';
COMMENT ON COLUMN outbox_internal.lane_position.done_to IS 'events of that window up to this created_at are done; NULL: none';
COMMENT ON COLUMN outbox_internal.lane_position.home IS 'as in outbox_internal.lane';
COMMENT ON COLUMN outbox_internal.lane_position.carried IS 'outbox_internal.lane has the same: outbox_internal.progress is not needed for it';

CREATE OR REPLACE VIEW outbox_internal.side_lane_position AS
  SELECT s.route_id, s.lane, s.side, s.since, p.at AS saved_at,
         CASE WHEN p.at IS NULL THEN s.window_from ELSE p.window_from END AS window_from,
         CASE WHEN p.at IS NULL THEN s.window_to ELSE p.window_to END AS window_to,
         CASE WHEN p.at IS NULL THEN s.done_to ELSE p.done_to END AS done_to,
         s.topic_template,
         p.at IS NULL OR NOT (s.window_from::text, s.window_to::text, s.done_to)
           IS DISTINCT FROM (p.window_from::text, p.window_to::text, p.done_to) AS carried
  FROM outbox_internal.side_lane s
  LEFT JOIN LATERAL outbox_internal.newest_progress(s.route_id, s.lane, s.side, s.since) p ON true;
COMMENT ON VIEW outbox_internal.side_lane_position IS 'how far each side lane has come';
COMMENT ON COLUMN outbox_internal.side_lane_position.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.side_lane_position.lane IS 'lane that its topics left';
COMMENT ON COLUMN outbox_internal.side_lane_position.side IS 'number, from 1';
COMMENT ON COLUMN outbox_internal.side_lane_position.since IS 'as in outbox_internal.side_lane';
COMMENT ON COLUMN outbox_internal.side_lane_position.saved_at IS 'outbox_internal.progress.at of the position; NULL: it is the one in outbox_internal.side_lane';
COMMENT ON COLUMN outbox_internal.side_lane_position.window_from IS 'all events visible in this snapshot are done';
COMMENT ON COLUMN outbox_internal.side_lane_position.window_to IS 'end of the window that is under way; NULL: none';
COMMENT ON COLUMN outbox_internal.side_lane_position.done_to IS 'events of that window up to this created_at are done; NULL: none';
COMMENT ON COLUMN outbox_internal.side_lane_position.topic_template IS 'as in outbox_internal.side_lane';
COMMENT ON COLUMN outbox_internal.side_lane_position.carried IS 'outbox_internal.side_lane has the same: outbox_internal.progress is not needed for it';

CREATE OR REPLACE VIEW outbox_internal.position AS
  SELECT l.route_id, l.lane, 0 AS side, l.window_from, l.window_to, l.done_to
  FROM outbox_internal.lane_position l
  UNION ALL
  SELECT s.route_id, s.lane, s.side, s.window_from, s.window_to, s.done_to
  FROM outbox_internal.side_lane_position s;
COMMENT ON VIEW outbox_internal.position IS 'how far all lanes and side lanes have come';
COMMENT ON COLUMN outbox_internal.position.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.position.lane IS 'lane';
COMMENT ON COLUMN outbox_internal.position.side IS '0: the lane itself; else its side lane of that number';
COMMENT ON COLUMN outbox_internal.position.window_from IS 'all events visible in this snapshot are done';
COMMENT ON COLUMN outbox_internal.position.window_to IS 'end of the window that is under way; NULL: none';
COMMENT ON COLUMN outbox_internal.position.done_to IS 'events of that window up to this created_at are done; NULL: none';

-- Lanes that may have an owner. Not while all lanes of a route are given back for another number of them
-- (src/log/progress/lane_change.h); and not what a dump brought, whose positions mean nothing here before outbox.adopt().
CREATE OR REPLACE VIEW outbox_internal.claimable_lane AS
  SELECT l.route_id, l.lane, l.owner
  FROM outbox_internal.lane l
  WHERE l.home OPERATOR(pg_catalog.=) outbox_internal.home()
    AND NOT EXISTS (SELECT FROM outbox.route r WHERE r.id OPERATOR(pg_catalog.=) l.route_id
                    AND r.lanes_begun IS NOT NULL AND r.common_snapshot IS NULL);
COMMENT ON VIEW outbox_internal.claimable_lane IS 'lanes that a relay worker may claim: of this server, and not on their way to another number of lanes';
COMMENT ON COLUMN outbox_internal.claimable_lane.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.claimable_lane.lane IS 'lane';
COMMENT ON COLUMN outbox_internal.claimable_lane.owner IS 'as in outbox_internal.lane; one that is not alive owns nothing';

-- Called before what moves the lanes. The caller holds the lanes, so that none saves progress in between.
CREATE OR REPLACE FUNCTION outbox_internal.note_lane_start(route_id bigint, at timestamptz, reason text, start_from pg_snapshot,
    start_to pg_snapshot DEFAULT NULL, start_done_to timestamptz DEFAULT NULL)
  RETURNS void
  LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
  INSERT INTO outbox_internal.lane_start (route_id, at, lane, topic, reason, lanes, start_time, start_from, start_to, start_done_to,
                                 stood_from, stood_to, stood_done_to, fork_from, fork_to, fork_done_to)
  SELECT r.id, $2, p.lane, coalesce(t.topic, ''), $3, r.lanes, r.start_time, $4, $5, $6, p.window_from, p.window_to,
         p.done_to, t.start_from, t.start_to, t.start_done_to
  FROM outbox.route r
  JOIN outbox_internal.position p ON p.route_id OPERATOR(pg_catalog.=) r.id
  LEFT JOIN outbox_internal.side_topic t ON t.route_id OPERATOR(pg_catalog.=) p.route_id AND t.lane OPERATOR(pg_catalog.=) p.lane
    AND t.side OPERATOR(pg_catalog.=) p.side
  WHERE r.id OPERATOR(pg_catalog.=) $1;
END;
COMMENT ON FUNCTION outbox_internal.note_lane_start(bigint, timestamptz, text, pg_snapshot, pg_snapshot, timestamptz) IS
  'notes in outbox_internal.lane_start that all lanes of a route begin at this position, and where each of them is now';
