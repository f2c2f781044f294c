-- outbox.receive() and what belongs to it: each answer and each error.
SET client_min_messages = notice;
\set VERBOSITY verbose
\set SHOW_CONTEXT never
\pset format unaligned
CREATE FUNCTION pg_temp.id_at(t timestamptz, n integer) RETURNS uuid LANGUAGE sql AS $$
  SELECT (lpad(to_hex((extract(epoch FROM t) * 1000)::bigint), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid $$;

-- The first time, and again; another consumer; several in one transaction; a savepoint.
SELECT outbox.receive('billing', pg_temp.id_at(now(), 1)) AS "first", outbox.receive('search', pg_temp.id_at(now(), 1)) AS another
\gset
\echo :first :another
BEGIN;
SELECT pg_temp.id_at(now(), 2) AS two, pg_temp.id_at(now(), 3) AS three \gset
SELECT outbox.receive('billing', :'two'), outbox.receive('billing', :'two');
SAVEPOINT s;
SELECT outbox.receive('billing', :'three');
ROLLBACK TO s;
SELECT outbox.receive('billing', :'three'), outbox.receive('billing', :'two');
COMMIT;
SELECT outbox.receive('billing', :'two'), outbox.receive('billing', :'three');
BEGIN;
SELECT pg_temp.id_at(now(), 4) AS four \gset
SELECT outbox.receive('billing', :'four');
ROLLBACK;
SELECT outbox.receive('billing', :'four'), outbox.receive('billing', :'four');

-- An untyped literal, a name with everything that a name may have, case.
SELECT outbox.receive('billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), outbox.receive('billing', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');
SELECT outbox.receive('Billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), outbox.receive('büro: "x"', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');

-- Ids that have no time, or an absurd one, are remembered likewise: version 4, nil, max, 7 of 1970 and of 10889.
SELECT i, outbox.receive('odd', i::uuid), outbox.receive('odd', i::uuid) FROM (VALUES
  ('00000000-0000-0000-0000-000000000000'), ('ffffffff-ffff-ffff-ffff-ffffffffffff'), ('d9428888-122b-11e1-b85c-61cd3cbb3210'),
  ('00000000-0000-7000-8000-000000000000'), ('ffffffff-ffff-7fff-bfff-ffffffffffff'), ('016f5e66-e7ff-7000-8000-000000000000'), ('10000000-0000-7000-8000-000000000001')) t (i);
SELECT what, rows FROM outbox.received WHERE consumer = 'odd' ORDER BY what;
-- The edges of a day, and an id whose rand_a is no microsecond: other producers' are random.
SELECT outbox.receive('edges', pg_temp.id_at(date_trunc('day', now(), 'UTC') - n * interval '1 millisecond', 0)) FROM generate_series(0, 1) n;
SELECT outbox.receive('edges', overlay(pg_temp.id_at(date_trunc('day', now(), 'UTC'), 0)::text PLACING '7fff' FROM 15)::uuid);
SELECT count(DISTINCT day), sum(rows) FROM outbox.received WHERE consumer = 'edges';

-- Too far ahead, too old, and what the setting makes of that.
CREATE FUNCTION pg_temp.refused(what text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  message text; detail text; hint text; state text;
BEGIN
  EXECUTE what;
  RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, state = RETURNED_SQLSTATE;
  RETURN regexp_replace(regexp_replace(concat_ws(E'\n', state, message, detail, hint), '[0-9a-f]{8}-[0-9a-f-]{27}', 'ID', 'g'), '[0-9]{4}-[0-9]{2}-[0-9]{2}', 'DAY', 'g');
END $$;
SELECT pg_temp.refused(format('SELECT outbox.receive(''billing'', %L)', pg_temp.id_at(now() + interval '40 days', 1)));
SELECT pg_temp.refused(format('SELECT outbox.receive(''billing'', %L)', pg_temp.id_at(now() - interval '400 days', 1)));
SELECT pg_temp.refused(format('SELECT outbox.receive_many(''billing'', ARRAY[%L, %L]::uuid[])', pg_temp.id_at(now(), 99), pg_temp.id_at(now() - interval '400 days', 1)));
\set VERBOSITY terse
SET outbox.inbox_expired = skip;
SELECT outbox.receive('billing', pg_temp.id_at(timestamptz '2025-03-04 05:06:07+00', 1));
SET outbox.inbox_expired = accept;
SELECT outbox.receive('billing', pg_temp.id_at(timestamptz '2025-03-04 05:06:07+00', 1)), outbox.receive('billing', pg_temp.id_at(timestamptz '2025-03-04 05:06:07+00', 1));
-- What was accepted is remembered: when it comes again it was seen, whatever the setting is by then; another consumer has not seen it.
RESET outbox.inbox_expired;
SELECT pg_temp.id_at(timestamptz '2025-03-04 05:06:07+00', 1) AS old, pg_temp.id_at(timestamptz '2025-03-04 05:06:07+00', 2) AS older \gset
SELECT outbox.receive('billing', :'old'), (SELECT count(*) FROM outbox.receive_many('billing', ARRAY[:'old', :'old']::uuid[])), outbox.receive('billing', :'old');
SELECT outbox.receive('search', :'old');
SELECT count(*) FROM outbox.receive_many('billing', ARRAY[:'old', :'older']::uuid[]);
SELECT count(*) FROM outbox.receive_many('billing', ARRAY(SELECT :'old'::uuid FROM generate_series(1, 65)));
-- In the transaction that accepts it, and after that was taken back; after its mark was.
BEGIN;
SET LOCAL outbox.inbox_expired = accept;
SELECT outbox.receive('billing', :'older');
SET LOCAL outbox.inbox_expired = error;
SELECT outbox.receive('billing', :'older');
ROLLBACK;
SELECT outbox.receive('billing', :'older');
BEGIN;
SELECT outbox.forget_received('billing', :'old');
SELECT outbox.receive('billing', :'old');
ROLLBACK;
SELECT outbox.receive('billing', :'old');
-- An event whose day is over is not accepted while its mark is still there; nor is one that comes twice in a batch.
BEGIN;
UPDATE outbox_internal.inbox_kept SET kept_from = kept_from + 40;
SET LOCAL outbox.inbox_expired = accept;
SELECT outbox.receive('billing', :'two'), (SELECT count(*) FROM outbox.receive_many('billing', ARRAY[:'two', :'three']::uuid[]));
SELECT array_agg(right(i::text, 1)) FROM outbox.receive_many('billing', ARRAY[:'two', pg_temp.id_at(now(), 8), :'old', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a19', pg_temp.id_at(now(), 8), :'older']) i;
SELECT outbox.receive('billing', pg_temp.id_at(now(), 8)), outbox.receive('billing', pg_temp.id_at(now(), 9)), outbox.receive('billing', pg_temp.id_at(now(), 9));
ROLLBACK;
SET outbox.inbox_expired = maybe;
RESET outbox.inbox_expired;
-- In its own words each server says it.
\set VERBOSITY sqlstate
SET outbox.inbox_retention = '29d';
SET outbox.inbox_retention = '23h';
\set VERBOSITY terse
-- Thousands of days make no more tables, and leave the rest alone.
SET outbox.inbox_expired = accept;
SELECT count(*) FILTER (WHERE outbox.receive('thousands', pg_temp.id_at(timestamptz '2021-01-01 00:00:00+00' + d * interval '12 hours', d))) FROM generate_series(1, 4000) d;
SELECT count(*) FILTER (WHERE outbox.receive('thousands', pg_temp.id_at(timestamptz '2021-01-01 00:00:00+00' + d * interval '12 hours', d))) FROM generate_series(1, 4000) d;
RESET outbox.inbox_expired;
SELECT count(*) FROM pg_class WHERE relnamespace = 'outbox_internal'::regnamespace AND relname ~ '^inbox_.*[0-9ab]$';

-- Many at once: what is new, once, in the order given; undated, NULL and none among them.
SELECT i = pg_temp.id_at(now(), 21) AS second, i = pg_temp.id_at(now(), 20) AS "first", i = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12' AS undated
FROM outbox.receive_many('many', ARRAY[pg_temp.id_at(now(), 21), pg_temp.id_at(now(), 20), pg_temp.id_at(now(), 21), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12']) i;
SELECT * FROM outbox.receive_many('many', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13}');
SELECT count(*) FROM outbox.receive_many('many', '{}');
SELECT now() AS t \gset
SELECT count(*) FROM outbox.receive_many('thousand', ARRAY(SELECT pg_temp.id_at(timestamptz :'t' - (n % 5) * interval '1 day', n) FROM generate_series(1, 1000) n));
SELECT count(*) FROM outbox.receive_many('thousand', ARRAY(SELECT pg_temp.id_at(timestamptz :'t' - (n % 5) * interval '1 day', n) FROM generate_series(1, 1001) n));
SELECT count(*) FROM outbox.receive_many('many', ARRAY[NULL::uuid]);
SELECT count(*) FROM outbox.receive_many('many', NULL);

-- The newest of a key.
SELECT outbox.receive('cache', 'orders', '42', 1700000000000002), outbox.receive('cache', 'orders', '42', 1700000000000002),
       outbox.receive('cache', 'orders', '42', 1700000000000001), outbox.receive('cache', 'orders', '42', '1700000000000003'),
       outbox.receive('cache', 'orders', '43', 1700000000000001), outbox.receive('cache', 'refunds', '42', 1700000000000001), outbox.receive('cache', 'orders', '', 1700000000000001);
\set VERBOSITY default
SELECT outbox.receive('cache', 'orders', '42', 1700000000003);
SELECT outbox.receive('cache', 'orders', '42', 1700000000000003000);
SELECT outbox.receive('cache', 'orders', '42', -1);
SELECT outbox.receive('cache', 'orders', repeat('x', 2001), 1700000000000001);
SELECT outbox.receive('cache', repeat('x', 201), 'x', 1700000000000001);
\set VERBOSITY terse
SELECT outbox.receive('cache', repeat('x', 200), (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 62) n), 1700000000000001);

-- Numbered streams.
SELECT outbox.received_to('ordered', 'orders/0') AS "none", outbox.receive_next('ordered', 'orders/0', 17) AS "first", outbox.receive_next('ordered', 'orders/0', 17) AS repeated,
       outbox.receive_next('ordered', 'orders/0', 16) AS earlier, outbox.receive_next('ordered', 'orders/0', 19) AS gap, outbox.receive_next('ordered', 'orders/0', 18) AS next,
       outbox.receive_next('ordered', 'orders/0', 25, allow_gaps => true) AS hole, outbox.receive_next('ordered', 'orders/0', 25, allow_gaps => true) AS again,
       outbox.receive_next('ordered', 'orders/1', 0) AS other, outbox.received_to('ordered', 'orders/0') AS reached;
SELECT outbox.seek_stream('ordered', 'orders/0', 10), outbox.receive_next('ordered', 'orders/0', 11), outbox.receive_next('ordered', 'orders/0', 10), outbox.seek_stream('ordered', 'orders/0', NULL),
       outbox.receive_next('ordered', 'orders/0', 500), outbox.seek_stream('ordered', 'orders/2', 0), outbox.received_to('ordered', 'orders/2'), outbox.receive_next('ordered', 'orders/2', 0), outbox.seek_stream('ordered', 'orders/3', NULL);
SELECT outbox.receive_next('ordered', 'orders/0', 9223372036854775807, true), outbox.receive_next('ordered', 'orders/0', 9223372036854775807);
\set VERBOSITY default
SELECT outbox.receive_next('ordered', 'orders/0', -1);
SELECT outbox.seek_stream('ordered', 'orders/0', -1);
SELECT outbox.receive_next('ordered', '', 1);

-- NULL is never an answer.
SELECT outbox.receive('billing', NULL);
\set VERBOSITY terse
SELECT outbox.receive(NULL, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12');
SELECT outbox.receive('cache', NULL, '42', 1700000000000001);
SELECT outbox.receive('cache', 'orders', NULL, 1700000000000001);
SELECT outbox.receive('cache', 'orders', '42', NULL);
SELECT outbox.receive_next('ordered', 'x', NULL);
SELECT outbox.receive_next('ordered', 'x', 1, NULL);
SELECT outbox.receive_next('ordered', NULL, 1);
SELECT outbox.received_to('ordered', NULL);
-- Names.
\set VERBOSITY default
SELECT outbox.receive('', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12');
\set VERBOSITY terse
SELECT outbox.receive(' billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12');
SELECT outbox.receive(E'bill\ning', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12');
SELECT outbox.receive(repeat('x', 101), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12');
BEGIN READ ONLY;
SELECT outbox.receive('billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a19');
ROLLBACK;

-- Taking back.
SELECT outbox.forget_received('billing', :'two'), outbox.forget_received('billing', :'two'), outbox.receive('billing', :'two');
SELECT outbox.forget_received('odd', 'ffffffff-ffff-ffff-ffff-ffffffffffff'), outbox.receive('odd', 'ffffffff-ffff-ffff-ffff-ffffffffffff'), outbox.receive('odd', 'ffffffff-ffff-ffff-ffff-ffffffffffff');
SELECT outbox.reprocess('thousand', date_trunc('day', timestamptz :'t', 'UTC') - interval '1 day', date_trunc('day', timestamptz :'t', 'UTC'));
SELECT outbox.reprocess('thousand', '-infinity');
SELECT outbox.reprocess('thousand', now(), now());
-- Accepted ones are taken back as well, each is one event; ids without a time are not.
SELECT outbox.receive('thousand', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12');
SET outbox.inbox_expired = accept;
SELECT outbox.receive('thousand', :'old'), outbox.receive('thousand', :'older'), outbox.receive('thousand', pg_temp.id_at(now(), 1));
SELECT outbox.reprocess('thousand', '2025-01-01', '2025-03-01'), outbox.reprocess('thousand', '2025-03-01', '2025-03-31');
SELECT outbox.receive('thousand', :'old'), outbox.receive('thousand', :'older'), outbox.receive('thousand', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12');
SELECT outbox.reprocess('thousand', '-infinity'), outbox.reprocess('thousand', '-infinity'), outbox.receive('thousand', :'old'), outbox.reprocess('thousand', '-infinity');
-- Times beyond those of dated ids are the first or the last of them. (In milliseconds an id has room for the year 10889.)
SELECT outbox.receive('times', :'old'), outbox.receive('times', pg_temp.id_at(now(), 1));
SELECT outbox.reprocess('times', '-infinity', '20000-01-01'), outbox.receive('times', :'old'), outbox.reprocess('times', '2025-01-01', '10889-08-03'), outbox.receive('times', :'old'),
       outbox.reprocess('times', '4714-11-24 00:00:00+00 BC', '294276-12-31 23:59:59.999999+00'), outbox.receive('times', :'old');
SELECT outbox.reprocess('times', '-infinity', '1900-01-01'), outbox.reprocess('times', '2120-01-01'), outbox.reprocess('times', '10890-01-01', '20000-01-01'), outbox.reprocess('times', '-infinity', '2120-01-01');
RESET outbox.inbox_expired;
SELECT outbox.reprocess('times', 'infinity');
SELECT outbox.reprocess('thousand', NULL);
SELECT outbox.reprocess('thousand', '-infinity', NULL);
SELECT outbox.reprocess('thousand', NULL);
SELECT outbox.forget_consumer('cache'), outbox.forget_consumer('cache'), outbox.receive('cache', 'orders', '42', 1700000000000001);
SELECT consumer, what, rows FROM outbox.received WHERE consumer IN ('ordered', 'cache', 'thousand') ORDER BY 1, 2;
SELECT action, detail - 'event' - 'since' - 'until' FROM outbox.audit WHERE action IN ('forget_received', 'reprocess', 'forget_consumer', 'seek_stream') ORDER BY at, action, detail::text;

-- Not by hand.
\set VERBOSITY default
DELETE FROM outbox_internal.inbox_undated_a;
\set VERBOSITY terse
TRUNCATE outbox_internal.inbox_day_03;
DELETE FROM outbox_internal.inbox_key;
DELETE FROM outbox_internal.inbox_kept;
-- Let through it is audited, as what was done: also with another role, and not what was rolled back.
CREATE ROLE regress_inbox_other SUPERUSER;
BEGIN;
SET LOCAL outbox.allow_loss = on;
DELETE FROM outbox_internal.inbox_key WHERE consumer = 'nobody';
TRUNCATE outbox_internal.inbox_day_03, outbox_internal.inbox_stream;
SAVEPOINT s;
DELETE FROM outbox_internal.inbox_undated_a;
ROLLBACK TO s;
SET LOCAL ROLE regress_inbox_other;
SET LOCAL search_path = '';
DELETE FROM outbox_internal.inbox_undated_b WHERE false;
RESET ROLE;
SELECT outbox.forget_consumer('nobody');
SELECT who = session_user AS who, action, detail FROM outbox.audit WHERE at >= now() ORDER BY detail ->> 'command';
ROLLBACK;
DROP ROLE regress_inbox_other;
DROP TABLE outbox_internal.inbox_day_03;
-- One row says from when on marks are kept.
SELECT count(*) FROM outbox_internal.inbox_kept;
INSERT INTO outbox_internal.inbox_kept SELECT * FROM outbox_internal.inbox_kept;

-- Rights. Nobody by default; all, some, and no way to take marks back.
CREATE ROLE regress_inbox;
CREATE ROLE regress_inbox_group;
SET ROLE regress_inbox;
SELECT outbox.receive('billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14');
RESET ROLE;
SELECT outbox.grant_receive('regress_inbox', '{billing,search-*}');
SET ROLE regress_inbox;
SELECT outbox.receive('billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14'), outbox.receive('search-1', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14'),
       outbox.receive('billing', 'orders', '42', 1700000000000001), outbox.receive_next('billing', 'x', 1), outbox.received_to('billing', 'x'), (SELECT count(*) FROM outbox.receive_many('billing', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14}'));
\set VERBOSITY default
SELECT outbox.receive('search', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14');
\set VERBOSITY terse
SELECT outbox.receive('ordered', 'orders', '42', 1700000000000001);
SELECT outbox.receive_next('ordered', 'x', 1);
SELECT outbox.received_to('ordered', 'orders/0');
SELECT count(*) FROM outbox.receive_many('ordered', '{}');
SELECT outbox.forget_received('billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14');
SELECT outbox.forget_consumer('billing');
SELECT outbox.reprocess('billing', '-infinity');
SELECT outbox.seek_stream('billing', 'x', 1);
SELECT count(*) FROM outbox.received;
SELECT count(*) FROM outbox_internal.inbox_undated_a;
SET outbox.inbox_retention = '1d';
RESET ROLE;
-- The right changes while the session goes on.
SELECT outbox.grant_receive('regress_inbox');
SET ROLE regress_inbox;
SELECT outbox.receive('search', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14');
RESET ROLE;
SELECT outbox.revoke_receive('regress_inbox');
SET ROLE regress_inbox;
SELECT outbox.receive('search', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a15');
RESET ROLE;
SELECT outbox.revoke_receive('regress_inbox');
-- As a member of a group, and as the owner of a function.
SELECT outbox.grant_receive('regress_inbox_group', '{billing}');
GRANT regress_inbox_group TO regress_inbox;
SET ROLE regress_inbox;
SELECT outbox.receive('billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a16');
SELECT outbox.receive('search', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a16');
RESET ROLE;
SELECT outbox.revoke_receive('regress_inbox');
-- Renamed; made anew under the same name.
ALTER ROLE regress_inbox_group RENAME TO regress_inbox_renamed;
SELECT role, role_id = role::text::regrole AS same, consumers FROM outbox_internal.receive_right WHERE role LIKE 'regress%';
SET ROLE regress_inbox;
SELECT outbox.receive('search', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a16');
RESET ROLE;
SELECT outbox.grant_receive(NULL);
SELECT outbox.grant_receive('regress_nobody');
SELECT outbox.grant_receive('4000000000');
SELECT outbox.grant_receive('regress_inbox', '{}');
SELECT outbox.grant_receive('regress_inbox', '{{a},{b}}');
SELECT outbox.grant_receive('regress_inbox', '{a,NULL}');
SELECT outbox.revoke_receive(NULL);
-- An operator may.
SELECT outbox.grant_operate('regress_inbox');
SET ROLE regress_inbox;
SELECT outbox.forget_received('billing', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a16'), (SELECT count(*) > 0 FROM outbox.received);
RESET ROLE;
SELECT outbox.revoke_operate('regress_inbox');
SELECT outbox.revoke_receive('regress_inbox_renamed');
-- By hand; and what is left of a right that was taken by other ways: told with what to type.
GRANT EXECUTE ON FUNCTION outbox.receive(text, uuid) TO regress_inbox;
SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%receive%';
REVOKE EXECUTE ON FUNCTION outbox.receive(text, uuid) FROM regress_inbox;
CREATE ROLE regress_inbox_gone;
SELECT outbox.grant_receive('regress_inbox', '{billing}'), outbox.grant_receive('regress_inbox_gone', '{a,b}');
DROP OWNED BY regress_inbox, regress_inbox_gone;
DROP ROLE regress_inbox_gone;
SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%receive%' ORDER BY 1;
DELETE FROM outbox_internal.receive_right WHERE role = 'regress_inbox_gone';
SELECT outbox.revoke_receive('regress_inbox');
-- More roles in one session than it remembers rights of, in turn and again: each by its own.
DO $$
BEGIN
  FOR i IN 1 .. 10 LOOP
    EXECUTE format('CREATE ROLE regress_inbox_%s', i);
    PERFORM outbox.grant_receive(format('regress_inbox_%s', i)::regrole, ARRAY['c' || i, 'all']);
  END LOOP;
END $$;
CREATE FUNCTION pg_temp.may(role text, consumer text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SET LOCAL ROLE %I', role);
  PERFORM outbox.received_to(consumer, 's');
  RESET ROLE;
  RETURN true;
EXCEPTION WHEN insufficient_privilege THEN
  RETURN false;
END $$;
SELECT string_agg(i || ':' || pg_temp.may('regress_inbox_' || i, 'c' || i) || pg_temp.may('regress_inbox_' || i, 'c' || (i % 10 + 1)) || pg_temp.may('regress_inbox_' || i, 'all'), ' ')
FROM (SELECT (n - 1) % 10 + 1 FROM generate_series(1, 25) n) n (i);
DO $$
BEGIN
  FOR i IN 1 .. 10 LOOP
    PERFORM outbox.revoke_receive(format('regress_inbox_%s', i)::regrole);
    EXECUTE format('DROP ROLE regress_inbox_%s', i);
  END LOOP;
END $$;
DROP ROLE regress_inbox, regress_inbox_renamed;

-- Whose search_path it is does not matter, nor does an operator of his own.
CREATE SCHEMA regress_inbox_path;
CREATE FUNCTION regress_inbox_path.lt(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$;
CREATE OPERATOR regress_inbox_path.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = regress_inbox_path.lt);
SET search_path = regress_inbox_path, pg_catalog;
SELECT outbox.receive('path', 'orders', '1', 1700000000000001), outbox.receive('path', 'orders', '1', 1700000000000002), outbox.receive_next('path', 'x', 1, true), outbox.receive_next('path', 'x', 3, true),
       outbox.receive('path', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), (SELECT count(*) > 0 FROM outbox.received);
RESET search_path;
DROP SCHEMA regress_inbox_path CASCADE;

-- The last position that there is: what comes after it is no number, and seek_stream() still leads away from there.
SELECT outbox.receive_next('last', 's', 9223372036854775807), outbox.receive_next('last', 's', 5);
SELECT outbox.seek_stream('last', 's', 5), outbox.receive_next('last', 's', 5), outbox.receive_next('last', 's', 6);

-- The extension does not go with what consumers have handled: of events of days that are kept, of ids without a time, keys and positions.
SELECT count(outbox.forget_consumer(c)) FROM (SELECT DISTINCT consumer FROM outbox.received) r (c);
SELECT count(*) FROM outbox.received;
SELECT outbox.receive('handled', pg_temp.id_at(now(), n)) FROM generate_series(1, 2) n;
\set VERBOSITY default
SET client_min_messages = warning;
DROP EXTENSION outbox CASCADE;
BEGIN;
SET LOCAL outbox.allow_loss = on;
DROP EXTENSION outbox CASCADE;
ROLLBACK;
SELECT outbox.forget_consumer('handled'), outbox.receive('handled', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
DROP EXTENSION outbox CASCADE;
SELECT outbox.forget_consumer('handled'), outbox.receive('handled', 'orders', '1', 1700000000000001), outbox.receive_next('last', 's', 5);
DROP EXTENSION outbox CASCADE;
SELECT count(outbox.receive('c' || n, pg_temp.id_at(now(), 1))) FROM generate_series(1, 11) n;
DROP EXTENSION outbox CASCADE;
-- What is of days that are not kept any more is nothing to keep, and nothing is where all are taken back.
SELECT count(outbox.forget_consumer(c)) FROM (SELECT DISTINCT consumer FROM outbox.received) r (c);
SELECT outbox.receive('handled', pg_temp.id_at(now(), 1));
BEGIN;
UPDATE outbox_internal.inbox_kept SET kept_from = kept_from + 40;
DROP EXTENSION outbox CASCADE;
ROLLBACK;
SET client_min_messages = notice;

-- Nothing is left.
SELECT count(outbox.forget_consumer(c)) FROM (SELECT DISTINCT consumer FROM outbox.received) r (c);
SELECT count(*) FROM outbox.received;
DELETE FROM outbox.audit WHERE action IN ('forget_received', 'reprocess', 'forget_consumer', 'seek_stream', 'grant_receive', 'revoke_receive');
