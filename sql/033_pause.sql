-- pause and resume: of what, how they are told apart, and what happens to parked events of a key.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_pause FOREIGN DATA WRAPPER outbox_log;
BEGIN;
SELECT outbox.create_route('regress pause', 'regress_pause', '{regress_pause}') > 0 AS made;
-- each kind
SELECT outbox.pause('regress pause', reason => 'upkeep');
SELECT outbox.pause(server => 'regress_pause', reason => 'broker moves');
SELECT outbox.pause('regress pause', topic => 'a.topic', reason => 'topic is made anew');
SELECT outbox.pause('regress pause', aggregate_type => 'order', aggregate_id => '42', reason => 'under dispute');
COMMIT;
CREATE VIEW pg_temp.pauses AS
  SELECT r.name AS route, p.server, p.topic, p.aggregate_type, p.aggregate_id, p.reason, p.paused_at <= clock_timestamp() AS since,
    p.paused_by = session_user AS by_me FROM outbox.pause p LEFT JOIN outbox.route r ON r.id = p.route_id ORDER BY p.id;
SELECT * FROM pg_temp.pauses;
-- once each; the first reason stays
SELECT outbox.pause('regress pause', reason => 'again');
SELECT outbox.pause('regress pause', aggregate_type => 'order', aggregate_id => '42', reason => 'again');
SELECT outbox.pause('regress pause', aggregate_type => 'order', aggregate_id => '43', reason => 'another key');
SELECT count(*) FROM pg_temp.pauses;
-- let go under the same arguments
SELECT outbox.resume('regress pause', topic => 'other.topic');
SELECT outbox.resume('regress pause', topic => 'a.topic', reason => 'it is there again');
SELECT outbox.resume(server => 'regress_pause');
SELECT outbox.resume('regress pause', aggregate_type => 'order', aggregate_id => '42');
SELECT outbox.resume('regress pause', aggregate_type => 'order', aggregate_id => '42');
SELECT * FROM pg_temp.pauses;
-- a server that has gone can still be let go
SELECT outbox.pause(server => 'regress_pause', reason => 'moves away');
SELECT who = session_user AS me, action, route, detail - 'paused_at' AS detail, detail ? 'paused_at' AS since, reason FROM outbox.audit
WHERE action IN ('pause', 'resume') ORDER BY at;

-- another number of lanes waits for what is paused, and says so wherever it is seen
\pset format unaligned
BEGIN;
SELECT outbox.alter_route('regress pause', lanes => 2);
SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'lanes' AND detail ~ 'regress pause';
SELECT phase, hint FROM outbox.pg_stat_progress_outbox WHERE route = 'regress pause';
SAVEPOINT refused;
CALL outbox.seek('regress pause', 'infinity');
ROLLBACK TO refused;
SELECT outbox.resume('regress pause');
SELECT hint FROM outbox.doctor() WHERE "check" = 'lanes' AND detail ~ 'regress pause';
SELECT outbox.resume(server => 'regress_pause');
SELECT phase, hint FROM outbox.pg_stat_progress_outbox WHERE route = 'regress pause';
ROLLBACK;
\pset format aligned

-- what else is paused is not read, and doctor() has one row of it
BEGIN;
SELECT count(outbox.pause('regress pause', aggregate_type => 'regress_pause', aggregate_id => i::text, reason => 'many')) FROM generate_series(1, 1000) i;
CREATE VIEW pg_temp.read AS
  SELECT pg_stat_get_xact_tuples_returned('outbox.pause'::regclass) + pg_stat_get_xact_tuples_fetched('outbox.pause'::regclass)
    + pg_stat_get_xact_tuples_returned('outbox.pause_what_idx'::regclass) AS rows;
SELECT rows AS before FROM pg_temp.read \gset
SELECT outbox.pause('regress pause', aggregate_type => 'regress_pause', aggregate_id => 'one more', reason => 'one');
SELECT outbox.pause('regress pause', aggregate_type => 'regress_pause', aggregate_id => 'one more', reason => 'again');
SELECT outbox.resume('regress pause', aggregate_type => 'regress_pause', aggregate_id => 'one more');
SELECT rows - :before < 20 AS few_rows_were_read FROM pg_temp.read;
SELECT count(*), min(detail) LIKE '1001 keys of route "regress pause" are paused, such as "order" "43" by %: another key; "regress_pause" "1" by %: many; "regress_pause" "2" by %' AS told,
  min(hint) AS hint FROM outbox.doctor() WHERE "check" = 'pause' AND detail ~ 'key';
