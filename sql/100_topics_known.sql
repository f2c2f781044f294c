-- Route option topics_known: what it takes, where it is kept, and that its changes are in the audit. What it does to events:
-- test/t/231_topics_known.pl.
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
SELECT outbox.alter_route('known', options => '{"topics_known": []}');
SELECT options FROM outbox.route WHERE name = 'known';
SELECT outbox.drop_route('known') >= 0 AS dropped;
DROP SERVER regress_known, regress_known_log;
