-- Refusals that a person meets who operates this, each with what it says to do; and what that is, typed as it says.
-- matrix: R77
\set db :DBNAME
CREATE DATABASE regress_typed;
\c regress_typed
SET client_min_messages = error;
CREATE EXTENSION outbox;
CREATE SERVER regress_typed FOREIGN DATA WRAPPER outbox_log;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
\x on
-- nothing was emitted yet
CALL outbox.drop_expired();
SELECT outbox.create_route('one', 'regress_typed') > 0 AS made, outbox.create_route('other', 'regress_typed') > 0 AS made;
-- (a worker that comes in time would deliver what seek() and replay() count below)
SELECT outbox.pause(route => 'one', reason => 'test');
SET outbox.lone_emit = allow;
SELECT outbox.emit('order', 42, 'e', '{}') IS NOT NULL AS emitted;

-- the inbox: what a person has left out
SELECT * FROM refused('SELECT outbox.forget_consumer(NULL)');
SELECT * FROM refused('SELECT outbox.reprocess(NULL, ''-infinity'')');
SELECT * FROM refused('SELECT outbox.forget_received(''billing'', NULL)');
SELECT * FROM refused('SELECT outbox.seek_stream(NULL, ''orders/0'', 1)');
SELECT * FROM refused('SELECT outbox.received_to(''billing'', NULL)');
SELECT * FROM refused('SELECT outbox.reprocess(''billing'', NULL)');
SELECT * FROM refused('SELECT outbox.reprocess(''billing'', ''-infinity'', NULL)');
-- (of what comes with an event it is another thing)
SELECT * FROM refused('SELECT outbox.receive(''billing'', NULL)');
SELECT outbox.forget_received('billing', '019a2c5e-7d1f-7000-8000-000000000000');
SELECT outbox.reprocess('billing', since => '2026-01-31 12:00+00');
SELECT outbox.reprocess('billing', since => '-infinity');
SELECT outbox.seek_stream('billing', 'orders/0', 4711);
SELECT outbox.received_to('billing', 'orders/0');
SELECT outbox.forget_consumer('billing');

-- looking
SELECT * FROM refused('SELECT outbox.peek(NULL)');
SELECT * FROM refused('SELECT outbox.peek(''one'', -1)');
SELECT * FROM refused('SELECT outbox.events_of(''order'', NULL)');
SELECT * FROM refused('SELECT outbox.events_of(''order'', ''42'', since => NULL)');
SELECT * FROM refused('SELECT outbox.events_of(''order'', ''42'', "limit" => NULL)');
SELECT name FROM outbox.route;
SELECT count(*) FROM outbox.peek('one', NULL);
SELECT event_type FROM outbox.events_of('order', '42');
SELECT count(*) FROM outbox.events_of('order', '42', since => now() - interval '1 hour', "limit" => 100);

-- steering
SELECT * FROM refused('CALL outbox.forget(''customer'', NULL)');
SELECT * FROM refused('CALL outbox.forget(NULL, ''42'')');
SELECT * FROM refused('CALL outbox.seek(''one'', NULL)');
SELECT * FROM refused('CALL outbox.seek(NULL, now())');
SELECT * FROM refused('CALL outbox.drop_expired(keep => ''-1 day'')');
CALL outbox.forget('customer', '42');
CALL outbox.seek('one', '2026-01-31 12:00+00');
CALL outbox.drop_expired(keep => '1 day');
CALL outbox.replay(since => '-infinity', route => 'one', dry_run => false);
CALL outbox.replay(number => 1, dry_run => false);
CALL outbox.replay(number => 2, dry_run => false);
SELECT number, state FROM outbox.replay;

-- the clock
SELECT * FROM refused('SELECT outbox.reset_clock()');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outbox.reset_clock();
ROLLBACK;
BEGIN ISOLATION LEVEL READ COMMITTED; SELECT outbox.reset_clock(); COMMIT;

-- SQL's own commands
CREATE FOREIGN TABLE regress_table () SERVER regress_typed OPTIONS (topic 'x');
ALTER FOREIGN DATA WRAPPER outbox_redis OPTIONS (ADD host 'x');
CREATE TABLE regress_mine ();
ALTER EXTENSION outbox ADD TABLE regress_mine;
CREATE FUNCTION regress_validator(text[], oid) RETURNS void LANGUAGE c AS '$libdir/outbox', 'outbox_log_validator';
CREATE FOREIGN DATA WRAPPER regress_wrapper VALIDATOR regress_validator OPTIONS (a 'b');

-- a route as a dump brings it
SET outbox.allow_loss = on;
UPDATE outbox_internal.lane SET home = '1/1' WHERE route_id = (SELECT id FROM outbox.route WHERE name = 'other');
RESET outbox.allow_loss;
CALL outbox.seek('other', 'infinity');
\x off
SET outbox.allow_loss = on;
DROP EXTENSION outbox CASCADE;
-- schemas that are in the way (the statement of the script, which PostgreSQL 18 shows whole, is not what this is about)
\set SHOW_CONTEXT never
CREATE SCHEMA outbox_internal;
CREATE EXTENSION outbox;
DROP SCHEMA outbox_internal;
CREATE EXTENSION outbox;
DROP EXTENSION outbox CASCADE;
\c :db
DROP DATABASE regress_typed;
