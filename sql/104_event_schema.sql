-- outbox.event_schema(): what is registered is asserted of each JSON payload, by every way in, from the next call on.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\pset null '(null)'
\set VERBOSITY default
SELECT outbox.event_schema('order', 'order.paid', '{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["total", "items"],
  "properties": {"total": {"type": "number", "minimum": 0}, "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/item"}}, "note": {"type": ["string", "null"], "maxLength": 5}},
  "additionalProperties": false, "$defs": {"item": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string", "pattern": "^[A-Z]-[0-9]+$"}, "a/b": {"const": 1}}}}}',
  schema_version => 2, dataschema => 'https://schemas.example.com/order/2');
SELECT aggregate_type, event_type, schema_version, dataschema, json_schema -> 'type' AS type FROM outbox.event_schemas;
BEGIN;
\set ON_ERROR_ROLLBACK on
SELECT outbox.emit('order', 1, 'order.paid', '{"total": 1, "items": [{"sku": "A-1"}]}') IS NOT NULL AS valid;
SELECT headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id();
SELECT outbox.emit('order', 1, 'order.paid', '{"total": 1, "items": [{"sku": "A-1"}], "note": "äöüßé"}', '{"schema_version": "1"}') IS NOT NULL AS valid;
-- No false label: no registered URI beside a version of the event's own, and neither on what was not checked.
SAVEPOINT labels;
SELECT outbox.emit_text('order', 1, 'order.paid', 'no JSON') IS NOT NULL AS emitted, outbox.emit_tombstone('order', 1, 'order.paid') IS NOT NULL AS emitted;
SELECT headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id() ORDER BY created_at;
ROLLBACK TO labels;
SELECT outbox.emit('order', 1, 'order.paid', '{"total": -1, "items": [{"sku": "A-1"}]}');
SELECT outbox.emit('order', 1, 'order.paid', '{"items": [{"sku": "A-1"}]}');
SELECT outbox.emit('order'::varchar, 1, 'order.paid'::varchar, '{"total": "1", "items": [{"sku": "A-1"}]}'::json);
SELECT outbox.emit('order', 1, 'order.paid', '{"total": 1, "items": [{"sku": "A-1"}, {"sku": "a-2"}]}');
SELECT outbox.emit('order', 1, 'order.paid', '{"total": 1, "items": [{"sku": "A-1", "a/b": 2}]}');
SELECT outbox.emit('order', 1, 'order.paid', '{"total": 1, "items": []}');
SELECT outbox.emit('order', 1, 'order.paid', '{"total": 1, "items": [{"sku": "A-1"}], "note": "too long"}');
SELECT outbox.emit('order', 1, 'order.paid', '{"total": 1, "items": [{"sku": "A-1"}], "more": 1}');
SELECT outbox.emit('order', 1, 'order.paid', '[]');
SELECT outbox.emit_text('order', 1, 'order.paid', '{"total": 1}', 'application/json');
SELECT outbox.emit_text('order', 1, 'order.paid', 'no JSON', 'application/json');
SELECT * FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "order.paid", "payload": 7}]');
SELECT outbox.emit_many('order', NULL, 'order.paid', '{7}');
INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('order', 'order.paid', '7');
-- Not looked at: other types, other content, tombstones.
SELECT outbox.emit('order', 1, 'order.created', '7') IS NOT NULL AND outbox.emit('orders', 1, 'order.paid', '7') IS NOT NULL
  AND outbox.emit_text('order', 1, 'order.paid', 'x') IS NOT NULL AND outbox.emit_bytes('order', 1, 'order.paid', '\x00') IS NOT NULL AND outbox.emit_tombstone('order', 1, 'order.paid') IS NOT NULL AS emitted;
