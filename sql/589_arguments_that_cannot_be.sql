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
\c :db
DROP DATABASE regress_cannot_be;
