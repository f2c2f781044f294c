-- emit(): what is called, what is found, what is stored.
\pset null '(null)'
-- What the current transaction has put into the log, without what differs from run to run.
CREATE VIEW stored AS
  SELECT l.aggregate_type, l.aggregate_id, l.event_type, convert_from(l.payload, 'UTF8') AS payload, l.content_type,
         l.headers, l.topic
  FROM outbox_internal.log l WHERE l.xid = pg_current_xact_id_if_assigned() ORDER BY l.created_at;

-- Untyped arguments go to emit(text, text, text, jsonb), whatever the key looks like.
BEGIN;
SELECT pg_typeof(outbox.emit('order', '42', 'order.created', '{"total":   129.97, "b": [1, null, "ü"]}'));
SELECT outbox.emit('order', 42, 'order.created', '{"total": 1}') IS NOT NULL AS bigint_key;
SELECT outbox.emit('order', 42::smallint, 'order.created', '{"total": 2}') IS NOT NULL AS smallint_key;
SELECT outbox.emit('order', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'order.created', '{"total": 3}') IS NOT NULL AS uuid_key;
SELECT outbox.emit('order', NULL, 'order.created', '{"total": 4}') IS NOT NULL AS no_key;
SELECT outbox.emit('order', -9223372036854775808, 'order.created', '{"total": 5}') IS NOT NULL AS lowest_key;
SELECT outbox.emit('order', 42, 'order.created', '{"total": 6}', '{"source": "shop", "tenant": "a"}', 'my.topic') IS NOT NULL AS all_arguments;
SELECT outbox.emit(topic => 'my.topic', payload => '{"total": 7}', event_type => 'order.created', aggregate_id => 42, aggregate_type => 'order') IS NOT NULL AS named;
SELECT * FROM stored;
ROLLBACK;

-- A prepared statement learns text and jsonb.
PREPARE untyped AS SELECT outbox.emit($1, $2, $3, $4);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
BEGIN;
EXECUTE untyped('a', 'b', 'c', '{"n": 1}') \gset
DO $$ BEGIN FOR i IN 1..8 LOOP PERFORM outbox.emit('loop', i, 'loop.turned', jsonb_build_object('i', i)); END LOOP; END $$;
SELECT aggregate_type, aggregate_id, payload FROM stored;
ROLLBACK;
DEALLOCATE untyped;

-- Typed strings and json reach the twin; those are published byte for byte.
BEGIN;
SELECT outbox.emit('order'::varchar, '42'::varchar, 'order.created'::varchar, '{"total":   1}'::varchar) IS NOT NULL AS varchar;
SELECT outbox.emit('order'::text, '42'::text, 'order.created'::text, '{"total":   2}'::text, '{"a": "b"}'::text, 'my.topic'::text) IS NOT NULL AS text;
SELECT outbox.emit('order', 42, 'order.created', json_build_object('total', 3)) IS NOT NULL AS json;
SELECT outbox.emit('order', 42, 'order.created', row_to_json(r)) IS NOT NULL AS json_row FROM (SELECT 4 AS total) r;
SELECT outbox.emit('order'::varchar, 42::bigint, 'order.created'::varchar, '{"total": 5}'::varchar, NULL::varchar) IS NOT NULL AS typed_null_headers;
SELECT outbox.emit('order'::varchar, gen_random_uuid(), 'order.created'::varchar, '{"total": 6}'::varchar) IS NOT NULL AS uuid_key;
SELECT outbox.emit('order', '42', 'order.created', to_jsonb(r)) IS NOT NULL AS jsonb_row FROM (SELECT 7 AS total) r;
SELECT left(aggregate_id, 2) = '42' AND length(aggregate_id) < 36 AS key_is_42, payload, headers, topic FROM stored;
ROLLBACK;