ROLLBACK;

-- a paused key: its events that are to be tried wait, and go when it is let go; other keys do not care
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, order_key, due_at, aggregate_type, aggregate_id, event_type, topic, attempts)
SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 second' + k * interval '1 hour', ('00000000-0000-4000-800' || k || '-' || lpad(n::text, 12, '0'))::uuid,
  CASE WHEN n < 3 THEN 'retrying' ELSE 'blocked' END, k, CASE WHEN n < 3 THEN now() + interval '9 minutes' END, 'order', k::text, 'e', 't', n
FROM outbox.route r, generate_series(1, 4) n, (VALUES (7), (8)) v (k) WHERE r.name = 'regress pause';
CREATE VIEW pg_temp.parked AS
  SELECT p.aggregate_id AS key, right(p.id::text, 1) AS n, p.state, p.attempts, p.due_at <= clock_timestamp() AS due
  FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = 'regress pause' ORDER BY 1, 2;
SELECT outbox.pause('regress pause', aggregate_type => 'order', aggregate_id => '7', reason => 'under dispute');
SELECT * FROM pg_temp.parked;
SELECT aggregate_id, waiting, behind IS NOT NULL AS behind, paused FROM outbox.blocked_key WHERE route = 'regress pause' ORDER BY 1;
SELECT outbox.retry('00000000-0000-4000-8007-000000000001');
SELECT outbox.resume('regress pause', aggregate_type => 'order', aggregate_id => '7');
SELECT * FROM pg_temp.parked;

-- Each refusal.
CREATE FUNCTION pg_temp.refused(what text, OUT state text, OUT message text, OUT detail text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE what;
  message := 'NOT REFUSED';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT * FROM pg_temp.refused($$SELECT outbox.pause(reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', server => 'regress_pause', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause(server => 'regress_pause', topic => 't', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', aggregate_type => 't', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', aggregate_id => 't', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', topic => 't', aggregate_type => 't', aggregate_id => 't', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', topic => '', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', aggregate_type => '', aggregate_id => '', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', topic => E'a\nb', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', topic => repeat('x', 513), reason => 'x')$$);
\pset tuples_only off
-- names, not patterns; and a topic where the route has one of its own
SELECT outbox.pause('regress pause', topic => 'a.*', reason => 'x'), outbox.resume('regress pause', topic => 'a.*');
SELECT outbox.alter_route('regress pause', topic => 'one.topic');
SELECT outbox.pause('regress pause', topic => 'on.topic', reason => 'x'), outbox.resume('regress pause', topic => 'on.topic');
SELECT outbox.pause('regress pause', topic => 'one.topic', reason => 'x'), outbox.resume('regress pause', topic => 'one.topic');
\pset tuples_only on
SELECT * FROM pg_temp.refused($$SELECT outbox.resume('regress pause', topic => '')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress nothing', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause(server => 'regress_nothing', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', reason => ' ')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.resume()$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.resume('regress nothing')$$);
CREATE FOREIGN DATA WRAPPER regress_pause_other;
CREATE SERVER regress_pause_other FOREIGN DATA WRAPPER regress_pause_other;
SELECT * FROM pg_temp.refused($$SELECT outbox.pause(server => 'regress_pause_other', reason => 'x')$$);
DROP FOREIGN DATA WRAPPER regress_pause_other CASCADE;
SET default_transaction_read_only = on;
SELECT * FROM pg_temp.refused($$SELECT outbox.pause('regress pause', reason => 'x')$$);
SELECT * FROM pg_temp.refused($$SELECT outbox.resume('regress pause')$$);
RESET default_transaction_read_only;

-- a route takes its pauses with it
SET client_min_messages = warning;
SELECT outbox.drop_route('regress pause');
SELECT count(*) FROM pg_temp.pauses;
-- and so does a server: there is nothing left to resume
DROP SERVER regress_pause;
SELECT outbox.resume(server => 'regress_pause');
DELETE FROM outbox.audit WHERE action IN ('pause', 'resume');
