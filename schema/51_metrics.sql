-- ---------------------------------------------------------------------------------------------------------------------
-- Figures for dashboards, alerts and people. May be run again: an update of the extension does.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox.metrics(OUT name text, OUT labels jsonb, OUT value double precision, OUT kind text, OUT help text)
  RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'outbox_metrics';
GRANT EXECUTE ON FUNCTION outbox.metrics() TO pg_monitor;
COMMENT ON FUNCTION outbox.metrics() IS
  'figures of this database under the names and in the units of Prometheus: counters and histograms (_bucket, _sum, _count) since the reset time, gauges of now. From shared memory, positions and statistics: nothing is counted in the log, and no lock is waited for: what is locked is left out. kind: counter, gauge, histogram, stateset or info';

CREATE OR REPLACE FUNCTION outbox.metrics_text(format text DEFAULT 'openmetrics') RETURNS text
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_metrics_text';
GRANT EXECUTE ON FUNCTION outbox.metrics_text(text) TO pg_monitor;
COMMENT ON FUNCTION outbox.metrics_text(text) IS 'the same as text, for exporters that pass text on: as OpenMetrics, or (format => prometheus) in the older format of Prometheus, which node_exporter reads from files. Its last line has no end, which psql adds';

CREATE OR REPLACE FUNCTION outbox.metrics_reset() RETURNS void
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_metrics_reset';
COMMENT ON FUNCTION outbox.metrics_reset() IS
  'sets counters and histograms of this database to zero, at once and whatever becomes of the transaction; outbox_stats_reset_timestamp_seconds says when. For the owner of the extension, and whom it grants EXECUTE';

CREATE OR REPLACE FUNCTION outbox_internal.latency(
  OUT route text, OUT destination text, OUT period text, OUT events bigint, OUT rate numeric,
  OUT p50 numeric, OUT p95 numeric, OUT p99 numeric, OUT p999 numeric, OUT max numeric,
  OUT ack_p50 numeric, OUT ack_p95 numeric, OUT ack_p99 numeric, OUT ack_p999 numeric, OUT ack_max numeric
) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_latency';
GRANT EXECUTE ON FUNCTION outbox_internal.latency() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.latency() IS 'behind the view outbox.latency';

CREATE OR REPLACE VIEW outbox.latency AS
  SELECT l.route, l.destination, l.period, l.events, l.rate, l.p50, l.p95, l.p99, l.p999, l.max,
         l.ack_p50, l.ack_p95, l.ack_p99, l.ack_p999, l.ack_max
  FROM outbox_internal.latency() l;
GRANT SELECT ON outbox.latency TO pg_monitor;
COMMENT ON VIEW outbox.latency IS 'how long events took, by route and destination, over the last minute and hour; milliseconds. Estimated from buckets: exact up to the width of one (0.25 ms up to 1 ms, a quarter to a half of the value up to 5 ms, at most two and a half times it above), max is exact';
COMMENT ON COLUMN outbox.latency.route IS 'route; other: routes without figures of their own, see outbox.max_series';
COMMENT ON COLUMN outbox.latency.destination IS 'foreign server';
COMMENT ON COLUMN outbox.latency.period IS 'minute: the last 60 to 70 seconds; hour: the last 60 to 65 minutes';
COMMENT ON COLUMN outbox.latency.events IS 'acknowledged in that time';
COMMENT ON COLUMN outbox.latency.rate IS 'events per second';
COMMENT ON COLUMN outbox.latency.p50 IS 'half of them took no longer, from commit to acknowledgement; NULL: there was none. What was emitted before the route was there, or before seek() moved it, counts in events, and not here';
COMMENT ON COLUMN outbox.latency.p95 IS '95 % took no longer';
COMMENT ON COLUMN outbox.latency.p99 IS '99 %';
COMMENT ON COLUMN outbox.latency.p999 IS '99.9 %';
COMMENT ON COLUMN outbox.latency.max IS 'the slowest';
COMMENT ON COLUMN outbox.latency.ack_p50 IS 'the same from submission to acknowledgement: the part of the destination';
COMMENT ON COLUMN outbox.latency.ack_p95 IS '95 %';
COMMENT ON COLUMN outbox.latency.ack_p99 IS '99 %';
COMMENT ON COLUMN outbox.latency.ack_p999 IS '99.9 %';
COMMENT ON COLUMN outbox.latency.ack_max IS 'the slowest';

CREATE OR REPLACE FUNCTION outbox.doctor_ok() RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_doctor_ok';
GRANT EXECUTE ON FUNCTION outbox.doctor_ok() TO pg_monitor;
COMMENT ON FUNCTION outbox.doctor_ok() IS 'true when doctor() finds nothing but ok: a gate for deployments';
