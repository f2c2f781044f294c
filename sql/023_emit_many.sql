-- emit_many(): both forms, in order, all or nothing.
\pset null '(null)'
-- An array of objects.
BEGIN;
SET LOCAL outbox.allow_json_null = on;
CREATE TEMP TABLE ids AS SELECT id, ordinality FROM outbox.emit_many('[
  {"aggregate_type": "order", "aggregate_id": "k", "event_type": "order.created", "payload": {"n": 1}},
  {"aggregate_type": "order", "aggregate_id": 42, "event_type": "order.paid", "payload": [2], "headers": {"a": "b"}, "topic": "t"},
  {"aggregate_type": "order", "event_type": "order.seen", "payload": "three", "headers": null, "topic": null},
  {"aggregate_type": "order", "aggregate_id": null, "event_type": "order.seen", "payload": null},
  {"aggregate_type": "order", "aggregate_id": -5e2, "event_type": "order.seen", "payload": 5}
]') WITH ORDINALITY AS e (id, ordinality);
SELECT * FROM stored;
SELECT count(*), bool_and(i.ordinality = l.n) AS in_order FROM ids i
JOIN (SELECT id, row_number() OVER (ORDER BY created_at) AS n FROM outbox_internal.log WHERE xid = pg_current_xact_id()) l USING (id);
SELECT count(*) FROM outbox.emit_many('[]');
ROLLBACK;

-- Parallel arrays.
BEGIN;
CREATE TEMP TABLE ids AS SELECT * FROM unnest(outbox.emit_many('order', '{a,NULL,c}', 'order.created', ARRAY['1', '"two"', '{}']::jsonb[],
  ARRAY[NULL, '{"a": "b"}', '{}']::jsonb[], 't')) WITH ORDINALITY AS e (id, ordinality);
SELECT * FROM stored;
SELECT count(*), bool_and(i.ordinality = l.n) AS in_order FROM ids i
JOIN (SELECT id, row_number() OVER (ORDER BY created_at) AS n FROM outbox_internal.log WHERE xid = pg_current_xact_id()) l USING (id);
SELECT cardinality(outbox.emit_many('order', NULL, 'order.created', '{1,2}')) AS without_keys;
SELECT outbox.emit_many('order', '{}', 'order.created', '{}') AS none;
ROLLBACK;

-- More than one batch, with values that go to TOAST.
BEGIN;
SELECT cardinality(outbox.emit_many('many', array_agg(i::text), 'many.made', array_agg(jsonb_build_object('i', i) || CASE WHEN i % 400 = 0 THEN jsonb_build_object('t', (SELECT string_agg(md5(j::text), '') FROM generate_series(1, 1000) j)) ELSE '{}' END)))
FROM generate_series(1, 1700) i;
SELECT count(*), count(DISTINCT created_at), bool_and(aggregate_id::int = n), bool_and((convert_from(payload, 'UTF8')::jsonb->>'i')::int = n), max(length(payload))
FROM (SELECT *, row_number() OVER (ORDER BY created_at) AS n FROM outbox_internal.log WHERE xid = pg_current_xact_id()) l;
-- Found through the index too.
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM outbox_internal.log WHERE xid = pg_current_xact_id();
ROLLBACK;

-- Refusals name the event.
\x on
\t on
SELECT * FROM refused($$SELECT outbox.emit_many(NULL::jsonb)$$);
SELECT * FROM refused($$SELECT outbox.emit_many('{}')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('1')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[1]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[[]]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "payloads": 2}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1}, {"aggregate_type": "o", "event_type": "e"}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": 5, "event_type": "e", "payload": 1}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "aggregate_id": 1.5, "event_type": "e", "payload": 1}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "aggregate_id": 1e30, "event_type": "e", "payload": 1}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "aggregate_id": -9223372036854775809, "event_type": "e", "payload": 1}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "aggregate_id": true, "event_type": "e", "payload": 1}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"event_type": "e", "payload": 1}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": "{}"}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "headers": {"id": "x"}}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many(NULL, '{a}', 'e', '{1}')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('o', '{a}', 'e', NULL)$$);
SELECT * FROM refused($$SELECT outbox.emit_many('o', '{a}', 'e', '{NULL}')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('o', '{a,b}', 'e', '{1}')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('o', '{a}', 'e', '{1}', '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('o', '{{a},{b}}', 'e', '{1,2}')$$);
\t off
\x off
\set VERBOSITY default
SELECT outbox.emit_many('o', '{a,b,c}', 'e', '{1,2,NULL}');