-- No function for keys that are none, and for bytes where JSON belongs.
\set VERBOSITY terse
SELECT outbox.emit('order', 1.5, 'order.created', '{}');
SELECT outbox.emit('order', true, 'order.created', '{}');
SELECT outbox.emit('order', 1, 'order.created', '\x00'::bytea);
\set VERBOSITY default

-- JSON null is a payload where it is let; headers that are JSON null or {} are none.
BEGIN;
SET LOCAL outbox.allow_json_null = on;
SELECT outbox.emit('order', 1, 'e', 'null') IS NOT NULL AS json_null;
SELECT outbox.emit('order', 1, 'e', '"text"') IS NOT NULL AS json_string;
SELECT outbox.emit('order', 1, 'e', '1', 'null') IS NOT NULL AS null_headers;
SELECT outbox.emit('order', 1, 'e', '2', '{}') IS NOT NULL AS no_headers;
SELECT payload, headers FROM stored;
ROLLBACK;

-- The id is a UUIDv7 that gives back created_at, and both only grow.
BEGIN;
CREATE TEMP TABLE emitted AS SELECT i, outbox.emit('order', i, 'order.created', '{}') AS id FROM generate_series(1, 2000) i;
SELECT count(*), count(DISTINCT e.id) AS ids, count(DISTINCT l.created_at) AS times,
       bool_and(substr(e.id::text, 15, 1) = '7' AND substr(e.id::text, 20, 1) IN ('8', '9', 'a', 'b')) AS version_7,
       bool_and(('x' || lpad(substr(replace(e.id::text, '-', ''), 1, 12), 16, '0'))::bit(64)::bigint * 1000
                + ('x' || lpad(substr(replace(e.id::text, '-', ''), 14, 3), 8, '0'))::bit(32)::int
                = (extract(epoch FROM l.created_at) * 1000000)::bigint) AS gives_back_created_at
FROM emitted e JOIN outbox_internal.log l ON l.id = e.id;
SELECT bool_and(grows) AS grows FROM (
  SELECT l.created_at > lag(l.created_at) OVER w IS NOT FALSE AND l.id > lag(l.id) OVER w IS NOT FALSE AS grows
  FROM emitted e JOIN outbox_internal.log l ON l.id = e.id WINDOW w AS (ORDER BY e.i)) t;
SELECT DISTINCT l.xid = pg_current_xact_id() AS own_xid, l.tableoid::regclass::text ~ '^outbox_internal.log_\d{8}$' AS day_table
FROM emitted e JOIN outbox_internal.log l ON l.id = e.id;
ROLLBACK;

-- A large payload goes to TOAST and comes back whole.
BEGIN;
SELECT outbox.emit('blob', 1, 'blob.stored', jsonb_build_object('text', string_agg(md5(i::text), '')) ) IS NOT NULL AS large
FROM generate_series(1, 20000) i;
SELECT octet_length(payload), md5((payload::jsonb)->>'text') = (SELECT md5(string_agg(md5(i::text), '')) FROM generate_series(1, 20000) i) AS whole FROM stored;
ROLLBACK;

-- Trace context of the session goes along, unless the event has its own.
BEGIN;
SET LOCAL outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
SELECT outbox.emit('order', 1, 'e', '1') IS NOT NULL AS traced;
SELECT outbox.emit('order', 1, 'e', '2', '{"source": "shop"}') IS NOT NULL AS traced_with_headers;
SELECT outbox.emit('order', 1, 'e', '3', '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}') IS NOT NULL AS own_trace;
SET LOCAL outbox.traceparent = '';
SELECT outbox.emit('order', 1, 'e', '4') IS NOT NULL AS untraced;
SELECT payload, headers FROM stored;
ROLLBACK;
SHOW outbox.traceparent;
SET outbox.traceparent = 'nonsense';
SET outbox.traceparent = '00-00000000000000000000000000000000-00f067aa0ba902b7-01';
SET outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more';
SET outbox.traceparent = '01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more';
SET outbox.traceparent = '01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-"quote';
RESET outbox.traceparent;
