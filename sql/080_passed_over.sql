-- What a seek passed over has a state of its own, in every word about it; and what was delivered before keeps its own.
-- matrix: S5 R18
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_over FOREIGN DATA WRAPPER outbox_log;
SELECT outbox.emit('over', 1, 'older', '{}') AS older \gset
BEGIN;
SELECT outbox.create_route('over', 'regress_over', '{over}', topic => 'over.{event_type}', lanes => 3) > 0 AS made;
SELECT outbox.pause('over', reason => 'test');
COMMIT;
-- Younger than the event: neither delivered nor to be delivered.
SELECT route, state FROM outbox.status(:'older');
SELECT outbox.wait_for(:'older', '0') IS NULL AS nobody_delivers;
SELECT outbox.emit('over', n, 'first', '{}') IS NOT NULL AS emitted FROM generate_series(1, 2) n;
SELECT id AS event FROM outbox_internal.log WHERE aggregate_type = 'over' AND event_type = 'first' LIMIT 1 \gset
SELECT state FROM outbox.status(:'event');
-- Over it, and again from there.
CALL outbox.seek('over', 'infinity', dry_run => false);
CALL outbox.seek('over', 'infinity', dry_run => false);
SELECT state, delivered_at, place, places, regexp_replace(reason, 'at .*;', 'at ...;') AS reason FROM outbox.status(:'event');
SELECT outbox.wait_for(:'event', '0') IS NULL AS nobody_delivers;
SET client_min_messages = warning;
CALL outbox.replay(since => '-infinity', route => 'over');
RESET client_min_messages;
SELECT DISTINCT s.reason, s.lanes, s.lane, s.topic FROM outbox_internal.lane_start s JOIN outbox.route r ON r.id = s.route_id WHERE r.name = 'over' ORDER BY lane;
-- A route of another server, which takes it, has not passed it over: one is enough for NULL.
SELECT outbox.create_route('other over', 'regress_over', '{over}', start => 'earliest') > 0 AS made;
SELECT outbox.wait_for(:'event', '20 s') IS NULL AS nobody_delivers;
SELECT route, state FROM outbox.status(:'event') ORDER BY route;
-- Back again: to be delivered, and then it is.
SELECT min(created_at) AS moment FROM outbox_internal.log WHERE aggregate_type = 'over' AND event_type = 'first' \gset
-- what was given up meanwhile does not go, and that is said
INSERT INTO outbox_internal.outcome (at, route_id, created_at, id, replay, outcome, attempts, topic)
  SELECT pg_catalog.now(), r.id, l.created_at, l.id, 0, 'skipped', 0, '' FROM outbox.route r, outbox_internal.log l
  WHERE r.name = 'over' AND l.aggregate_type = 'over' AND l.event_type = 'first' AND l.id <> :'event';
CALL outbox.seek('over', :'moment', dry_run => true);
SET outbox.allow_loss = on;
DELETE FROM outbox_internal.outcome WHERE id IN (SELECT id FROM outbox_internal.log WHERE aggregate_type = 'over');
RESET outbox.allow_loss;
CALL outbox.seek('over', :'moment', dry_run => true);
CALL outbox.seek('over', :'moment', dry_run => false);
SELECT state FROM outbox.status(:'event') WHERE route = 'over';
SELECT outbox.resume('over');
SELECT outbox.wait_for(:'event', '20 s');
SELECT state, delivered_at IS NOT NULL AS told FROM outbox.status(:'event') WHERE route = 'over';
SELECT outbox.drop_route('over'), outbox.drop_route('other over');
SELECT count(*) FROM outbox_internal.lane_start;
-- A route that wants an event later than it has passed it did not send it; where that is not known either, nothing else is said.
SELECT outbox.create_route('narrow', 'regress_over', '{near}', ARRAY['a*']) > 0 AS made;
SELECT outbox.emit('far', 1, 'apple', '{}') AS far \gset
SELECT outbox.emit('near', 1, 'berry', '{}') AS berry \gset
SELECT outbox.emit('near', 1, 'apple', '{}') AS near \gset
SELECT outbox.wait_until_idle('20 s');
SELECT e.what, s.route, s.state FROM (VALUES ('far', :'far'::uuid), ('berry', :'berry'), ('near', :'near')) e (what, id), outbox.status(e.id) s ORDER BY 1;
SELECT outbox.alter_route('narrow', aggregate_types => '{near,far}', event_types => ARRAY['*']);
SELECT outbox.emit('far', 1, 'cherry', '{}') AS cherry \gset
SELECT outbox.wait_until_idle('20 s');
SELECT e.what, s.route, s.state, s.delivered_at IS NOT NULL AS told, regexp_replace(s.reason, 'at .*, and', 'at ..., and') AS reason
  FROM (VALUES ('far', :'far'::uuid), ('berry', :'berry'), ('near', :'near'), ('cherry', :'cherry')) e (what, id), outbox.status(e.id) s ORDER BY 1;
SELECT outbox.wait_for(:'far', '5 s') IS NULL AS nobody_knows, outbox.wait_for(:'near', '5 s') AS near, outbox.wait_for(:'cherry', '5 s') AS cherry;
-- Less, and as before; by hand; both at once.
SELECT outbox.alter_route('narrow', aggregate_types => '{far}');
SELECT outbox.alter_route('narrow', aggregate_types => '{near,far}');
SELECT e.what, s.state FROM (VALUES ('near', :'near'::uuid), ('cherry', :'cherry')) e (what, id), outbox.status(e.id) s ORDER BY 1;
SET client_min_messages = error;
UPDATE outbox.route SET aggregate_types = '{x}' WHERE name = 'narrow';
UPDATE outbox.route SET aggregate_types = '{*}' WHERE name = 'narrow';
RESET client_min_messages;
SELECT state FROM outbox.status(:'cherry');
-- By the same transaction, after the event: it was judged by the new rule. What is told of it needs no more than status() does.
BEGIN;
SELECT outbox.emit('far', 1, 'date', '{}') AS date \gset
SET LOCAL client_min_messages = error;
UPDATE outbox.route SET aggregate_types = '{x}' WHERE name = 'narrow';
UPDATE outbox.route SET aggregate_types = '{*}' WHERE name = 'narrow';
COMMIT;
SELECT outbox.wait_for(:'date', '20 s');
SELECT state FROM outbox.status(:'date');
SELECT outbox.wait_for(:'near', '5 s'), outbox.wait_for(:'far', '5 s') IS NULL AS nobody_knows;
-- Sent again from there, it is known; and so it is of a route of the same name, made anew.
SELECT created_at AS moment FROM outbox.status(:'far') \gset
CALL outbox.seek('narrow', :'moment', dry_run => false);
SELECT outbox.wait_until_idle('20 s');
SELECT e.what, s.state FROM (VALUES ('far', :'far'::uuid), ('near', :'near'), ('cherry', :'cherry')) e (what, id), outbox.status(e.id) s ORDER BY 1;
SELECT outbox.drop_route('narrow');
SELECT outbox.create_route('narrow', 'regress_over', '{far}', start => 'earliest') > 0 AS made;
SELECT outbox.wait_until_idle('20 s');
SELECT state FROM outbox.status(:'far');
SELECT outbox.drop_route('narrow');
DROP SERVER regress_over;
