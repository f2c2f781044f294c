-- Arguments that nothing can be meant by are refused by the function that takes them, with words of ours.
\set db :DBNAME
CREATE DATABASE regress_cannot_be;
\c regress_cannot_be
CREATE EXTENSION outbox;
CREATE SERVER regress_cannot_be FOREIGN DATA WRAPPER outbox_log;
BEGIN;
SELECT outbox.create_route('r', 'regress_cannot_be') > 0 AS made;
SELECT outbox.pause('r', reason => 'the test needs no worker') AS paused;
COMMIT;

-- A key longer than emit() takes: no index takes it (random, so that it does not become small by compression).
SELECT string_agg(md5(n::text), '') AS long FROM generate_series(1, 200) n \gset
SELECT length(:'long') AS bytes;
SELECT outbox.pause('r', aggregate_type => 'a', aggregate_id => :'long', reason => 'test');
SELECT outbox.pause('r', aggregate_type => :'long', aggregate_id => '1', reason => 'test');
SELECT outbox.pause('r', topic => :'long', reason => 'test');
SELECT outbox.pause('r', aggregate_type => 'a', aggregate_id => left(:'long', 1001), reason => 'test');
SELECT outbox.pause('r', aggregate_type => left(:'long', 256), aggregate_id => '1', reason => 'test');
-- the longest that can be
SELECT outbox.pause('r', aggregate_type => left(:'long', 255), aggregate_id => left(:'long', 1000), reason => 'test');
SELECT outbox.resume('r', aggregate_type => left(:'long', 255), aggregate_id => left(:'long', 1000));
-- There is none to be resumed.
SET client_min_messages = warning;
SELECT outbox.resume('r', aggregate_type => 'a', aggregate_id => :'long');
RESET client_min_messages;

-- A list of several dimensions: flattened, it would mean what nobody wrote.
SELECT outbox.create_route('two', 'regress_cannot_be', aggregate_types => '{{a,b},{c,d}}');
SELECT outbox.create_route('two', 'regress_cannot_be', event_types => '{{a},{b}}');
SELECT outbox.alter_route('r', aggregate_types => '{{a,b},{c,d}}');
SELECT outbox.alter_route('r', event_types => '{{{a}}}');
SELECT name, aggregate_types, event_types FROM outbox.route;
CALL outbox.replay(ids => '{{018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f},{018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0e}}', route => 'r');
SELECT * FROM outbox.receive_many('c', '{{018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f},{018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0e}}');

-- Not to know which schema is to go is no answer "there was none".
SELECT outbox.drop_event_schema(NULL, NULL);
SELECT outbox.drop_event_schema('o', NULL);
SELECT outbox.drop_event_schema(NULL, 'e');
SELECT outbox.drop_event_schema('o', 'e');

-- What is parked of an event: of none, and on a route that does not exist.
SELECT * FROM outbox.parked_content(NULL);
SELECT * FROM outbox.parked_content('018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f', route => 'no such');
SELECT * FROM outbox.parked_content('018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f', route => '');
SELECT * FROM outbox.parked_content('018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f', route => 'r');
SELECT * FROM outbox.parked_content('018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f', route => NULL);

-- A boolean that is null says neither.
SELECT outbox.adopt(keep_positions => NULL);
SELECT outbox.reset_clock(NULL);

-- A time that is before all others, or after them, is called what it is.
SET TimeZone = 'UTC';
CALL outbox.replay(since => '-infinity', until => '4714-11-24 00:00:00+00 BC', route => 'r');
CALL outbox.replay(since => '294276-12-31 23:59:59+00', route => 'r');
CALL outbox.redrive(until => '0001-01-01 00:00:00+00');
CALL outbox.redrive(until => '-infinity');
RESET TimeZone;

-- A role that there is not is called by its number.
SELECT outbox.grant_emit(0::regrole);
SELECT outbox.revoke_emit('0'::regrole);
SELECT outbox.grant_receive('4294967295'::regrole, '{billing}');
SELECT outbox.grant_operate(0::oid);

-- A topic of no name is not the same as none.
SELECT * FROM outbox.test_server('regress_cannot_be', topic => '');
SELECT * FROM outbox.test_server('regress_cannot_be', topic => NULL);
\c :db
DROP DATABASE regress_cannot_be;
