-- ---------------------------------------------------------------------------------------------------------------------
-- What a route was called. outbox.audit and outbox.replay keep the name that a route had then, and a route can be given
-- another one (UPDATE outbox.route SET name), which the audit has. Whoever looks for what a route did by its name asks
-- here: JOIN outbox_internal.route_names(noted_since) n ON n.name = a.route AND a.at BETWEEN n.since AND n.until. (The row of
-- the change itself has the former name.) It reads the audit from `noted_since` on, and is inlined: no SET clause.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox_internal.route_names(noted_since timestamptz)
  RETURNS TABLE (route_id bigint, name text, since timestamptz, until timestamptz)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  WITH RECURSIVE renamed AS MATERIALIZED (
    SELECT a.at, a.route AS was, a.detail OPERATOR(pg_catalog.->) 'changed' OPERATOR(pg_catalog.->) 'name' OPERATOR(pg_catalog.->>) 'to' AS becomes
    FROM outbox.audit a
    WHERE a.at OPERATOR(pg_catalog.>=) $1 AND a.action OPERATOR(pg_catalog.=) 'alter_route'
      AND a.detail OPERATOR(pg_catalog.->) 'changed' OPERATOR(pg_catalog.?) 'name'
  ), named AS (
    SELECT r.id, r.created_at, r.name, 'infinity'::timestamptz AS until,
           (SELECT pg_catalog.max(n.at) FROM renamed n
            WHERE n.becomes OPERATOR(pg_catalog.=) r.name AND n.at OPERATOR(pg_catalog.>=) r.created_at) AS since
    FROM outbox.route r
    UNION ALL
    SELECT d.id, d.created_at, n.was, n.at,
           (SELECT pg_catalog.max(m.at) FROM renamed m
            WHERE m.becomes OPERATOR(pg_catalog.=) n.was AND m.at OPERATOR(pg_catalog.>=) d.created_at
              AND m.at OPERATOR(pg_catalog.<) n.at)
    FROM named d JOIN renamed n ON n.at OPERATOR(pg_catalog.=) d.since AND n.becomes OPERATOR(pg_catalog.=) d.name
  )
  SELECT d.id, d.name, coalesce(d.since, d.created_at), d.until FROM named d;
END;
COMMENT ON FUNCTION outbox_internal.route_names(timestamptz) IS
  'which route had which name when, as far as what was noted since then asks for it';

CREATE OR REPLACE FUNCTION outbox_internal.route_of_name(name text, at timestamptz)
  RETURNS TABLE (route_id bigint)
  LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT n.route_id FROM outbox_internal.route_names($2) n
  WHERE n.name OPERATOR(pg_catalog.=) $1 AND n.since OPERATOR(pg_catalog.<=) $2 AND n.until OPERATOR(pg_catalog.>=) $2
  LIMIT 1;
END;
COMMENT ON FUNCTION outbox_internal.route_of_name(text, timestamptz) IS 'the route that had the name then; none: it was dropped since';
