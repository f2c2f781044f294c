-- create_route, alter_route, drop_route: what they take, and what they refuse.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_events FOREIGN DATA WRAPPER outbox_log;
CREATE SERVER regress_kafka FOREIGN DATA WRAPPER outbox_kafka;
CREATE SERVER regress_redis FOREIGN DATA WRAPPER outbox_redis;
CREATE FOREIGN DATA WRAPPER regress_other;
CREATE SERVER regress_other FOREIGN DATA WRAPPER regress_other;

CREATE FUNCTION pg_temp.routes() RETURNS TABLE (name text, server name, aggregate_types text[], event_types text[],
    topic text, key text, lanes int, options jsonb, start text, positions bigint, created_by name)
  LANGUAGE sql AS $$
    SELECT r.name, r.server, r.aggregate_types, r.event_types, r.topic, r.key, r.lanes, r.options,
           r.start_time::text, (SELECT count(*) FROM outbox_internal.lane l WHERE l.route_id = r.id), r.created_by
    FROM outbox.route r WHERE r.name LIKE 'regress%' ORDER BY r.name $$;
\x on
SET datestyle = iso;
-- the short form and the long one
SELECT outbox.create_route('regress everything', server => 'regress_events') > 0 AS made;
SELECT outbox.create_route('regress orders', 'regress_redis', aggregate_types => '{order,order_*,order}',
  event_types => '{*.created}', topic => '{aggregate_type:kebab}.{aggregate_id}', key => '{aggregate_type}/{aggregate_id}',
  lanes => 4, start => 'earliest', options => '{"mode": "stream"}') > 0 AS made;
SET timezone = 'UTC';
SELECT outbox.create_route('regress since', 'regress_events', '{regress_since}', start => '2026-01-02 03:04:05.678901+00') > 0 AS made;
SELECT * FROM pg_temp.routes();
\x off
SELECT r.name, l.lane, l.since = '-infinity' AS first, l.window_from::text = '3:3:' AS from_the_beginning,
       l.window_to IS NOT NULL AS half_way, l.done_to
FROM outbox_internal.lane l JOIN outbox.route r ON r.id = l.route_id WHERE r.name LIKE 'regress%' ORDER BY 1, 2;

-- names and servers
SELECT outbox.create_route('regress everything', server => 'regress_events');
SELECT outbox.create_route(NULL, server => 'regress_events');
SELECT outbox.create_route('  ', server => 'regress_events');
SELECT outbox.create_route('regress x', NULL);
SELECT outbox.create_route('regress x', 'regress_nowhere');
SELECT outbox.create_route('regress x', 'regress_other');
SELECT outbox.create_route('regress x', 'regress_kafka');

-- patterns
SELECT outbox.create_route('regress x', 'regress_events', aggregate_types => '{}');
SELECT outbox.create_route('regress x', 'regress_events', aggregate_types => NULL);
SELECT outbox.create_route('regress x', 'regress_events', aggregate_types => '{order,NULL}');
SELECT outbox.create_route('regress x', 'regress_events', event_types => '{""}');
SELECT outbox.create_route('regress x', 'regress_events', event_types => ARRAY[repeat('x', 256)]);
SELECT outbox.create_route('regress x', 'regress_events', event_types => ARRAY[E'a\tb']);
SELECT outbox.create_route('regress x', 'regress_events', event_types => array_agg('t' || i)) FROM generate_series(1, 257) i;

-- templates
\set VERBOSITY sqlstate
SELECT outbox.create_route('regress x', 'regress_events', topic => '');
SELECT outbox.create_route('regress x', 'regress_events', topic => 'a b');
SELECT outbox.create_route('regress x', 'regress_events', topic => '{aggregate_type');
SELECT outbox.create_route('regress x', 'regress_events', topic => '{aggregate}');
SELECT outbox.create_route('regress x', 'regress_events', topic => '{aggregate_type:upper}');
SELECT outbox.create_route('regress x', 'regress_events', topic => '{aggregate_id}');
SELECT outbox.create_route('regress x', 'regress_events', topic => repeat('x', 250));
SELECT outbox.create_route('regress x', 'regress_redis', topic => repeat('x', 513));
SELECT outbox.create_route('regress x', 'regress_events', key => '{nothing}');
\set VERBOSITY default
SELECT outbox.create_route('regress x', 'regress_events', topic => 'orders.{aggregate}');

-- lanes, start, options
SELECT outbox.create_route('regress x', 'regress_events', lanes => 0);
SELECT outbox.create_route('regress x', 'regress_events', lanes => 65);
SELECT outbox.create_route('regress x', 'regress_events', start => NULL);
SELECT outbox.create_route('regress x', 'regress_events', start => 'sometime');
SELECT outbox.create_route('regress x', 'regress_events', start => '9999-01-01');
SELECT outbox.create_route('regress x', 'regress_events', start => 'infinity');
BEGIN;
SELECT outbox.create_route('regress x', 'regress_events', start => '-infinity') IS NOT NULL AS made;
SELECT start_time, start_snapshot FROM outbox.route WHERE name = 'regress x';
ROLLBACK;
-- What belongs to a route goes with it, where foreign keys are not looked at, too.
BEGIN;
SELECT outbox.create_route('regress x', 'regress_events', lanes => 2) AS x \gset
SELECT outbox.pause('regress x', aggregate_type => 'a', aggregate_id => 'k', reason => 'test');
SET LOCAL session_replication_role = replica;
SELECT outbox.drop_route('regress x');
SELECT (SELECT count(*) FROM outbox_internal.lane l WHERE l.route_id NOT IN (SELECT id FROM outbox.route)) AS lanes,
       (SELECT count(*) FROM outbox.pause p WHERE p.route_id NOT IN (SELECT id FROM outbox.route)) AS pauses;
