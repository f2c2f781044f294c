-- ---------------------------------------------------------------------------------------------------------------------
-- The one rule of keys. On a route, a key (order_key: resolved topic, aggregate type and id) is held by its parked rows that
-- wait (outbox_internal.waiting) and, under on_failure => block, by its dead ones (outbox_internal.key_dead). They go in the order
-- (created_at, replay, id); replay and id decide between the copies that replays made of one event, and between events of
-- two sources whose clocks agreed. The first is the head (outbox_internal.key_head), and nothing of the key passes it; all of them
-- are outbox_internal.holding. A paused key (outbox_internal.key_pause) stays as it is.
--
-- Lanes, the functions for operators, status() and blocked_key all ask here. Each SELECT is in the words of the index by
-- which it goes, however many rows a key has. The functions are inlined into the statements that call them, which
-- EXPLAIN shows; so they have no SET clause, and every name in them is qualified.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW outbox_internal.waiting AS
  SELECT p.route_id, p.order_key, p.created_at, p.replay, p.id, p.state, p.due_at, p.lane, p.aggregate_type, p.aggregate_id,
         p.attempts, p.error_class, p.error_code, p.error_message
  FROM outbox_internal.parked p
  WHERE p.order_key IS NOT NULL AND p.state IN ('retrying', 'blocked');
GRANT SELECT ON outbox_internal.waiting TO pg_monitor;
COMMENT ON VIEW outbox_internal.waiting IS 'parked events that wait for their turn in their key; see outbox_internal.key_head()';
COMMENT ON COLUMN outbox_internal.waiting.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.waiting.order_key IS 'key: resolved topic, aggregate type and id, as a hash';
COMMENT ON COLUMN outbox_internal.waiting.created_at IS 'of the event';
COMMENT ON COLUMN outbox_internal.waiting.replay IS '0: the event itself; else the number of the replay';
COMMENT ON COLUMN outbox_internal.waiting.id IS 'of the event';
COMMENT ON COLUMN outbox_internal.waiting.state IS 'retrying or blocked';
COMMENT ON COLUMN outbox_internal.waiting.due_at IS 'when it is tried next; NULL: when what it waits behind has gone';
COMMENT ON COLUMN outbox_internal.waiting.lane IS 'lane that owns it';
COMMENT ON COLUMN outbox_internal.waiting.aggregate_type IS 'of the event';
COMMENT ON COLUMN outbox_internal.waiting.aggregate_id IS 'of the event';
COMMENT ON COLUMN outbox_internal.waiting.attempts IS 'how often it was refused';
COMMENT ON COLUMN outbox_internal.waiting.error_class IS 'of its last failure';
COMMENT ON COLUMN outbox_internal.waiting.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox_internal.waiting.error_message IS 'for people';

CREATE OR REPLACE FUNCTION outbox_internal.key_dead(route_id bigint, order_key bigint, block boolean,
    from_created_at timestamptz DEFAULT '-infinity', from_replay bigint DEFAULT 0,
    from_id uuid DEFAULT '00000000-0000-0000-0000-000000000000')
  RETURNS TABLE (created_at timestamptz, replay bigint, id uuid, state text, due_at timestamptz, aggregate_type text,
                 aggregate_id text, attempts integer, error_class text, error_code text, error_message text)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT d.created_at, d.replay, d.id, d.state, d.due_at, d.aggregate_type, d.aggregate_id, d.attempts, d.error_class,
         d.error_code, d.error_message
  FROM outbox_internal.parked d
  WHERE $3 AND d.route_id OPERATOR(pg_catalog.=) $1 AND d.order_key OPERATOR(pg_catalog.=) $2
    AND d.state OPERATOR(pg_catalog.=) 'dead'
    AND ROW(d.created_at, d.replay, d.id) OPERATOR(pg_catalog.>=) ROW($4, $5, $6)
  ORDER BY d.created_at, d.replay, d.id LIMIT 1;
END;
GRANT EXECUTE ON FUNCTION outbox_internal.key_dead(bigint, bigint, boolean, timestamptz, bigint, uuid) TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.key_dead(bigint, bigint, boolean, timestamptz, bigint, uuid) IS
  'the first dead letter that holds the key; none where the route does not block (on_failure); from a place: the first at or behind that';

