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
-- What a reference leads to is checked wherever it stands, also where no keyword has a schema.
\set SHOW_CONTEXT never
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/foo", "foo": {"type": 5}}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/components/schemas/Order", "components": {"schemas": {"Order": {"type": "object", "required": "id"}}}}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/x/a", "x": {"a": {"anyOf": [{"not": {"$ref": "#/x/b"}}]}, "b": {"items": {"$ref": "#/x/c"}}, "c": {"properties": []}}}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/x", "x": {"$ref": "#/x"}}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/x/a", "x": {"a": {"allOf": [{"$ref": "#/x/b"}]}, "b": {"$ref": "#/x/b"}}}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/x/a", "x": {"a": {"$ref": "#/x/b"}, "b": {"$ref": "#/x/a"}}}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/x/3", "x": [{}, true, {"type": "string"}]}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/x/01", "x": [{}, true]}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/required/0", "required": ["a"]}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#/x", "x": null}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": "#x"}');
SELECT outbox.event_schema('o', 'ref', '{"$ref": 5}');
SELECT outbox.event_schema('o', 'ref', jsonb_build_object('$ref', '#/x/r1', 'x', (SELECT jsonb_object_agg('r' || i, jsonb_build_object('$ref', '#/x/r' || i + 1)) FROM generate_series(1, 10000) i)));
SELECT outbox.event_schema('o', 'ref', jsonb_build_object('$ref', '#' || repeat('/x', 1000), 'x', (repeat('{"x":', 1000) || 'true' || repeat('}', 1000))::jsonb));
SELECT outbox.event_schema('o', 'ref', jsonb_build_object('$ref', '#' || repeat('/x', 1001), 'x', (repeat('{"x":', 1001) || '{}' || repeat('}', 1001))::jsonb));
-- A hundred one after another are followed, and ten thousand that refer to one another on the way.
SELECT outbox.event_schema('o', 'ref', jsonb_build_object('$ref', '#/x/r1', 'x', (SELECT jsonb_object_agg('r' || i, CASE WHEN i < 100 THEN jsonb_build_object('$ref', '#/x/r' || i + 1) ELSE '{"type": "string"}' END) FROM generate_series(1, 100) i)));
SELECT outbox.emit('o', 1, 'ref', '1');
SELECT outbox.event_schema('o', 'ref', jsonb_build_object('$ref', '#/x/r1', 'x', (SELECT jsonb_object_agg('r' || i, jsonb_build_object('properties', jsonb_build_object('a', jsonb_build_object('$ref', '#/x/r' || i % 10000 + 1)))) FROM generate_series(1, 10000) i)));
SELECT outbox.emit('o', 1, 'ref', (repeat('{"a":', 900) || '{}' || repeat('}', 900))::jsonb) IS NOT NULL AS valid;
-- To the root, to elements, and by names with ~, /, % and " in them.
SELECT outbox.event_schema('o', 'ref', '{"properties": {"a": {"$ref": "#/x/0/1"}, "b": {"$ref": "#/a~0b~1c%25d%22%7E1"}, "c": {"$ref": "#"}, "d": {"$ref": "#/x%2F1"}}, "x": [[true, {"type": "string"}], false], "a~b/c%d\"/": {"type": "null"}}');
SELECT outbox.emit('o', 1, 'ref', '{"a": 1}');
SELECT outbox.emit('o', 1, 'ref', '{"b": 1}');
SELECT outbox.emit('o', 1, 'ref', '{"c": {"c": {"a": "x", "b": 0}}}');
SELECT outbox.emit('o', 1, 'ref', '{"d": 1}');
SELECT outbox.emit('o', 1, 'ref', '{"a": "", "b": null, "c": {}}') IS NOT NULL AS valid;
-- Of other shapes than a keyword wants, and numbers that none can mean.
SELECT outbox.event_schema('o', 'e', '{"properties": []}');
SELECT outbox.event_schema('o', 'e', '{"type": []}');
SELECT outbox.event_schema('o', 'e', '{"type": [5]}');
SELECT outbox.event_schema('o', 'e', '{"allOf": {}}');
SELECT outbox.event_schema('o', 'e', '{"items": [true, 1]}');
SELECT outbox.event_schema('o', 'e', '{"dependencies": {"a": [1]}}');
SELECT outbox.event_schema('o', 'e', '{"enum": "a"}');
SELECT outbox.event_schema('o', 'e', '{"patternProperties": {"(": true}}');
SELECT outbox.event_schema('o', 'e', '{"multipleOf": 0}');
SELECT outbox.event_schema('o', 'e', '{"multipleOf": -1}');
SELECT outbox.event_schema('o', 'e', '{"maxItems": -1}');
SELECT outbox.event_schema('o', 'e', '{"minLength": 0.5}');
SELECT outbox.event_schema('o', 'e', '{"minLength": 1e400, "maxItems": 1e400, "multipleOf": 1e-400, "maximum": 1e400}');
SELECT outbox.emit('o', 1, 'e', '"x"');
SELECT outbox.emit('o', 1, 'e', '[1]') IS NOT NULL AND outbox.emit('o', 1, 'e', '1e399') IS NOT NULL AS valid;
SELECT outbox.event_schema('o', 'e', '{"properties": {"a": true, "b": false}, "items": [true, false], "additionalItems": true, "not": false, "if": true, "then": true, "else": false, "allOf": [true], "contains": true, "propertyNames": true, "patternProperties": {"^c": false}, "dependentSchemas": {"d": false}, "$defs": {"x": false}, "additionalProperties": true}');
SELECT outbox.emit('o', 1, 'e', '{"a": 1, "e": 2}') IS NOT NULL AND outbox.emit('o', 1, 'e', '[1]') IS NOT NULL AS valid;
SELECT outbox.emit('o', 1, 'e', '{"b": 1}');
SELECT outbox.emit('o', 1, 'e', '[1, 2]');
SELECT outbox.emit('o', 1, 'e', '{"c": 1}');
SELECT outbox.emit('o', 1, 'e', '{"d": 1}');
-- What came in without being looked at, by a dump or by hand, is looked at before it is asserted, and holds up no other event.
INSERT INTO outbox_internal.event_schema (aggregate_type, event_type, json_schema) VALUES ('planted', 'shape', '{"required": "id", "properties": []}'), ('planted', 'root', '5'),
  ('planted', 'array', '[]'), ('planted', 'circle', '{"$ref": "#"}'), ('planted', 'pattern', '{"pattern": 1}'), ('planted', 'never', '{"$dynamicRef": "#"}'), ('planted', 'good', '{"type": "object"}');
