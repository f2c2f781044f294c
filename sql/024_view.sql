-- The view outbox.event, as ORMs use it.
\pset null '(null)'
BEGIN;
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '42', 'order.created', '{"total": 1}')
  RETURNING id IS NOT NULL AS id, created_at IS NOT NULL AS created_at, payload;
-- The client's id is kept, NULL and DEFAULT make one, the client's created_at is ignored.
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload, created_at) VALUES
  ('11111111-2222-3333-4444-555555555555', 'order', '43', 'order.created', '{"total": 2}', '2000-01-01'),
  (NULL, 'order', '44', 'order.created', '{"total": 3}', NULL),
  (DEFAULT, 'order', '45', 'order.created', '{"total": 4}', DEFAULT)
  RETURNING id = '11111111-2222-3333-4444-555555555555' AS own_id, created_at > '2020-01-01' AS real_time;
INSERT INTO outbox.event (aggregate_type, event_type, payload_text) VALUES ('order', 'e', 'text') RETURNING content_type, payload_text;
INSERT INTO outbox.event (aggregate_type, event_type, payload_text, content_type) VALUES ('order', 'e', '<a/>', 'application/xml') RETURNING content_type;
INSERT INTO outbox.event (aggregate_type, event_type, payload_bytes, headers, topic) VALUES ('order', 'e', '\x00ff', '{"a": "b"}', 't') RETURNING content_type, headers, topic;
INSERT INTO outbox.event (aggregate_type, event_type, payload_bytes, content_type) VALUES ('order', 'e', '\xff', 'text/plain');
INSERT INTO outbox.event (aggregate_type, event_type, payload, headers) VALUES ('order', 'e', '5', 'null') RETURNING headers;
INSERT INTO outbox.event (aggregate_type, event_type, payload) SELECT 'order', 'e', to_jsonb(i) FROM generate_series(6, 7) i ON CONFLICT DO NOTHING;
COPY outbox.event (aggregate_type, aggregate_id, event_type, payload) FROM stdin;
order	46	order.created	{"total": 8}
order	\N	order.created	{"total": 9}
\.
SELECT outbox.emit_tombstone('order', 1, 'order.deleted') IS NOT NULL AS tombstone;
SELECT aggregate_type, aggregate_id, event_type, payload, headers, topic, content_type, payload_text, payload_bytes
FROM outbox.event ORDER BY created_at;
SELECT aggregate_id FROM outbox.event WHERE id = '11111111-2222-3333-4444-555555555555';
SAVEPOINT s;
INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('order', 'gone', '1');
SELECT count(*) FROM outbox.event WHERE event_type = 'gone';
ROLLBACK TO s;
SELECT count(*) FROM outbox.event WHERE event_type = 'gone';
SELECT count(*) FROM outbox.event;
COMMIT;
-- What is committed is not shown here.
SELECT count(*) FROM outbox.event;
BEGIN;
SELECT count(*) FROM outbox.event;
SELECT outbox.emit('order', 1, 'e', '1') IS NOT NULL AS emitted;
SELECT count(*) FROM outbox.event;
ROLLBACK;
-- Reading it locks no day table for those who wrote nothing, and never the parent.
BEGIN;
SELECT count(*) FROM outbox.event;
SELECT relation::regclass FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text LIKE 'outbox_internal.log%';
SELECT outbox.emit('order', 1, 'e', '1') IS NOT NULL AS emitted;
SELECT count(*) FROM outbox.event;
SELECT DISTINCT regexp_replace(relation::regclass::text, '\d{8}', 'YYYYMMDD'), mode FROM pg_locks
WHERE pid = pg_backend_pid() AND relation::regclass::text LIKE 'outbox_internal.log%' ORDER BY 1, 2;
ROLLBACK;
\x on
\t on
SELECT * FROM refused($$INSERT INTO outbox.event (aggregate_type, event_type) VALUES ('o', 'e')$$);
SELECT * FROM refused($$INSERT INTO outbox.event (aggregate_type, event_type, payload, payload_text) VALUES ('o', 'e', '1', '1')$$);
SELECT * FROM refused($$INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('o', 'e', '"{}"')$$);
SELECT * FROM refused($$INSERT INTO outbox.event (event_type, payload) VALUES ('e', '1')$$);
SELECT * FROM refused($$INSERT INTO outbox.event (aggregate_type, event_type, payload, topic) VALUES ('o', 'e', '1', '?')$$);
SELECT * FROM refused($$UPDATE outbox.event SET payload = '2'$$);
SELECT * FROM refused($$DELETE FROM outbox.event WHERE id = '11111111-2222-3333-4444-555555555555'$$);
SELECT code, message FROM refused($$TRUNCATE outbox.event$$);
SELECT code, message FROM refused($$SELECT outbox_internal.event_insert()$$);
CREATE TABLE not_the_view (a int);
CREATE TRIGGER wrong AFTER INSERT ON not_the_view FOR EACH ROW EXECUTE FUNCTION outbox_internal.event_insert();
SELECT code, message FROM refused($$INSERT INTO not_the_view VALUES (1)$$);
DROP TABLE not_the_view;
