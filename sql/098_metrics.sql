-- outbox.metrics(), metrics_text(), latency, metrics_reset(), doctor_ok(): what they say, what they count, and to whom.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE FUNCTION pg_temp.figure(text, jsonb DEFAULT '{}') RETURNS bigint LANGUAGE sql AS $$
  SELECT coalesce(sum(m.value), 0)::bigint FROM outbox.metrics() m WHERE m.name = $1 AND m.labels @> $2 $$;
-- what emit() says first waits until what it needs is there
SELECT outbox.emit('metrics', 'k', 'e.happened', '{}') IS NOT NULL AS emitted;

-- counted at commit: by one call, by many, in savepoints that are kept and rolled back at any depth
CREATE TABLE pg_temp.before AS SELECT pg_temp.figure('outbox_events_emitted_total') AS events,
  pg_temp.figure('outbox_emitted_bytes_total') AS bytes, pg_temp.figure('outbox_emitting_transactions_total') AS transactions;
CREATE FUNCTION pg_temp.since(OUT transactions bigint, OUT events bigint, OUT bytes bigint) LANGUAGE sql AS $$
  SELECT pg_temp.figure('outbox_emitting_transactions_total') - b.transactions,
    pg_temp.figure('outbox_events_emitted_total') - b.events, pg_temp.figure('outbox_emitted_bytes_total') - b.bytes FROM pg_temp.before b $$;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', '1234567890') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.since();
BEGIN;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', '1234567890') IS NOT NULL AS emitted;
SELECT outbox.emit_tombstone('metrics', 'k', 'e.happened') IS NOT NULL AS emitted;
SELECT * FROM pg_temp.since();  -- not yet
COMMIT;
SELECT * FROM pg_temp.since();
BEGIN;
SELECT outbox.emit('metrics', 'k', 'e.happened', '{}') IS NOT NULL AS emitted;
ROLLBACK;
SELECT * FROM pg_temp.since();
BEGIN;
SAVEPOINT a;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', 'a') IS NOT NULL AS emitted;     -- kept
SAVEPOINT b;
SAVEPOINT c;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', 'cccc') IS NOT NULL AS emitted;  -- goes with b
RELEASE c;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', 'bb') IS NOT NULL AS emitted;    -- goes with b
ROLLBACK TO b;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', 'b') IS NOT NULL AS emitted;     -- kept
RELEASE b;
SAVEPOINT d;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', 'dddddddd') IS NOT NULL AS emitted;
ROLLBACK TO d;
RELEASE a;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', 'e') IS NOT NULL AS emitted;     -- kept
COMMIT;
SELECT * FROM pg_temp.since();
DO $$
BEGIN
  FOR i IN 1 .. 40 LOOP  -- every second one is rolled back
    BEGIN
      PERFORM outbox.emit_text('metrics', 'k', 'e.happened', 'x');
      IF i % 2 = 0 THEN RAISE division_by_zero; END IF;
    EXCEPTION WHEN division_by_zero THEN NULL;
    END;
  END LOOP;
END $$;
SELECT * FROM pg_temp.since();
SELECT cardinality(outbox.emit_many('metrics', ARRAY['a', 'b', 'c'], 'e.happened', ARRAY['{}', '{}', '{}']::jsonb[])) AS emitted;
SELECT transactions, events FROM pg_temp.since();

-- published, and how long it took; no key and no id in any label
CREATE SERVER regress_metrics FOREIGN DATA WRAPPER outbox_log;
SELECT outbox.create_route(E'regress "metrics" \\ 1', 'regress_metrics', '{metrics}') > 0 AS made;
SELECT outbox.emit_text('metrics', 'a key of a person', 'e.happened', '1234567890') AS id \gset
SELECT outbox.wait_for(:'id', '60 s');
SELECT pg_temp.figure('outbox_events_published_total', '{"destination": "regress_metrics"}') AS published,
  pg_temp.figure('outbox_published_bytes_total', '{"destination": "regress_metrics"}') AS bytes,
  pg_temp.figure('outbox_commit_to_ack_seconds_count', '{"destination": "regress_metrics"}') AS measured,
  pg_temp.figure('outbox_destination_ack_seconds_count', '{"destination": "regress_metrics"}') AS acknowledged,
  pg_temp.figure('outbox_publish_attempts_total', '{"destination": "regress_metrics"}') AS attempts;
SELECT count(*) AS buckets, count(DISTINCT labels ->> 'le') AS bounds, max(value) AS largest,
  array_agg(value ORDER BY (labels ->> 'le')::float8) = array_agg(value ORDER BY value) AS cumulative
