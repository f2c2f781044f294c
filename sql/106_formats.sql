-- The format of a route: what create_route and alter_route take, and what they refuse.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.test_new_routes = off;
CREATE SERVER regress_events FOREIGN DATA WRAPPER outbox_log;
CREATE SERVER regress_redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');

-- said, not said, and as the calls of 0.1 are: by position
SELECT outbox.create_route('regress plain', server => 'regress_events') > 0 AS made;
SELECT outbox.create_route('regress payload', server => 'regress_events', format => 'payload') > 0 AS made;
SELECT outbox.create_route('regress by position', 'regress_redis', '{*}', '{*}', 'orders', '{aggregate_id}', 1, 'now', '{"mode": "list"}',
  'skip', 10, '1 second', '10 minutes') > 0 AS made;
SELECT name, format, options FROM outbox.route WHERE name LIKE 'regress%' ORDER BY name;

-- what is none, nearly one, nothing, and what is none of its options
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'avro');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'Payloads');
SELECT outbox.create_route('regress x', server => 'regress_events', format => '');
SELECT outbox.create_route('regress x', server => 'regress_events', format => NULL);
SELECT outbox.create_route('regress x', server => 'regress_redis', options => '{"modes": "list"}');
SELECT outbox.create_route('regress x', server => 'regress_redis', options => '{"mode": 5}');
SELECT outbox.create_route('regress x', server => 'regress_redis', options => '{"mode": null}');
SELECT outbox.create_route('regress x', server => 'regress_redis', options => '{"mode": "a\"b"}');

-- an option of another format; what a destination cannot carry, whichever of both comes last
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'payload', options => '{"source": "/shop"}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'cloudevents', options => '{"sauce": "/shop"}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'cloudevents', options => '{"source": "the shop"}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'cloudevents', options => '{"source": ""}');
SELECT outbox.create_route('regress x', server => 'regress_redis', format => 'cloudevents', options => '{"mode": "list"}');
SELECT outbox.alter_route('regress by position', format => 'cloudevents');
SELECT outbox.alter_route('regress by position', format => 'cloudevents-json', options => '{"mode": "publish", "source": "https://shop.example/\"a"}');
SELECT outbox.alter_route('regress by position', format => 'cloudevents-json', options => '{"mode": "publish", "source": "https://shop.example/a"}');
SELECT format, options FROM outbox.route WHERE name = 'regress by position';
SELECT outbox.alter_route('regress by position', format => 'cloudevents');
SELECT outbox.alter_route('regress by position', format => 'payload');
SELECT outbox.alter_route('regress by position', server => 'regress_events');
SELECT outbox.alter_route('regress by position', format => 'payload', options => '{"mode": "list"}');
SELECT format, options FROM outbox.route WHERE name = 'regress by position';

-- a frame: which there is, and for which formats
SELECT outbox.create_route('regress x', server => 'regress_events', options => '{"framing": "confluentt"}');
SELECT outbox.create_route('regress x', server => 'regress_events', options => '{"framing": true}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'debezium', options => '{"framing": "confluent"}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'cloudevents-json', options => '{"framing": "confluent"}');

-- placements: what is no place, no number, in a place twice, and what a destination has not
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'debezium', options => '{"table.fields.additional.placement": "type:heeder:eventType"}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'debezium', options => '{"table.fields.additional.placement": "type:partition"}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'debezium', options => '{"table.fields.additional.placement": "type:header:a,shard:header:a"}');
SELECT outbox.create_route('regress x', server => 'regress_events', format => 'debezium', options => '{"table.fields.additional.placment": "type:header"}');
SELECT outbox.create_route('regress x', server => 'regress_redis', format => 'debezium', options => '{"table.fields.additional.placement": "shard:partition"}');
SELECT outbox.create_route('regress x', server => 'regress_redis', format => 'debezium', options => '{"mode": "list"}');

-- changed, said to be the same, and kept; the audit has it
SELECT outbox.alter_route('regress plain', format => 'payload');
SET client_min_messages = notice;
SELECT outbox.alter_route('regress plain', format => 'payload');
SET client_min_messages = warning;
SELECT outbox.alter_route('regress plain', format => 'outbx');
SELECT outbox.alter_route('regress plain', max_attempts => 5);
SELECT name, format FROM outbox.route WHERE name = 'regress plain';
SELECT action, detail -> 'changed' AS changed FROM outbox.audit WHERE route = 'regress plain' AND action = 'alter_route' ORDER BY at;
SELECT detail -> 'to' -> 'format' AS format FROM outbox.audit WHERE route = 'regress payload' AND action = 'create_route';

