-- matrix: H3
-- The same event id twice from the application: both are events, in the order of their emits. An id is the client's own
-- and trusted for nothing: consumers drop the second as the repeat that it looks like.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_same FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
SELECT outbox.create_route('regress same', 'regress_same', '{regress_same}') > 0 AS made;
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload) VALUES
  ('11111111-2222-4333-8444-0123456789ab', 'regress_same', 'k', 'one', '{"n": 1}'),
  ('11111111-2222-4333-8444-0123456789ab', 'regress_same', 'k', 'two', '{"n": 2}');
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload) VALUES
  ('11111111-2222-4333-8444-0123456789ab', 'regress_same', 'other', 'three', '{"n": 3}');
-- ON CONFLICT finds nothing to conflict with
INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload) VALUES
  ('11111111-2222-4333-8444-0123456789ab', 'regress_same', 'k', 'four', '{"n": 4}') ON CONFLICT DO NOTHING;
SELECT event_type, aggregate_id, count(*) OVER (PARTITION BY created_at) AS at_that_time FROM outbox_internal.log
WHERE id = '11111111-2222-4333-8444-0123456789ab' ORDER BY created_at;
-- all of them go
SELECT event_type, id FROM outbox.peek('regress same', NULL) ORDER BY created_at;
-- looking and acting by id means each of them
SELECT route, state FROM outbox.status('11111111-2222-4333-8444-0123456789ab');
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, topic, error_class, error_code)
SELECT r.id, 0, l.created_at, l.id, l.aggregate_type, l.aggregate_id, l.event_type, 't', 'message', 'CODE'
FROM outbox.route r, outbox_internal.log l WHERE r.name = 'regress same' AND l.id = '11111111-2222-4333-8444-0123456789ab' AND l.event_type IN ('one', 'three');
SELECT route, state, CASE WHEN state = 'dead' THEN error_code END AS code FROM outbox.status('11111111-2222-4333-8444-0123456789ab') ORDER BY state;
SELECT outbox.discard('11111111-2222-4333-8444-0123456789ab', 'regress');
SELECT count(*) AS parked FROM outbox_internal.parked WHERE id = '11111111-2222-4333-8444-0123456789ab';
SET client_min_messages = warning;
SELECT outbox.drop_route('regress same') >= 0 AS dropped;
DROP SERVER regress_same;
DELETE FROM outbox.audit WHERE route = 'regress same';
