-- What a role has as the owner is never revoked: revoke_emit(), revoke_receive() and revoke_operate() of the extension's owner take
-- back what was said of it, and it goes on working.
\set db :DBNAME
CREATE ROLE regress_owning SUPERUSER;
CREATE DATABASE regress_owning;
\c regress_owning
SET ROLE regress_owning;
CREATE EXTENSION outbox;
RESET ROLE;
CREATE FUNCTION rights() RETURNS SETOF text LANGUAGE sql BEGIN ATOMIC
  SELECT concat_ws(' ', p.oid::regprocedure, p.proacl) FROM pg_proc p WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
  UNION ALL
  SELECT concat_ws(' ', c.oid::regclass, c.relacl) FROM pg_class c WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND c.relname !~ '^log_|_[0-9]{8}'
  UNION ALL
  SELECT concat_ws(' ', n.nspname, n.nspacl) FROM pg_namespace n WHERE n.nspname IN ('outbox', 'outbox_internal');
END;
CREATE TABLE before AS SELECT rights FROM rights();

SELECT outbox.grant_emit('regress_owning'), outbox.grant_receive('regress_owning'), outbox.grant_operate('regress_owning');
SELECT outbox.revoke_emit('regress_owning'), outbox.revoke_receive('regress_owning'), outbox.revoke_operate('regress_owning');
SELECT rights FROM rights() EXCEPT SELECT rights FROM before;
ALTER ROLE regress_owning NOSUPERUSER;
SET ROLE regress_owning;
SELECT outbox.grant_emit('regress_owning', topics => '{shop.*}'), outbox.grant_receive('regress_owning'), outbox.grant_operate('regress_owning');
SELECT outbox.revoke_emit('regress_owning');
SELECT outbox.revoke_receive('regress_owning');
SELECT outbox.revoke_operate('regress_owning');
SELECT outbox.revoke_emit('regress_owning');
BEGIN;
SELECT outbox.emit('a', 1, 'e', '{}', topic => 'any') IS NOT NULL AS emits;
SELECT count(*) FROM outbox.event;
ROLLBACK;
RESET ROLE;
SELECT rights FROM rights() EXCEPT SELECT rights FROM before;
SELECT (SELECT count(*) FROM outbox_internal.emit_right) AS emit, (SELECT count(*) FROM outbox_internal.receive_right) AS receive;
\c :db
DROP DATABASE regress_owning;
DROP ROLE regress_owning;