ROLLBACK;
SELECT outbox.create_route('regress x', 'regress_events', options => '[]');
SELECT outbox.create_route('regress x', 'regress_events', options => '{"mode": "stream"}');
SELECT outbox.create_route('regress x', 'regress_redis', options => '{"mood": "stream"}');
SELECT outbox.create_route('regress x', 'regress_redis', options => '{"mode": "queue"}');
SELECT outbox.create_route('regress x', 'regress_redis', options => '{"maxlen": 1000}');
-- tries: what is refused says what each of these means
SELECT outbox.create_route('regress x', 'regress_events', on_failure => 'stop');
SELECT outbox.create_route('regress x', 'regress_events', max_attempts => 0);
SELECT outbox.create_route('regress x', 'regress_events', backoff_base => '0');
SELECT outbox.create_route('regress x', 'regress_events', backoff_cap => '8 days');
SELECT outbox.alter_route('regress orders', backoff_cap => '1 ms');
SELECT count(*) AS no_trace FROM outbox.route WHERE name = 'regress x';

-- alter_route: NULL keeps; what is kept is checked against the new destination
\x on
SELECT outbox.alter_route('regress orders', event_types => '{*}', key => '{aggregate_id}', options => '{"mode": "list"}');
SELECT * FROM pg_temp.routes() WHERE name = 'regress orders';
\x off
SELECT outbox.alter_route('regress orders', server => 'regress_events');
SELECT outbox.alter_route('regress orders', server => 'regress_events', topic => 'orders');
SELECT outbox.alter_route('regress orders', server => 'regress_events', topic => 'orders', options => '{}');
SELECT server, topic, options FROM pg_temp.routes() WHERE name = 'regress orders';
SELECT outbox.alter_route('regress orders', lanes => 4);
-- another number of lanes comes about after commit: one transaction, so that no worker is faster than the test
BEGIN;
SELECT outbox.alter_route('regress orders', lanes => 5);
SELECT lanes, lanes_wanted, common_snapshot IS NULL AS nowhere_yet FROM outbox.route WHERE name = 'regress orders';
SELECT outbox.alter_route('regress orders', lanes => 5);
SELECT outbox.alter_route('regress orders', lanes => 3);
SELECT outbox.alter_route('regress orders', topic => 'orders');
SELECT lanes, lanes_wanted FROM outbox.route WHERE name = 'regress orders';
SELECT outbox.alter_route('regress orders', lanes => 4);
SELECT lanes, lanes_wanted FROM outbox.route WHERE name = 'regress orders';
COMMIT;
SELECT outbox.alter_route('regress orders', lanes => 0);
SELECT outbox.alter_route('regress orders', aggregate_types => '{}');
SELECT outbox.alter_route('regress orders', server => 'regress_nowhere');
SELECT outbox.alter_route('regress orders');
SELECT outbox.alter_route('regress nothing', topic => 'x');
SELECT outbox.alter_route(NULL);

-- a prepared transaction would tell no worker
BEGIN;
SELECT outbox.create_route('regress prepared', server => 'regress_events') > 0 AS made;
PREPARE TRANSACTION 'regress_outbox';
BEGIN;
SAVEPOINT a;
SELECT outbox.drop_route('regress since');
ROLLBACK TO a;
COMMIT;
BEGIN READ ONLY;
SELECT outbox.create_route('regress read only', server => 'regress_events');
ROLLBACK;

-- a route made again is a new one
SELECT id AS old_id FROM outbox.route WHERE name = 'regress everything' \gset
SELECT outbox.drop_route('regress everything') >= 0 AS dropped;
SELECT count(*) AS lanes_left FROM outbox_internal.lane WHERE route_id = :old_id;
SELECT outbox.create_route('regress everything', server => 'regress_events') > :old_id AS new_id;
SELECT outbox.drop_route('regress nothing');
SELECT outbox.drop_route(NULL);

SET client_min_messages = warning;
SELECT count(outbox.drop_route(name)) AS dropped FROM outbox.route WHERE name LIKE 'regress%';
DROP SERVER regress_events, regress_kafka, regress_redis;
DROP FOREIGN DATA WRAPPER regress_other CASCADE;

-- A change that leaves waiting events behind says how many, one and two, and the audit keeps it.
RESET client_min_messages;
CREATE SERVER regress_left FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
SELECT outbox.create_route('regress left', server => 'regress_left', aggregate_types => '{regress_left}', lanes => 5) > 0 AS made;
-- A worker that passed them while the route wants none of them would leave nothing to count.
SELECT outbox.pause('regress left', reason => 'stands still');
SELECT count(outbox.emit('regress_left', n, 't' || n, '{}')) FROM generate_series(1, 3) n;
SELECT outbox.alter_route('regress left', event_types => '{t1,t2}');
SELECT outbox.alter_route('regress left', event_types => '{t1,t2}');
SELECT outbox.alter_route('regress left', event_types => '{t4}');
SELECT outbox.alter_route('regress left', event_types => '{*}');
SELECT detail -> 'no_longer_wanted' AS no_longer_wanted FROM outbox.audit WHERE route = 'regress left' AND action = 'alter_route' ORDER BY at;
\set VERBOSITY terse
SELECT outbox.drop_route('regress left');
\set VERBOSITY default
DROP SERVER regress_left;
-- they are not there for the files that follow
SET client_min_messages = error;
SET outbox.allow_loss = on;
DELETE FROM outbox_internal.log WHERE aggregate_type = 'regress_left';
DELETE FROM outbox.audit WHERE route = 'regress left';
RESET outbox.allow_loss;
RESET client_min_messages;
