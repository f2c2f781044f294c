-- ---------------------------------------------------------------------------------------------------------------------
-- What a Redis server has acknowledged, and what of that later runs of it (outbox.server_run) have lost. Asked by
-- src/log/{server_runs,rewind}.cpp. The functions are inlined into the statements that call them, so they have no SET clause,
-- and every name in them is qualified.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox._run_endpoint(run text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pg_catalog.split_part($1, '.', 1);
REVOKE ALL ON FUNCTION outbox._run_endpoint(text) FROM PUBLIC;
COMMENT ON FUNCTION outbox._run_endpoint(text) IS 'what the runs have in common that are lives of the server at one configured address';

-- Meetings later than `after` (and than the one with that run itself) and no later than `upto`.
CREATE OR REPLACE FUNCTION outbox._survived(run text, after bigint, upto bigint)
  RETURNS TABLE (bound bigint[])
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT min(string_to_array(m.survived, '-')::bigint[])
  FROM outbox.server_run m
  WHERE outbox._run_endpoint(m.run) OPERATOR(pg_catalog.=) outbox._run_endpoint($1)
    AND m.number OPERATOR(pg_catalog.>) $2 AND m.number OPERATOR(pg_catalog.<=) $3
    AND m.number OPERATOR(pg_catalog.>)
      coalesce((SELECT h.number FROM outbox.server_run h WHERE h.run OPERATOR(pg_catalog.=) $1), 0);
END;
REVOKE ALL ON FUNCTION outbox._survived(text, bigint, bigint) FROM PUBLIC;
COMMENT ON FUNCTION outbox._survived(text, bigint, bigint) IS
  'the last stream id of which all these meetings have shown that it is there: what the run acknowledged under a later one is lost; NULL: there were none, or they tell nothing';

-- What became of parked events, as far as it still holds.
CREATE OR REPLACE VIEW outbox._outcome AS
  SELECT o.at, o.route_id, o.created_at, o.id, o.replay, o.outcome, o.attempts, o.topic, o.place, o.error_class,
         o.error_code, o.error_message, o.lane, o.order_key, o.xid, o.run, o.acknowledged
  FROM outbox.outcome o
  WHERE o.outcome <> 'lost'
    AND NOT EXISTS (SELECT FROM outbox.outcome n WHERE n.id = o.id AND n.route_id = o.route_id
                    AND n.created_at = o.created_at AND n.replay = o.replay AND n.outcome = 'lost' AND n.at > o.at);
REVOKE ALL ON outbox._outcome FROM PUBLIC;
COMMENT ON VIEW outbox._outcome IS 'outbox.outcome without what a destination has lost since';
COMMENT ON COLUMN outbox._outcome.at IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.route_id IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.created_at IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.id IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.replay IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.outcome IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.attempts IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.topic IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.place IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.error_class IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.error_code IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.error_message IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.lane IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.order_key IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.xid IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.run IS 'as in outbox.outcome';
COMMENT ON COLUMN outbox._outcome.acknowledged IS 'as in outbox.outcome';
