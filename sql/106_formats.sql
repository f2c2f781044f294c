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

SELECT count(outbox.drop_route(name)) AS dropped FROM outbox.route WHERE name LIKE 'regress%';
DROP SERVER regress_events, regress_redis;