CREATE OR REPLACE FUNCTION outbox_internal.key_head(route_id bigint, order_key bigint, block boolean,
    before_created_at timestamptz DEFAULT 'infinity', before_replay bigint DEFAULT 0,
    before_id uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    from_created_at timestamptz DEFAULT '-infinity', from_replay bigint DEFAULT 0,
    from_id uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    dead_from_created_at timestamptz DEFAULT '-infinity', dead_from_replay bigint DEFAULT 0,
    dead_from_id uuid DEFAULT '00000000-0000-0000-0000-000000000000')
  RETURNS TABLE (created_at timestamptz, replay bigint, id uuid, state text, due_at timestamptz, aggregate_type text,
                 aggregate_id text, attempts integer, error_class text, error_code text, error_message text)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT h.created_at, h.replay, h.id, h.state, h.due_at, h.aggregate_type, h.aggregate_id, h.attempts, h.error_class,
         h.error_code, h.error_message
  FROM ((SELECT w.created_at, w.replay, w.id, w.state, w.due_at, w.aggregate_type, w.aggregate_id, w.attempts,
                w.error_class, w.error_code, w.error_message
         FROM outbox_internal.waiting w
         WHERE w.route_id OPERATOR(pg_catalog.=) $1 AND w.order_key OPERATOR(pg_catalog.=) $2
           AND ROW(w.created_at, w.replay, w.id) OPERATOR(pg_catalog.<) ROW($4, $5, $6)
           AND ROW(w.created_at, w.replay, w.id) OPERATOR(pg_catalog.>=) ROW($7, $8, $9)
         ORDER BY w.created_at, w.replay, w.id LIMIT 1)
        UNION ALL
        (SELECT d.created_at, d.replay, d.id, d.state, d.due_at, d.aggregate_type, d.aggregate_id, d.attempts,
                d.error_class, d.error_code, d.error_message
         FROM outbox_internal.key_dead($1, $2, $3, $10, $11, $12) d
         WHERE ROW(d.created_at, d.replay, d.id) OPERATOR(pg_catalog.<) ROW($4, $5, $6))) h
  ORDER BY h.created_at, h.replay, h.id LIMIT 1;
END;
GRANT EXECUTE ON FUNCTION outbox_internal.key_head(bigint, bigint, boolean, timestamptz, bigint, uuid, timestamptz, bigint, uuid, timestamptz, bigint, uuid) TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.key_head(bigint, bigint, boolean, timestamptz, bigint, uuid, timestamptz, bigint, uuid, timestamptz, bigint, uuid) IS
  'the row of outbox_internal.parked that goes first of a key; before a place: the first that goes before that; from places: of what waits, and of dead letters, the first at or behind those';

CREATE OR REPLACE VIEW outbox_internal.holding AS
  SELECT w.route_id, w.order_key, w.created_at, w.replay, w.id, w.state, w.due_at
  FROM outbox_internal.waiting w
  UNION ALL
  SELECT d.route_id, d.order_key, d.created_at, d.replay, d.id, d.state, d.due_at
  FROM outbox_internal.parked d
  JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) d.route_id
  WHERE d.state OPERATOR(pg_catalog.=) 'dead' AND d.order_key IS NOT NULL AND r.on_failure OPERATOR(pg_catalog.=) 'block';
COMMENT ON VIEW outbox_internal.holding IS 'all parked events that hold their key: those that wait, and dead letters of routes that block (on_failure)';
COMMENT ON COLUMN outbox_internal.holding.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.holding.order_key IS 'key: resolved topic, aggregate type and id, as a hash';
COMMENT ON COLUMN outbox_internal.holding.created_at IS 'of the event';
COMMENT ON COLUMN outbox_internal.holding.replay IS '0: the event itself; else the number of the replay';
COMMENT ON COLUMN outbox_internal.holding.id IS 'of the event';
COMMENT ON COLUMN outbox_internal.holding.state IS 'retrying, blocked or dead';
COMMENT ON COLUMN outbox_internal.holding.due_at IS 'when it is tried next; NULL: when what it waits behind has gone, or somebody says so';

CREATE OR REPLACE FUNCTION outbox_internal.key_pause(route_id bigint, aggregate_type text, aggregate_id text)
  RETURNS TABLE (reason text)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT z.reason FROM outbox.pause z
  WHERE coalesce(z.route_id, 0) OPERATOR(pg_catalog.=) $1
    AND coalesce(z.server, ''::pg_catalog.name) OPERATOR(pg_catalog.=) ''::pg_catalog.name
    AND coalesce(z.topic, '') OPERATOR(pg_catalog.=) '' AND coalesce(z.aggregate_type, '') OPERATOR(pg_catalog.=) $2
    AND coalesce(z.aggregate_id, '') OPERATOR(pg_catalog.=) $3;