FROM outbox.metrics() WHERE name = 'outbox_commit_to_ack_seconds_bucket' AND labels ->> 'destination' = 'regress_metrics';
SELECT count(*) AS named FROM outbox.metrics() WHERE labels::text LIKE '%a key of a person%' OR labels::text LIKE '%' || :'id' || '%';
SELECT labels FROM outbox.metrics() WHERE name = 'outbox_events_published_total' AND labels ->> 'destination' = 'regress_metrics';
SELECT route, destination, period, events, rate > 0 AS rated, p50 > 0 AND p50 <= p95 AND p95 <= p99 AND p99 <= p999 AND p999 <= max AS in_order,
  ack_max > 0 AND ack_max <= max AS ack_in_order
FROM outbox.latency WHERE destination = 'regress_metrics' ORDER BY period;

-- what there is, whatever has happened; state sets have one state; a name has one kind and one help
SELECT DISTINCT name, kind FROM outbox.metrics() WHERE name !~ '(_bucket|_sum|_count)$' AND name <> 'outbox_publish_failures_total' ORDER BY 1;
SELECT count(*) FROM (SELECT name FROM outbox.metrics() GROUP BY name HAVING count(DISTINCT kind) > 1 OR count(DISTINCT help) > 1) x;
SELECT labels ->> 'destination' AS destination, sum(value) FROM outbox.metrics() WHERE kind = 'stateset'
  AND labels ->> 'destination' = 'regress_metrics' GROUP BY 1;
SELECT count(*) AS twice FROM (SELECT FROM outbox.metrics() GROUP BY name, labels HAVING count(*) > 1) x;
SELECT pg_temp.figure('outbox_inflight_events', '{"destination": "regress_metrics"}') AS inflight,
  pg_temp.figure('outbox_pending_events', '{"destination": "regress_metrics"}') AS pending,
  pg_temp.figure('outbox_oldest_pending_age_seconds', '{"destination": "regress_metrics"}') AS age,
  pg_temp.figure('outbox_days_ahead') >= 1 AS days_ahead, pg_temp.figure('outbox_storage_bytes', '{"part": "log"}') > 0 AS stored;