-- A change counts at once, in this transaction too, and goes with a savepoint.
SAVEPOINT s;
SELECT outbox.event_schema('order', 'order.paid', 'true');
SELECT outbox.emit('order', 1, 'order.paid', '7') IS NOT NULL AS valid;
ROLLBACK TO s;
SELECT outbox.emit('order', 1, 'order.paid', '7');
SELECT outbox.drop_event_schema('order', 'order.paid'), outbox.drop_event_schema('order', 'order.paid');
SELECT outbox.emit('order', 1, 'order.paid', '7') IS NOT NULL AS valid;
SELECT who = session_user AS who, action, detail - 'json_schema' AS detail FROM outbox.audit WHERE action ~ 'event_schema' ORDER BY at;
-- What could not be asserted is refused.
SELECT outbox.event_schema('o', 'e', NULL);
SELECT outbox.event_schema('o', 'e', '1');
SELECT outbox.event_schema('o', 'e', '{"type": "text"}');
SELECT outbox.event_schema('o', 'e', '{"properties": {"a": {"minimum": "1"}}}');
SELECT outbox.event_schema('o', 'e', '{"unevaluatedProperties": false}');
SELECT outbox.event_schema('o', 'e', '{"$ref": "https://example.com/schema"}');
SELECT outbox.event_schema('o', 'e', '{"items": {"$ref": "#/$defs/none"}}');
SELECT outbox.event_schema('o', 'e', '{"$ref": "#"}');
SELECT outbox.event_schema('o', 'e', '{"pattern": "("}');
SELECT outbox.event_schema('o', 'e', '{"exclusiveMinimum": true}');
SELECT outbox.event_schema('o', 'e', '{"required": "a"}');
SELECT outbox.event_schema('o', 'e', 'true', schema_version => -1);
SELECT outbox.event_schema('o', 'e', 'true', dataschema => 'no uri');
-- Of types that events can have, by name.
SELECT outbox.event_schema('', 'x', '{}');
SELECT outbox.event_schema('es', '', '{}');
SELECT outbox.event_schema(repeat('a', 256), 'x', '{}');
SELECT outbox.event_schema('es', '*', '{}');
SELECT outbox.event_schema('es.*', 'x', '{}');
-- Deep and long: an error at most, and no crash.
SELECT outbox.event_schema('o', 'tree', '{"properties": {"child": {"$ref": "#"}}, "additionalProperties": false}');
SELECT outbox.emit('o', 1, 'tree', (repeat('{"child":', 500) || '{}' || repeat('}', 500))::jsonb) IS NOT NULL AS valid;
SELECT outbox.emit('o', 1, 'tree', (repeat('{"child":', 3) || '{"x": 1}' || repeat('}', 3))::jsonb);
-- Deeper than is looked: said of the event, and never taken for a mismatch that "not" would turn round; the bound is one of our own.
SELECT outbox.emit('o', 1, 'tree', (repeat('{"child":', 999) || '{}' || repeat('}', 999))::jsonb) IS NOT NULL AS valid;
SELECT outbox.emit('o', 1, 'tree', (repeat('{"child":', 1000) || '{}' || repeat('}', 1000))::jsonb);
SELECT outbox.emit('o', 1, 'tree', (repeat('{"child":', 3000) || '{}' || repeat('}', 3000))::jsonb);
SELECT outbox.event_schema('o', 'not tree', '{"not": {"$ref": "#/$defs/tree"}, "$defs": {"tree": {"properties": {"child": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}}}');
SELECT outbox.emit('o', 1, 'not tree', (repeat('{"child":', 3000) || '{}' || repeat('}', 3000))::jsonb);
SELECT outbox.emit('o', 1, 'not tree', '{"x": 1}') IS NOT NULL AS valid;
SELECT outbox.event_schema('o', 'circle', '{"anyOf": [{"type": "string"}, {"allOf": [{"$ref": "#"}]}]}');
SELECT outbox.emit('o', 1, 'circle', '"x"') IS NOT NULL AS valid;
SELECT outbox.emit('o', 1, 'circle', '{"deep": [1]}');
SELECT outbox.event_schema('o', 'deep', (repeat('{"items":', 1000) || '{"type": "string"}' || repeat('}', 1000))::jsonb);
SELECT outbox.event_schema('o', 'deep', (repeat('{"items":', 1001) || '{"type": "string"}' || repeat('}', 1001))::jsonb);
SELECT outbox.event_schema('o', 'deep', (repeat('{"not":', 4000) || 'true' || repeat('}', 4000))::jsonb);
SELECT outbox.emit('o', 1, 'deep', (repeat('[', 999) || '"x"' || repeat(']', 999))::jsonb) IS NOT NULL AS valid;
-- Thirty schemas, each of which refers to the next one twice: a billion steps are not taken, nor is a "not" satisfied by the end of them.
SELECT outbox.event_schema('o', 'double', jsonb_build_object('properties', jsonb_build_object('a', jsonb_build_object('not', jsonb_build_object('$ref', '#/$defs/d1'))), '$defs', (SELECT jsonb_object_agg('d' || i, CASE WHEN i < 30
  THEN jsonb_build_object('allOf', jsonb_build_array(d, d)) ELSE '{"type": "integer"}' END) FROM generate_series(1, 30) i, jsonb_build_object('$ref', '#/$defs/d' || i + 1) d)));
SELECT outbox.emit('o', 1, 'double', '{"a": 1}');
SELECT outbox.emit('o', 1, 'double', '{"a": "x"}') IS NOT NULL AS valid;
SELECT outbox.event_schema('o', 'long', '{"pattern": "^(a|b)*$"}');
SELECT outbox.emit('o', 1, 'long', to_jsonb(repeat('ab', 200000))) IS NOT NULL AS valid;
-- Who may emit may not change a schema.
CREATE ROLE regress_schema;
SELECT outbox.grant_emit('regress_schema');
SET ROLE regress_schema;
SELECT outbox.emit('o', 1, 'tree', '{"x": 1}');
SELECT outbox.event_schema('o', 'tree', 'true');
SELECT outbox.drop_event_schema('o', 'tree');
RESET ROLE;
ROLLBACK;
-- Elements are compared with their neighbours in an order, not each with each: 20,000 of them took minutes.
BEGIN;
SELECT outbox.event_schema('order', 'unique', '{"uniqueItems": true}');
SET LOCAL statement_timeout = '60s';
SELECT outbox.emit('order', 1, 'unique', (SELECT jsonb_agg(i) FROM generate_series(1, 20000) i)) IS NOT NULL AS emitted;
SELECT outbox.emit('order', 1, 'unique', '[1, "1", true, null, [1], [true], {"a": 1}, {"a": true}, {}, [], "", false, 0]') IS NOT NULL AS emitted;
SAVEPOINT twice;
SELECT outbox.emit('order', 1, 'unique', '[3, 1, 2, 1.0]');
ROLLBACK TO twice;
SELECT outbox.emit('order', 1, 'unique', '["b", {"a": [1, 2]}, "a", {"a": [1.0, 2]}]');
ROLLBACK;
SELECT outbox.drop_event_schema('order', 'order.paid');
SET outbox.allow_loss = on;
DELETE FROM outbox.audit WHERE action ~ 'event_schema';