-- header names that the route's format has taken: emit() refuses them, in every way in, where such a route takes the event
SET outbox.lone_emit = allow;
SELECT outbox.alter_route('regress plain', aggregate_types => '{order}', event_types => '{order.*}', format => 'cloudevents');
\set VERBOSITY default
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"tenant": "a", "ce_tenant": "b"}');
\set VERBOSITY terse
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"CE_id": "b"}');
SELECT outbox.emit_text('order', 1, 'order.paid', 'x', headers => '{"ce_": "b"}');
SELECT outbox.emit_tombstone('order', 1, 'order.paid', '{"ce_x": "b"}');
SELECT outbox.emit_many('[{"aggregate_type": "order", "event_type": "order.paid", "payload": 1, "headers": {"ce_x": "1"}}]');
SELECT outbox.emit_many('order', '{1,2}'::text[], 'order.paid', '{1,2}'::jsonb[], headers => ARRAY['{}', '{"ce_x": "1"}']::jsonb[]);
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, headers) VALUES ('order', '1', 'order.paid', '1', '{"ce_x": "1"}');
-- no such route takes these; these names are free
SELECT outbox.emit('order', 1, 'shipped', '{}', '{"ce_tenant": "b"}') IS NOT NULL AS other_event, outbox.emit('invoice', 1, 'order.paid', '{}', '{"ce_tenant": "b"}') IS NOT NULL AS other_type,
  outbox.emit('order', 1, 'order.paid', '{}', '{"ce": "b", "xce_": "c", "c": ""}') IS NOT NULL AS other_names, outbox.emit('order', 1, 'order.paid', '{}', '{}') IS NOT NULL AS none;
-- Debezium's: what the placement calls another column, unless that header is placed itself, or none is sent that is not
SELECT outbox.alter_route('regress plain', format => 'debezium', options => '{"table.fields.additional.placement": "type:header:eventType,tenant:header:who,shard:header", "table.expand.json.payload": true}');
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"eventType": "b"}');
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"who": "b"}');
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"tenant": "a", "shard": "1", "EventType": "b", "ce_x": "c"}') IS NOT NULL AS emitted;
SELECT outbox.alter_route('regress plain', options => '{"event.headers": "placed", "table.fields.additional.placement": "type:header:eventType"}');
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"eventType": "b"}') IS NOT NULL AS not_sent_anyway;
-- what is a header without being given as one: columns, what is registered of the event, and, where it is left out and refuses nothing, a trace
SELECT outbox.alter_route('regress plain', options => '{"table.fields.additional.placement": "type:header:dataschema,id:header:schema_version,aggregate_type:header:traceparent,timestamp:header:baggage"}');
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, dataschema) VALUES ('order', '1', 'order.paid', '1', 'https://example.com/1');
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, schema_version) VALUES ('order', '1', 'order.paid', '1', 2);
SELECT outbox.emit_many('[{"aggregate_type": "order", "event_type": "order.paid", "payload": 1, "schema_version": 2}]');
BEGIN;
SELECT outbox.event_schema('order', 'order.paid', 'true', dataschema => 'https://example.com/1');
SAVEPOINT s;
SELECT outbox.emit('order', 1, 'order.paid', '{}');
ROLLBACK TO s;
SELECT outbox.emit_text('order', 1, 'order.paid', 'no JSON') IS NOT NULL AS not_labelled, outbox.emit('order', 1, 'shipped', '{}', '{"dataschema": "https://example.com/1"}') IS NOT NULL AS other_event;
ROLLBACK;
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}');
BEGIN;
SET LOCAL outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
SET LOCAL outbox.tracestate = 'congo=t61rcWkgMzE';
SET LOCAL outbox.baggage = 'userId=alice';
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"tenant": "a"}') IS NOT NULL AS traced_elsewhere, outbox.emit('order', 1, 'shipped', '{}') IS NOT NULL AS traced;
SELECT outbox.alter_route('regress plain', options => '{"table.fields.additional.placement": "type:header:tracestate"}');
SELECT outbox.emit('order', 1, 'order.paid', '{}') IS NOT NULL AS without_state;
SELECT event_type, headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id() ORDER BY created_at;
ROLLBACK;
-- where names are written in upper case, whatever the case of the header's
SELECT outbox.create_route('regress upper', server => 'regress_redis', aggregate_types => '{upper}', format => 'debezium', options => '{"message.format": "extended", "table.fields.additional.placement": "type:header:eventType"}') > 0 AS made;
SELECT outbox.emit('upper', 1, 'order.paid', '{}', '{"eventtype": "b"}');
SELECT outbox.emit('upper', 1, 'order.paid', '{}', '{"eventtypes": "b", "eventtyp": "c"}') IS NOT NULL AS other_names;
SELECT outbox.alter_route('regress upper', options => '{"table.fields.additional.placement": "type:header:eventType"}');
SELECT outbox.emit('upper', 1, 'order.paid', '{}', '{"eventtype": "b"}') IS NOT NULL AS compact;
-- as the route is now, also in this transaction; taken back, it is as before
BEGIN;
SELECT outbox.alter_route('regress plain', format => 'cloudevents-json', options => '{}');
SAVEPOINT s;
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"ce_x": "b"}');
ROLLBACK TO s;
ROLLBACK;
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"ce_x": "b"}') IS NOT NULL AS taken_back;
-- two routes: each is asked
SELECT outbox.create_route('regress second', server => 'regress_events', format => 'cloudevents') > 0 AS made;
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"ce_x": "b"}');
SELECT outbox.drop_route('regress second');
SELECT outbox.emit('order', 1, 'order.paid', '{}', '{"ce_x": "b"}') IS NOT NULL AS free_again;
\set VERBOSITY default

SELECT count(outbox.drop_route(name)) AS dropped FROM outbox.route WHERE name LIKE 'regress%';
DROP SERVER regress_events, regress_redis;
