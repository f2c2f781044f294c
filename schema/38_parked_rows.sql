-- ---------------------------------------------------------------------------------------------------------------------
-- What the functions for operators ask outbox_internal.parked by, as relations. All are inlined into the statements that call them;
-- so they have no SET clause, and every name in them is qualified.
-- ---------------------------------------------------------------------------------------------------------------------

-- Times are Unix microseconds: exact, and the same text under every TimeZone and DateStyle.
CREATE OR REPLACE FUNCTION outbox_internal.parked_keys(route_ids bigint[], created_at bigint[], ids uuid[], replays bigint[])
  RETURNS TABLE (route_id bigint, created_at timestamptz, id uuid, replay bigint)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT u.route_id, timestamptz 'epoch' OPERATOR(pg_catalog.+) (u.micros OPERATOR(pg_catalog.*) interval '1 microsecond'),
         u.id, u.replay
  FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2), pg_catalog.unnest($3), pg_catalog.unnest($4))
    AS u (route_id, micros, id, replay);
END;
COMMENT ON FUNCTION outbox_internal.parked_keys(bigint[], bigint[], uuid[], bigint[]) IS
  'primary keys of outbox_internal.parked, from a column each; created_at in Unix microseconds';

CREATE OR REPLACE FUNCTION outbox_internal.placed_rows(route_ids bigint[], created_at bigint[], ids uuid[], replays bigint[],
    topics text[], order_keys bigint[], lanes integer[])
  RETURNS TABLE (route_id bigint, created_at timestamptz, id uuid, replay bigint, topic text, order_key bigint, lane integer)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT u.route_id, timestamptz 'epoch' OPERATOR(pg_catalog.+) (u.micros OPERATOR(pg_catalog.*) interval '1 microsecond'),
         u.id, u.replay, u.topic, u.order_key, u.lane
  FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2), pg_catalog.unnest($3), pg_catalog.unnest($4),
                  pg_catalog.unnest($5), pg_catalog.unnest($6), pg_catalog.unnest($7))
    AS u (route_id, micros, id, replay, topic, order_key, lane);
END;
COMMENT ON FUNCTION outbox_internal.placed_rows(bigint[], bigint[], uuid[], bigint[], text[], bigint[], integer[]) IS
  'rows of outbox_internal.parked with what their lane knows them by, from a column each; created_at in Unix microseconds';

-- A filter that is NULL takes everything; topic, aggregate_type, event_type and error are patterns of LIKE.
CREATE OR REPLACE FUNCTION outbox_internal.dead_letters(route text, topic text, aggregate_type text, aggregate_id text, event_type text,
    since timestamptz, until timestamptz, error text, failed_to timestamptz)
  RETURNS TABLE (route_id bigint, route text, created_at timestamptz, id uuid, replay bigint, topic text, error_class text,
                 error_code text)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT p.route_id, r.name, p.created_at, p.id, p.replay, p.topic, p.error_class, p.error_code
  FROM outbox_internal.parked p
  JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) p.route_id
  WHERE p.state OPERATOR(pg_catalog.=) 'dead'
    AND ($1 IS NULL OR r.name OPERATOR(pg_catalog.=) $1)
    AND ($2 IS NULL OR p.topic OPERATOR(pg_catalog.~~) $2)
    AND ($3 IS NULL OR p.aggregate_type OPERATOR(pg_catalog.~~) $3)
    AND ($4 IS NULL OR p.aggregate_id OPERATOR(pg_catalog.=) $4)
    AND ($5 IS NULL OR p.event_type OPERATOR(pg_catalog.~~) $5)
    AND ($6 IS NULL OR coalesce(p.failed_at, p.parked_at) OPERATOR(pg_catalog.>=) $6)
    AND ($7 IS NULL OR coalesce(p.failed_at, p.parked_at) OPERATOR(pg_catalog.<) $7)
    AND ($8 IS NULL OR p.error_class OPERATOR(pg_catalog.~~) $8 OR p.error_code OPERATOR(pg_catalog.~~) $8
         OR p.error_message OPERATOR(pg_catalog.~~) $8)
    AND coalesce(p.failed_at, p.parked_at) OPERATOR(pg_catalog.<=) $9;
END;
COMMENT ON FUNCTION outbox_internal.dead_letters(text, text, text, text, text, timestamptz, timestamptz, text, timestamptz) IS
  'dead letters that match the filters of redrive() and discard_dead_letters(), and had failed by failed_to';
