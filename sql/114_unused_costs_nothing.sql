-- Who uses no key that emits once, no schema and no trace opens nothing of theirs, by any way in: what a transaction has open, once the session knows its
-- routes, are the tables that it writes.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
CREATE FUNCTION open_relations() RETURNS SETOF text LANGUAGE sql AS $$
  SELECT DISTINCT regexp_replace(c.relname, '^(log|emit_key)_.*', '\1') FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
  WHERE l.pid = pg_backend_pid() AND c.relnamespace = 'outbox_internal'::regnamespace AND c.relname <> 'clock_ceiling' ORDER BY 1 $$;  -- that: now and then, by whoever is first
SELECT outbox.emit('order', 1, 'order.paid', '{}') IS NOT NULL AS warm;
BEGIN;
SELECT outbox.emit('order', 1, 'order.paid', '{}') IS NOT NULL AS emit, outbox.emit_text('order', 1, 'order.paid', 'x') IS NOT NULL AS emit_text,
  outbox.emit_tombstone('order', 1, 'order.paid') IS NOT NULL AS emit_tombstone, cardinality(outbox.emit_many('order', '{1,2}'::text[], 'order.paid', '{1,2}'::jsonb[])) AS emit_many;
SELECT open_relations();
COMMIT;
-- What is used is opened.
BEGIN;
SELECT outbox.emit('order', 1, 'order.paid', '{}', dedupe_key => 'paid') IS NOT NULL AS emit;
SELECT open_relations();
ROLLBACK;
BEGIN;
SELECT outbox.event_schema('order', 'order.paid', '{"type": "object"}');
SELECT outbox.emit('order', 1, 'order.paid', '7');
ROLLBACK;
DROP FUNCTION open_relations();