SELECT outbox.emit('planted', 1, 'shape', '{"id": 1}');
SELECT outbox.emit('planted', 1, 'shape', '{"id": 1}');
SELECT outbox.emit('planted', 1, 'root', '{}');
SELECT outbox.emit('planted', 1, 'array', '{}');
SELECT outbox.emit('planted', 1, 'circle', '{}');
SELECT outbox.emit('planted', 1, 'pattern', '"x"');
SELECT outbox.emit('planted', 1, 'never', '{}');
SELECT outbox.emit('planted', 1, 'good', '7');
SELECT outbox.emit('planted', 1, 'good', '{}') IS NOT NULL AND outbox.emit('planted', 1, 'other', '{}') IS NOT NULL AND outbox.emit_tombstone('planted', 1, 'shape') IS NOT NULL AS emitted;
\set SHOW_CONTEXT errors
-- Who may emit may not change a schema.
CREATE ROLE regress_schema;
SELECT outbox.grant_emit('regress_schema');
SET ROLE regress_schema;
SELECT outbox.emit('o', 1, 'tree', '{"x": 1}');
SELECT outbox.event_schema('o', 'tree', 'true');
SELECT outbox.drop_event_schema('o', 'tree');
RESET ROLE;
ROLLBACK;
-- Nothing is written of a mismatch that nobody is told, as inside of "anyOf", and nothing is kept of an element: a payload of a megabyte took 700 MB of
-- memory, and a list of 50,000 numbers 900 MB.
BEGIN;
CREATE FUNCTION pg_temp.peak_mb() RETURNS int LANGUAGE sql AS $$ SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]::int / 1024 $$;
SELECT outbox.event_schema('o', 'nested', '{"anyOf": [{"type": "null"}, {"type": "object", "properties": {"n": {"$ref": "#"}}}]}');
SELECT outbox.event_schema('o', 'list', jsonb_build_object('items', jsonb_build_object('oneOf', jsonb_build_array(jsonb_build_object('enum', (SELECT jsonb_agg(i) FROM generate_series(1, 300) i)),
  '{"type": ["string", "integer"], "multipleOf": 3, "not": {"type": "string"}}'::jsonb, '{"uniqueItems": true, "minLength": 2, "type": "array"}'::jsonb))));
SELECT outbox.event_schema('o', 'names', '{"propertyNames": {"pattern": "^n"}, "patternProperties": {"^a": false, "7$": {"type": "integer"}}, "additionalProperties": {"minimum": 1}}');
CREATE TEMP TABLE before AS SELECT pg_temp.peak_mb() AS mb;
SELECT outbox.emit('o', 1, 'nested', (SELECT (string_agg('{"pad": "' || repeat('x', 2000) || '", "n": ', '') || 'null' || repeat('}', 480))::jsonb FROM generate_series(1, 480))) IS NOT NULL AS valid;
SELECT outbox.emit('o', 1, 'list', (SELECT jsonb_agg(3 * i) FROM generate_series(101, 50100) i)) IS NOT NULL AS valid;
SELECT outbox.emit('o', 1, 'names', (SELECT jsonb_object_agg('n' || i, i) FROM generate_series(1, 20000) i)) IS NOT NULL AS valid;
SELECT pg_temp.peak_mb() - mb < 200 AS bounded FROM before;
-- What is told is cut short, whatever it is.
\set ON_ERROR_ROLLBACK on
SELECT outbox.event_schema('o', 'shown', '{"properties": {"a": {"type": "null"}, "b": {"const": 1}, "c": {"maximum": 1e-90}, "d": {"minLength": 1e90}}}');
SELECT outbox.emit('o', 1, 'shown', (SELECT jsonb_build_object('a', jsonb_agg(i)) FROM generate_series(1, 100000) i));
SELECT outbox.emit('o', 1, 'shown', jsonb_build_object('a', repeat('ä', 400000)));
SELECT outbox.emit('o', 1, 'shown', '{"a": {"a": [], "b": {}, "c": [[1, "x\n"], {"d": null}, true]}}');
SELECT outbox.emit('o', 1, 'shown', '{"b": [[], {}, [{"a": [1]}, 2], ""]}');
SELECT outbox.emit('o', 1, 'shown', '{"c": 1e400}');
SELECT outbox.emit('o', 1, 'shown', '{"d": ""}');
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
