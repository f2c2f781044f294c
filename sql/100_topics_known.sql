-- Route option topics_known: what it takes, where it is kept, and that its changes are in the audit. And
-- that emit() refuses others, in every way in, and costs those nothing who have no such route. What becomes of events that were
-- there before: test/t/231_topics_known.pl.
SET client_min_messages = warning;
CREATE SERVER regress_known FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'localhost');
CREATE SERVER regress_known_log FOREIGN DATA WRAPPER outbox_log;
\set VERBOSITY default
SELECT outbox.create_route('known', server => 'regress_known', options => '{"topics_known": "shop.orders"}');
\set VERBOSITY sqlstate
SELECT outbox.create_route('known', server => 'regress_known', options => '{"topics_known": {}}');
SELECT outbox.create_route('known', server => 'regress_known', options => '{"topics_known": [""]}');
SELECT outbox.create_route('known', server => 'regress_known', options => '{"topics_known": [1]}');
SELECT outbox.create_route('known', server => 'regress_known', options => '{"topics_known": [null]}');
SELECT outbox.create_route('known', server => 'regress_known', options => '{"topic_known": ["a"]}');
SELECT outbox.create_route('known', server => 'regress_known', options => '{"mode": "list", "topics_known": ["shop.orders", "shop.\"odd\".*"]}') > 0 AS made;
SELECT options FROM outbox.route WHERE name = 'known';
-- every kind has it, so a route takes it along
SELECT outbox.alter_route('known', options => '{"topics_known": ["shop.*"]}');
SELECT outbox.alter_route('known', server => 'regress_known_log');
SELECT server, options FROM outbox.route WHERE name = 'known';
SELECT detail -> 'changed' -> 'options' AS options FROM outbox.audit WHERE action = 'alter_route' AND route = 'known' AND detail -> 'changed' ? 'options';
\set VERBOSITY default
SELECT outbox.alter_route('known', options => '{"topics_known": []}');
SELECT outbox.alter_route('known', options => '{"topics_known": ["shop.orders", 1]}');
SELECT outbox.alter_route('known', options => '{"topics_known": "shop.orders"}');
SELECT outbox.alter_route('known', options => '{"topics_known": [""]}');
-- emit(): by its own topic, and by the one that the route's template makes of its types
SET outbox.lone_emit = allow;
SELECT outbox.alter_route('known', aggregate_types => '{order,ordre}', event_types => '{made,sent}', topic => 'shop.{aggregate_type:kebab}', options => '{"topics_known": ["shop.order", "audit.*"]}');
SELECT outbox.emit('order', 1, 'made', '{}') IS NOT NULL AS known, outbox.emit('order', 1, 'made', '{}', topic => 'audit.orders') IS NOT NULL AS by_pattern,
  outbox.emit('other', 1, 'made', '{}', topic => 'any.thing') IS NOT NULL AS of_no_route, outbox.emit('order', 1, 'gone', '{}', topic => 'any.thing') IS NOT NULL AS of_no_route_either;
SELECT outbox.emit('order', 1, 'made', '{}', topic => 'shpo.order');
SELECT outbox.emit('ordre', 1, 'made', '{}');
\set VERBOSITY terse
SELECT outbox.emit('order', 1, 'made', '{}', topic => 'Shop.order');
SELECT outbox.emit('order', 1, 'made', '{}', topic => 'audit');
SELECT outbox.emit('ordre', 1, 'made', '{}'::text), outbox.emit('order', 1, 'made', '{}');
SELECT outbox.emit_text('ordre', 1, 'made', 'x');
SELECT outbox.emit_bytes('ordre', 1, 'made', 'x');
SELECT outbox.emit_tombstone('ordre', 1, 'made');
SELECT outbox.emit_many('[{"aggregate_type": "order", "event_type": "made", "payload": 1}, {"aggregate_type": "ordre", "event_type": "made", "payload": 1}]');
SELECT outbox.emit_many('ordre', NULL, 'made', '{1}');
INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('ordre', 'made', '1');
CREATE TABLE regress_orders (id int);
CREATE TRIGGER events AFTER INSERT ON regress_orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('ordre', 'id', '');
INSERT INTO regress_orders VALUES (1);
SELECT outbox.alter_route('known', event_types => '{*}');
INSERT INTO regress_orders VALUES (1);
DROP TABLE regress_orders;
-- each route that takes the event is asked; one that has no list is not
SELECT outbox.create_route('knows all', server => 'regress_known_log') > 0 AS made;
SELECT outbox.emit('ordre', 1, 'made', '{}');
SELECT outbox.create_route('knows others', server => 'regress_known_log', aggregate_types => '{order}', options => '{"topics_known": ["outbox.event.*"]}') > 0 AS made;
SELECT outbox.emit('order', 1, 'made', '{}', topic => 'audit.orders');
SELECT outbox.emit('order', 1, 'made', '{}') IS NOT NULL AS known_to_both;
-- a change counts at once, also one of this transaction, and no longer when it is taken back
BEGIN;
SELECT outbox.alter_route('known', options => '{"topics_known": ["shop.*"]}');
SELECT outbox.emit('ordre', 1, 'made', '{}') IS NOT NULL AS known_now;
ROLLBACK;
SELECT outbox.emit('ordre', 1, 'made', '{}');
BEGIN;
SELECT outbox.drop_route('known') >= 0 AS dropped;
SELECT outbox.emit('ordre', 1, 'made', '{}') IS NOT NULL AS nobody_asks;
ROLLBACK;
SELECT outbox.emit('ordre', 1, 'made', '{}');
SELECT outbox.alter_route('known', options => '{}');
SELECT outbox.emit('ordre', 1, 'made', '{}') IS NOT NULL AS all_known;
SELECT outbox.drop_route(name) >= 0 AS dropped FROM outbox.route WHERE name LIKE 'know%';
DROP SERVER regress_known, regress_known_log;
