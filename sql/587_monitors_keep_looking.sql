-- What pg_monitor has from the start is a list, and no reading of what it has just then: revoke_operate('pg_monitor') takes back what
-- was granted beyond it, a new operator gets all that monitors see whatever they have lost, and doctor() says what is missing.
\set db :DBNAME
CREATE DATABASE regress_looking;
\c regress_looking
CREATE EXTENSION outbox;
CREATE ROLE regress_looking_monitor IN ROLE pg_monitor;
CREATE ROLE regress_looking_oncall;
CREATE ROLE regress_looking_byhand;

-- All that a role has here, one line for each right.
CREATE FUNCTION has(grantee regrole) RETURNS SETOF text LANGUAGE sql STABLE BEGIN ATOMIC
  SELECT concat_ws(' ', x.privilege_type, p.oid::regprocedure) FROM pg_proc p, aclexplode(p.proacl) x
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee = has.grantee
  UNION ALL
  SELECT concat_ws(' ', x.privilege_type, c.oid::regclass) FROM pg_class c, aclexplode(c.relacl) x
  WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee = has.grantee
  UNION ALL
  SELECT concat_ws(' ', x.privilege_type, c.oid::regclass, a.attname) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) x
  WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee = has.grantee
  UNION ALL
  SELECT concat_ws(' ', x.privilege_type, n.nspname) FROM pg_namespace n, aclexplode(n.nspacl) x
  WHERE n.nspname IN ('outbox', 'outbox_internal') AND x.grantee = has.grantee;
END;
CREATE TABLE installed AS SELECT has AS a_right FROM has('pg_monitor');
CREATE FUNCTION differs() RETURNS SETOF text LANGUAGE sql AS $$
  (SELECT '- ' || a_right FROM installed EXCEPT SELECT '- ' || has FROM has('pg_monitor'))
  UNION ALL
  (SELECT '+ ' || has FROM has('pg_monitor') EXCEPT SELECT '+ ' || a_right FROM installed)
$$;

-- The list is what the install script gives: granted to somebody else, it is the same.
SELECT count(*) > 40 AS rights FROM installed;
CREATE FUNCTION grant_list(grantee regrole) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  what text;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', grantee);
  FOR what IN SELECT outbox_internal.monitor_grants() LOOP
    EXECUTE format('GRANT %s TO %s', what, grantee);
  END LOOP;
END $$;
CREATE FUNCTION take_list() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  what text;
BEGIN
  FOR what IN SELECT outbox_internal.monitor_grants() LOOP
    EXECUTE format('REVOKE %s FROM pg_monitor', what);
  END LOOP;
  REVOKE USAGE ON SCHEMA outbox FROM pg_monitor;
END $$;
SELECT grant_list('regress_looking_byhand');
SELECT a_right FROM installed EXCEPT SELECT has('regress_looking_byhand');
SELECT has('regress_looking_byhand') EXCEPT SELECT a_right FROM installed;
-- nothing that users keep in the schema
CREATE VIEW outbox.latency_of_ours AS SELECT 1 AS one;
CREATE FUNCTION outbox.version(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
SELECT g FROM outbox_internal.monitor_grants() g WHERE g ~ 'of_ours|version\(integer\)';
DROP VIEW outbox.latency_of_ours;
DROP FUNCTION outbox.version(integer);
DROP OWNED BY regress_looking_byhand;

-- granted to pg_monitor, and taken back
SELECT outbox.grant_operate('pg_monitor');
SELECT count(*) FROM differs() WHERE differs ~ 'outbox.pause\(';
SELECT outbox.revoke_operate('pg_monitor');
SELECT * FROM differs();
SET ROLE regress_looking_monitor;
SELECT count(*) FROM outbox.blocked_key;
SELECT count(*) FROM outbox.doctor() WHERE "check" = 'rights' AND status = 'ok';
SELECT outbox.pause('nothing', reason => 'test');
RESET ROLE;
-- There is nothing left to take, and it says so; so do the others.
SELECT outbox.revoke_operate('pg_monitor');
SELECT outbox.grant_emit('pg_monitor'), outbox.grant_receive('pg_monitor');
SELECT outbox.revoke_emit('pg_monitor'), outbox.revoke_receive('pg_monitor');
SELECT * FROM differs();
SELECT outbox.revoke_emit('pg_monitor');

-- An operator is made while monitors have lost what they had, and gets all the same.
SELECT outbox.grant_operate('regress_looking_oncall');
CREATE TABLE operates AS SELECT has AS a_right FROM has('regress_looking_oncall');
SELECT outbox.revoke_operate('regress_looking_oncall');
SELECT count(*) FROM has('regress_looking_oncall');
BEGIN;
SELECT take_list();
SELECT count(*) FROM has('pg_monitor');
SELECT outbox.grant_operate('regress_looking_oncall');
SELECT a_right FROM operates EXCEPT SELECT has('regress_looking_oncall');
ROLLBACK;

-- doctor() says what is missing, with what gives it back. One who was given a function by hand is no operator.
GRANT USAGE ON SCHEMA outbox TO regress_looking_byhand;
GRANT EXECUTE ON FUNCTION outbox.cancel_replay TO regress_looking_byhand;
REVOKE SELECT ON outbox.lag FROM pg_monitor;
REVOKE EXECUTE ON FUNCTION outbox.version() FROM pg_monitor;
REVOKE SELECT (lane) ON outbox_internal.parked FROM pg_monitor;
SELECT outbox.grant_operate('regress_looking_oncall');
REVOKE SELECT ON outbox.worker FROM regress_looking_oncall;
\x on
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'rights';
\x off
SELECT hint FROM outbox.doctor() WHERE "check" = 'rights' \gexec
SELECT * FROM differs();
SELECT a_right FROM operates EXCEPT SELECT has('regress_looking_oncall');
SELECT status FROM outbox.doctor() WHERE "check" = 'rights';
-- all of it
SELECT take_list();
SELECT status, left(detail, 105) AS detail, substring(detail FROM ', and [0-9]+ more.$') AS more, hint FROM outbox.doctor() WHERE "check" = 'rights';
-- as psql does
DO $$
DECLARE
  what text;
BEGIN
  FOR what IN EXECUTE (SELECT replace(hint, '\gexec', '') FROM outbox.doctor() WHERE "check" = 'rights') LOOP
    EXECUTE what;
  END LOOP;
END $$;
SELECT * FROM differs();
SELECT status FROM outbox.doctor() WHERE "check" = 'rights';
\c :db
DROP DATABASE regress_looking;
DROP ROLE regress_looking_monitor, regress_looking_oncall, regress_looking_byhand;
