-- matrix: R88
-- Settings of outbox that are changed by a command are in the audit: who, where, from what and to what. Not those of others, not
-- what fails or changes nothing, not what a session sets for itself.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SELECT coalesce(max(at), '-infinity') AS before FROM outbox.audit \gset
CREATE ROLE regress_settings;
CREATE VIEW regress_said AS SELECT who = current_user AS mine, action, detail FROM outbox.audit WHERE at > :'before' ORDER BY at;
ALTER SYSTEM SET outbox.retention = '8d';
SELECT count(pg_reload_conf());
ALTER SYSTEM SET outbox.retention TO '9d';
ALTER SYSTEM SET outbox.retention = '9d';
ALTER SYSTEM SET OUTBOX.Max_Log_Size = 5;
ALTER SYSTEM RESET outbox.retention;
ALTER SYSTEM RESET outbox.retention;
ALTER SYSTEM SET work_mem = '5MB';
ALTER SYSTEM RESET work_mem;
ALTER SYSTEM RESET ALL;
ALTER SYSTEM RESET ALL;
SELECT count(pg_reload_conf());
ALTER DATABASE template1 SET outbox.lone_emit = allow;
ALTER DATABASE template1 SET outbox.lone_emit = refuse;
SET outbox.lone_emit = warn;
ALTER DATABASE template1 SET outbox.lone_emit FROM CURRENT;
ALTER DATABASE template1 SET work_mem = '5MB';
ALTER DATABASE template1 RESET ALL;
ALTER ROLE regress_settings SET outbox.inbox_expired = 'accept';
ALTER ROLE regress_settings IN DATABASE template1 SET outbox.inbox_expired = 'skip';
ALTER ROLE regress_settings IN DATABASE template1 SET outbox.inbox_expired TO DEFAULT;
ALTER ROLE ALL SET outbox.traceparent = '';
ALTER ROLE ALL RESET outbox.traceparent;
ALTER ROLE regress_settings RESET ALL;
-- What fails or is taken back leaves nothing.
ALTER SYSTEM SET outbox.retention = 'nonsense';
BEGIN;
ALTER SYSTEM SET outbox.retention = '8d';
ROLLBACK;
BEGIN;
ALTER ROLE regress_settings SET outbox.lone_emit = allow;
ROLLBACK;
SET ROLE regress_settings;
ALTER SYSTEM SET outbox.retention = '8d';
\set VERBOSITY sqlstate
ALTER ROLE ALL SET outbox.lone_emit = allow;
\set VERBOSITY default
-- Nor what a role without any right sets for itself, and might set in each session.
ALTER ROLE regress_settings SET outbox.baggage = 'by=himself';
ALTER ROLE CURRENT_USER IN DATABASE template1 SET outbox.baggage = 'by=himself';
ALTER ROLE regress_settings SET outbox.baggage TO DEFAULT;
ALTER ROLE regress_settings SET outbox.baggage = 'by=himself';
ALTER ROLE regress_settings RESET ALL;
RESET ROLE;
-- Long values are cut.
SELECT repeat('ä', 100000) AS long \gset
ALTER ROLE regress_settings SET outbox.baggage = :'long';
ALTER ROLE regress_settings SET outbox.baggage = '';
SELECT * FROM (SELECT mine, action, detail - '{from, to}'::text[] AS detail, left(detail->>'from', 10) AS "from", octet_length(detail->>'from') AS bytes, right(detail->>'from', 5) AS "end",
	octet_length(detail->>'to') AS to_bytes FROM regress_said OFFSET 15) s;
DELETE FROM outbox.audit WHERE detail->>'setting' = 'outbox.baggage';
SELECT * FROM regress_said;
DROP VIEW regress_said;
DROP ROLE regress_settings;
DELETE FROM outbox.audit WHERE action IN ('alter system', 'alter database', 'alter role');