END;
GRANT EXECUTE ON FUNCTION outbox_internal.key_pause(bigint, text, text) TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.key_pause(bigint, text, text) IS 'why the key is paused; no row: it is not';

CREATE OR REPLACE VIEW outbox.blocked_key AS
  SELECT r.name AS route, b.topic, b.aggregate_type, b.aggregate_id, b.waiting, b.oldest, h.id AS behind,
         CASE WHEN h.state OPERATOR(pg_catalog.=) 'retrying' AND h.failed_at IS NULL AND h.due_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
              THEN 'due' ELSE h.state END AS behind_state, h.attempts, h.error_class, h.error_code, h.error_message, h.due_at AS next_try,
         z.reason AS paused, h.locked_by
  FROM (SELECT p.route_id, p.order_key, p.topic, p.aggregate_type, p.aggregate_id, pg_catalog.count(*) AS waiting,
               pg_catalog.min(p.created_at) AS oldest
        FROM outbox_internal.parked p WHERE p.state OPERATOR(pg_catalog.=) 'blocked'
        GROUP BY p.route_id, p.order_key, p.topic, p.aggregate_type, p.aggregate_id) b
  JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) b.route_id
  -- A head that is blocked itself is about to be let go, or its key is paused: what waits behind nothing, unless a
  -- session has it locked.
  LEFT JOIN LATERAL (
    SELECT k.*, p.failed_at, l.pid AS locked_by
    FROM outbox_internal.key_head(b.route_id, b.order_key, r.on_failure OPERATOR(pg_catalog.=) 'block') k
    JOIN outbox_internal.parked p ON p.route_id OPERATOR(pg_catalog.=) b.route_id
      AND p.created_at OPERATOR(pg_catalog.=) k.created_at AND p.id OPERATOR(pg_catalog.=) k.id
      AND p.replay OPERATOR(pg_catalog.=) k.replay
    -- Not a worker of ours, which is about to let it go. (As in src/admin/lookup/row_holder.cpp. What kind of process it is, pg_stat_activity
    -- tells only who may read all of that, and operators need not.)
    LEFT JOIN pg_catalog.pg_locks l
      ON l.locktype OPERATOR(pg_catalog.=) 'transactionid' AND l.granted
      AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock' AND l.transactionid OPERATOR(pg_catalog.=) p.xmax
      AND NOT EXISTS (SELECT FROM outbox_internal.worker() w WHERE w.pid OPERATOR(pg_catalog.=) l.pid)) h
    ON h.state OPERATOR(pg_catalog.<>) 'blocked' OR h.locked_by IS NOT NULL
  LEFT JOIN LATERAL outbox_internal.key_pause(b.route_id, b.aggregate_type, b.aggregate_id) z ON true;
GRANT SELECT ON outbox.blocked_key TO pg_monitor;
COMMENT ON VIEW outbox.blocked_key IS 'keys whose events wait, what they wait behind, and why';
COMMENT ON COLUMN outbox.blocked_key.route IS 'route';
COMMENT ON COLUMN outbox.blocked_key.topic IS 'resolved topic';
COMMENT ON COLUMN outbox.blocked_key.aggregate_type IS 'of the key';
COMMENT ON COLUMN outbox.blocked_key.aggregate_id IS 'of the key';
COMMENT ON COLUMN outbox.blocked_key.waiting IS 'how many events wait';
COMMENT ON COLUMN outbox.blocked_key.oldest IS 'created_at of the first of them';
COMMENT ON COLUMN outbox.blocked_key.behind IS 'id of the event that they wait behind; retry() or skip() it';
COMMENT ON COLUMN outbox.blocked_key.behind_state IS 'retrying, or dead on a route with on_failure => block; due: nobody has refused it, it goes next; or what it is while a session has it locked';
COMMENT ON COLUMN outbox.blocked_key.attempts IS 'how often that event was refused';
COMMENT ON COLUMN outbox.blocked_key.error_class IS 'of its last failure';
COMMENT ON COLUMN outbox.blocked_key.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.blocked_key.error_message IS 'for people';
COMMENT ON COLUMN outbox.blocked_key.next_try IS 'when it is tried again; NULL: when somebody says so';
COMMENT ON COLUMN outbox.blocked_key.paused IS 'why the key is paused; NULL: it is not';
COMMENT ON COLUMN outbox.blocked_key.locked_by IS 'process id of the session that has that event locked: it goes when that transaction has ended';