-- the log by days: each day table has its own sample, the spare table one, and together they are the log
WITH m AS (SELECT * FROM outbox.metrics()), d AS (SELECT labels ->> 'day' AS day, value FROM m WHERE name = 'outbox_log_day_bytes')
SELECT count(*) FILTER (WHERE day ~ '^\d{4}-\d\d-\d\d$') = (SELECT count(*) FROM outbox.day WHERE day IS NOT NULL) AS each_day,
  count(*) FILTER (WHERE day = 'spare') AS spare, count(*) FILTER (WHERE day = to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') AND value > 0) AS today,
  sum(value) = (SELECT value FROM m WHERE name = 'outbox_storage_bytes' AND labels = '{"part": "log"}') AS all_of_it
FROM d;

-- as text: each family once, all its lines together, and an end
CREATE TABLE pg_temp.lines AS SELECT n, line FROM regexp_split_to_table(outbox.metrics_text(), E'\n') WITH ORDINALITY t (line, n);
SELECT line FROM pg_temp.lines WHERE line LIKE '%outbox_events_published%' AND (line LIKE '#%' OR line LIKE '%regress_metrics%') ORDER BY n;
SELECT line FROM pg_temp.lines WHERE line LIKE '# %outbox_commit_to_ack_seconds%' ORDER BY n;
SELECT count(*) AS ends, max(n) = (SELECT max(n) FROM pg_temp.lines) AS last FROM pg_temp.lines WHERE line = '# EOF';
SELECT count(*) AS lines_of_another_form FROM pg_temp.lines WHERE line <> '' AND line !~ '^# (TYPE|HELP|UNIT) outbox[a-z_]* |^# EOF$'
  AND line !~ '^outbox[a-z_]*(\{([a-z_]+="([^"\\]|\\["\\n])*",?)+\})? -?[0-9.e+-]+$';

-- the older format: no EOF, no unit, no kind that it does not know, no empty line at the end
SELECT DISTINCT split_part(line, ' ', 4) AS kind FROM regexp_split_to_table(outbox.metrics_text('prometheus'), E'\\n') line WHERE line LIKE '# TYPE%' ORDER BY 1;
SELECT count(*) FROM regexp_split_to_table(outbox.metrics_text('prometheus'), E'\\n') line WHERE line ~ '^# (EOF|UNIT)|^$';
SELECT line FROM regexp_split_to_table(outbox.metrics_text('prometheus'), E'\\n') line WHERE line LIKE '# TYPE outbox_events_published%';
SELECT outbox.metrics_text('json');
SELECT outbox.metrics_text(NULL);

-- labels are jsonb like any other
SELECT count(*) > 50 AS some, bool_and(labels = labels::text::jsonb) AS same, bool_and(labels = (SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(labels) e)) AS whole
FROM outbox.metrics();

-- SQL of another version that declares other columns
CREATE FUNCTION pg_temp.less(OUT name text, OUT labels jsonb) RETURNS SETOF record LANGUAGE c AS 'outbox', 'outbox_metrics';
CREATE FUNCTION pg_temp.more(OUT a text, OUT b text, OUT c text, OUT d text, OUT e text, OUT f text, OUT g text, OUT h text, OUT i text, OUT j text,
  OUT k text, OUT l text, OUT m text, OUT n text, OUT o text, OUT p text, OUT q text) RETURNS SETOF record LANGUAGE c AS 'outbox', 'outbox_latency';
SELECT count(*) FROM pg_temp.less();
SELECT count(*) FROM pg_temp.more();

-- pg_monitor may look and not reset; nobody else may do either
CREATE ROLE regress_metrics_monitor IN ROLE pg_monitor;
CREATE ROLE regress_metrics_nobody;
GRANT USAGE ON SCHEMA outbox TO regress_metrics_nobody;
SET ROLE regress_metrics_monitor;
SELECT count(*) > 0 AS looks FROM outbox.metrics();
SELECT outbox.metrics_text() LIKE '%# EOF%' AS looks;
SELECT count(*) > 0 AS looks FROM outbox.latency;
SELECT outbox.doctor_ok() = NOT EXISTS (SELECT FROM outbox.doctor() WHERE status <> 'ok') AS agrees;
SELECT outbox.metrics_reset();
SET ROLE regress_metrics_nobody;
SELECT count(*) FROM outbox.metrics();
SELECT outbox.metrics_text();
SELECT count(*) FROM outbox.latency;
SELECT outbox.doctor_ok();
SELECT outbox.metrics_reset();
RESET ROLE;

-- all of this database is set to zero, and says since when; then it counts on
SELECT value AS was FROM outbox.metrics() WHERE name = 'outbox_stats_reset_timestamp_seconds' \gset
SELECT outbox.metrics_reset();
SELECT value > :was AS later, value <= extract(epoch FROM clock_timestamp()) AS not_to_come
FROM outbox.metrics() WHERE name = 'outbox_stats_reset_timestamp_seconds';
SELECT pg_temp.figure('outbox_events_emitted_total') AS emitted, pg_temp.figure('outbox_events_published_total') AS published,
  pg_temp.figure('outbox_commit_to_ack_seconds_count') AS measured, (SELECT sum(events) FROM outbox.latency) AS lately;
SELECT outbox.emit_text('metrics', 'k', 'e.happened', '12345') AS id \gset
SELECT outbox.wait_for(:'id', '60 s');
SELECT pg_temp.figure('outbox_events_emitted_total') AS emitted, pg_temp.figure('outbox_emitted_bytes_total') AS bytes,
  pg_temp.figure('outbox_events_published_total', '{"destination": "regress_metrics"}') AS published;

-- what is parked, by the state in which, and what is there of it
SELECT outbox.create_route('regress metrics 2', 'regress_metrics', '{metrics2}') > 0 AS made;
SELECT outbox.emit('metrics2', 'k', 'e.happened', '{}', deliver_at => now() + interval '1 day') IS NOT NULL AS emitted;
SELECT outbox.wait_until_idle('60 s');
SELECT pg_temp.figure('outbox_events_parked_total', '{"route": "regress metrics 2", "state": "scheduled"}') AS parked,
  pg_temp.figure('outbox_parked_events', '{"route": "regress metrics 2", "state": "scheduled"}') AS scheduled,
  pg_temp.figure('outbox_events_published_total', '{"route": "regress metrics 2"}') AS published;

-- and why: by the class of the last error, where there is one
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, aggregate_type, event_type, topic, error_class)
  SELECT r.id, 0, now() - n * interval '1 s', gen_random_uuid(), 'dead', 'metrics2', 'e.happened', 't', CASE WHEN n <= 2 THEN 'message' ELSE 'solo-retry' END
  FROM outbox.route r, generate_series(1, 3) n WHERE r.name = 'regress metrics 2';
SELECT m.labels ->> 'state' AS state, m.labels ->> 'error_class' AS error_class, m.value FROM outbox.metrics() m
WHERE m.name = 'outbox_parked_events' AND m.labels ->> 'route' = 'regress metrics 2' ORDER BY 1, 2;
SELECT m.labels - 'route' - 'destination' AS labels, m.value FROM outbox.metrics() m
WHERE m.name = 'outbox_parked_events' AND m.labels ->> 'route' LIKE '%metrics%1' ORDER BY 1;

-- gone with its route
SET outbox.allow_loss = on;
SET client_min_messages = error;
SELECT outbox.drop_route('regress metrics 2');
SELECT outbox.drop_route(E'regress "metrics" \\ 1');
RESET client_min_messages;
RESET outbox.allow_loss;
SELECT count(*) FROM outbox.metrics() WHERE labels ->> 'route' LIKE 'regress%metrics%';
DROP SERVER regress_metrics;
REVOKE USAGE ON SCHEMA outbox FROM regress_metrics_nobody;
DROP ROLE regress_metrics_monitor, regress_metrics_nobody;
