-- Rights: grant_operate() in one line, pg_monitor looks, other roles nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE ROLE regress_oncall;
CREATE ROLE regress_looks IN ROLE pg_monitor;
CREATE ROLE regress_nobody;
CREATE SERVER regress_operate FOREIGN DATA WRAPPER outbox_log;
BEGIN;
SELECT outbox.create_route('regress operate', 'regress_operate', '{regress_operate}') > 0 AS made;
SELECT outbox.pause('regress operate', reason => 'the test needs it still');
COMMIT;
CREATE FUNCTION pg_temp.park() RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, payload, headers, topic, error_class, error_code)
  SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 second', ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'regress_operate', 'k' || n, 'e',
    'secret', '{"h": "secret"}', 't', 'message', 'MSG_SIZE_TOO_LARGE' FROM outbox.route r, generate_series(1, 4) n WHERE r.name = 'regress operate' $$;
SELECT pg_temp.park();

-- every routine that acts, and what each role may call
CREATE VIEW pg_temp.acting AS
  SELECT p.oid, p.proname FROM pg_proc p WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
    AND p.proname IN ('pause', 'resume', 'retry', 'skip', 'discard', 'redrive', 'discard_dead_letters', 'parked_content', 'replay', 'cancel_replay', 'seek', 'test_server');
SELECT count(*) AS acting, count(*) FILTER (WHERE has_function_privilege('regress_oncall', oid, 'EXECUTE')) AS oncall,
  count(*) FILTER (WHERE has_function_privilege('regress_looks', oid, 'EXECUTE')) AS looks,
  count(*) FILTER (WHERE has_function_privilege('public', oid, 'EXECUTE')) AS public FROM pg_temp.acting;
-- The inner schema is nobody's; they get it here so that its tables and functions themselves are asked.
GRANT USAGE ON SCHEMA outbox_internal TO regress_oncall, regress_looks, regress_nobody;
SELECT outbox.grant_operate('regress_oncall');
SELECT count(*) AS acting, count(*) FILTER (WHERE has_function_privilege('regress_oncall', oid, 'EXECUTE')) AS oncall,
  count(*) FILTER (WHERE has_function_privilege('regress_looks', oid, 'EXECUTE')) AS looks,
  count(*) FILTER (WHERE has_function_privilege('public', oid, 'EXECUTE')) AS public FROM pg_temp.acting;
-- nothing else: what makes, changes or drops routes, emits or adopts is not an operator's
SELECT p.oid::regprocedure AS oncall_may FROM pg_proc p WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND p.proname NOT LIKE 'json_arg%'
  AND has_function_privilege('regress_oncall', p.oid, 'EXECUTE') AND p.oid NOT IN (SELECT oid FROM pg_temp.acting) ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT c.oid::regclass AS oncall_may, has_table_privilege('regress_oncall', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') AS writes FROM pg_class c
WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v') AND c.relname NOT LIKE '%\_20______'
  AND has_any_column_privilege('regress_oncall', c.oid, 'SELECT, INSERT, UPDATE') ORDER BY c.oid::regclass::text COLLATE "C";

-- the operator works
SET ROLE regress_oncall;
SELECT outbox.retry('00000000-0000-4000-8000-000000000001', reason => 'on call');
SELECT outbox.skip('00000000-0000-4000-8000-000000000001', 'on call');
SELECT outbox.discard('00000000-0000-4000-8000-000000000002', 'on call');
SELECT convert_from(payload, 'UTF8'), headers FROM outbox.parked_content('00000000-0000-4000-8000-000000000003');
SELECT outbox.pause('regress operate', topic => 't', reason => 'on call');
SELECT outbox.resume('regress operate', topic => 't');
SELECT count(*) FROM outbox.dead_letter;
SELECT route, count FROM outbox.dead_letter_summary;
SELECT count(*) FROM outbox.blocked_key;
SELECT route, state, error_message FROM outbox.lag WHERE side IS NULL;
SELECT state, error_code FROM outbox.status('00000000-0000-4000-8000-000000000003');
SELECT state, attempts FROM outbox_internal.parked ORDER BY created_at;
-- but tables are not for hands, and content goes by the function only
SELECT payload FROM outbox_internal.parked;
UPDATE outbox_internal.parked SET state = 'dead';
DELETE FROM outbox.audit;
INSERT INTO outbox.pause (server, reason, paused_by) VALUES ('x', 'y', 'z');
SELECT outbox.create_route('mine', 'regress_operate');
SELECT outbox.drop_route('regress operate');
SELECT outbox.grant_operate('regress_nobody');
RESET ROLE;
SET SESSION AUTHORIZATION regress_oncall;
CALL outbox.redrive('regress operate', dry_run => false);
CALL outbox.discard_dead_letters();
SET client_min_messages = warning;
CALL outbox.replay(since => '-infinity', route => 'regress operate', per_second => NULL, dry_run => false) \gset
SELECT :events AS events;
RESET client_min_messages;
SET client_min_messages = warning; -- its number depends on what ran before
SELECT outbox.cancel_replay(:number);
RESET client_min_messages;
CALL outbox.seek('regress operate', clock_timestamp(), dry_run => false);
RESET SESSION AUTHORIZATION;
-- the session's role is what the audit keeps; SET ROLE does not hide it
SELECT action, who = session_user AS me, who, detail -> 'role' AS role FROM outbox.audit
WHERE route = 'regress operate' AND (reason IS NULL OR reason <> 'the test needs it still') ORDER BY at;

-- pg_monitor looks, without content
SET ROLE regress_looks;
SELECT count(*) FROM outbox.dead_letter;
SELECT count(*) > 0 AS some FROM outbox.audit;
SELECT count(*) > 0 AS some FROM outbox.pause;
SELECT count(*) AS replays FROM outbox.replay;
SELECT aggregate_type, state FROM outbox_internal.parked LIMIT 1;
SELECT payload FROM outbox_internal.parked;
SELECT headers FROM outbox_internal.parked;
SELECT * FROM outbox.parked_content('00000000-0000-4000-8000-000000000003');
SELECT outbox.retry('00000000-0000-4000-8000-000000000003');
SELECT outbox.pause('regress operate', reason => 'x');
RESET ROLE;

-- taken back
SELECT outbox.revoke_operate('regress_oncall');
SELECT count(*) FILTER (WHERE has_function_privilege('regress_oncall', oid, 'EXECUTE')) AS oncall FROM pg_temp.acting;
SELECT c.oid::regclass AS oncall_may FROM pg_class c WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v')
  AND has_any_column_privilege('regress_oncall', c.oid, 'SELECT, INSERT, UPDATE') ORDER BY 1;
SET ROLE regress_oncall;
SELECT outbox.skip('00000000-0000-4000-8000-000000000003', 'no more');
CALL outbox.redrive(dry_run => false);
RESET ROLE;
SELECT outbox.grant_operate(NULL);
\echo :SQLSTATE
SELECT outbox.revoke_operate(NULL);
SELECT outbox.grant_operate('regress_missing');
\echo :SQLSTATE

SET client_min_messages = warning;
SELECT outbox.drop_route('regress operate');
DELETE FROM outbox.replay;
DELETE FROM outbox.audit WHERE route LIKE 'regress%';
DROP SERVER regress_operate;
REVOKE USAGE ON SCHEMA outbox FROM regress_oncall;
REVOKE USAGE ON SCHEMA outbox_internal FROM regress_oncall, regress_looks, regress_nobody;
DROP ROLE regress_oncall, regress_looks, regress_nobody;
