-- JSON null is no payload: a serializer's word for nothing, which consumers get as four bytes. Refused by whichever way it comes, but
-- for those who mean it. A traceparent that no tracing system can read is refused as a header, as it is as a setting.
\set VERBOSITY default
SELECT outbox.emit('order', '1', 'order.created', 'null');
\set VERBOSITY sqlstate
SELECT outbox.emit('order', '1'::varchar, 'order.created', ' null '::outbox.json_arg);
SELECT outbox.emit('order', 1, 'order.created', 'null'::json);
SELECT outbox.emit('order', 1, 'order.created', to_jsonb(NULL::text));
SELECT outbox.emit('order', 1, 'order.created', 'null'::jsonb);
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '1', 'order.created', 'null');
SELECT * FROM outbox.emit_many('[{"aggregate_type": "order", "aggregate_id": "1", "event_type": "order.created", "payload": {}},
                                 {"aggregate_type": "order", "aggregate_id": "1", "event_type": "order.created", "payload": null}]');
SELECT outbox.emit_many('order', '{1,2}', 'order.created', ARRAY['{}', 'null']::jsonb[]);
SELECT count(*) FROM outbox.event;
-- what only looks like it
BEGIN;
SELECT outbox.emit('order', 1, 'order.created', '[null]') IS NOT NULL, outbox.emit('order', 1, 'order.created', '"null"') IS NOT NULL,
  outbox.emit('order', 1, 'order.created', '{"a": null}') IS NOT NULL, outbox.emit_text('order', 1, 'order.created', 'null') IS NOT NULL;
SET LOCAL outbox.allow_json_null = on;
SELECT outbox.emit('order', 1, 'order.created', 'null') IS NOT NULL;
SELECT payload, payload_text FROM outbox.event ORDER BY created_at;
ROLLBACK;

\set VERBOSITY default
SELECT outbox.emit('order', 1, 'order.created', '{}', headers => '{"traceparent": "junk"}');
\set VERBOSITY sqlstate
SELECT outbox.emit('order', 1, 'order.created', '{}', headers => '{"traceparent": ""}');
SELECT outbox.emit('order', 1, 'order.created', '{}', headers => '{"traceparent": "00-00000000000000000000000000000000-00f067aa0ba902b7-01"}');
SELECT outbox.emit('order', 1, 'order.created', '{}', headers => '{"traceparent": "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01"}');
SELECT outbox.emit('order', 1, 'order.created', '{}', headers => '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}') IS NOT NULL AS taken;
SELECT outbox.emit('order', 1, 'order.created', '{}', headers => '{"x-traceparent": "junk"}') IS NOT NULL AS taken;
