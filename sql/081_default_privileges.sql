-- Default privileges of the role that installs the extension take no effect, on no object and no later day table; and
-- doctor() tells of rights that should not be there.
-- matrix: G8 R20
\set db :DBNAME
CREATE DATABASE regress_rights;
\c regress_rights
CREATE ROLE regress_default;
CREATE ROLE "regress Second";
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO regress_default, "regress Second", PUBLIC, pg_monitor;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO regress_default, PUBLIC, pg_monitor;
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO regress_default, pg_monitor;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO regress_default;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO regress_default;
CREATE EXTENSION outbox;
SELECT outbox.grant_emit('regress_default');
SELECT outbox.emit('a', 1, 'a day table is made', '{}') IS NOT NULL AS emitted;
-- Who has what; the owner and what grant_emit() gave left out.
CREATE VIEW rights AS
  SELECT c.oid::regclass::text AS object, x.grantee, x.privilege_type FROM pg_class c, aclexplode(c.relacl) x
  WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee <> c.relowner
  UNION ALL SELECT p.oid::regprocedure::text, x.grantee, x.privilege_type FROM pg_proc p, aclexplode(p.proacl) x
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND x.grantee <> p.proowner AND p.oid::regprocedure NOT IN (SELECT outbox_internal.emit_routines())
  UNION ALL SELECT n.nspname, x.grantee, x.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) x
  WHERE n.nspname = 'outbox' AND x.grantee <> n.nspowner
  UNION ALL SELECT t.oid::regtype::text, x.grantee, x.privilege_type FROM pg_type t, aclexplode(t.typacl) x
  WHERE t.typnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND t.typrelid = 0 AND t.typelem = 0 AND x.grantee NOT IN (0, t.typowner);
SELECT pg_get_userbyid(grantee) AS who, object, privilege_type FROM rights WHERE grantee IN ('regress_default'::regrole, '"regress Second"'::regrole) ORDER BY 1, 2, 3;
SELECT object FROM rights WHERE grantee = 0 ORDER BY object;
SELECT object, privilege_type FROM rights WHERE grantee = 'pg_monitor'::regrole AND (privilege_type NOT IN ('SELECT', 'EXECUTE', 'USAGE') OR object ~ '^outbox(_internal)?.(log|lane( |$|_start)|progress$|progress_[0-9]|parked$|foreign)') ORDER BY 1;
-- The keeper's tables as well: of every kind, and of a new day.
SELECT object FROM rights WHERE object ~ '_[0-9]{8}';
GRANT USAGE ON SCHEMA outbox_internal TO regress_default;
SET ROLE regress_default;
SELECT payload FROM outbox_internal.log;
DELETE FROM outbox_internal.log;
INSERT INTO outbox.route (name) VALUES ('mine');
SELECT outbox.adopt();
SELECT outbox.emit('a', 1, 'what it may', '{}') IS NOT NULL AS emitted;
RESET ROLE;
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'rights';
-- By hand, or from before: said, with the statement that takes it back.
GRANT SELECT ON outbox_internal.log TO regress_default;
GRANT INSERT, UPDATE ON outbox.route TO "regress Second";
GRANT EXECUTE ON FUNCTION outbox.adopt(boolean), outbox_internal.preloaded() TO PUBLIC;
GRANT ALL ON SCHEMA outbox TO regress_default;
GRANT USAGE ON SEQUENCE outbox.route_id_seq TO regress_default;
GRANT EXECUTE ON FUNCTION outbox.drop_route(text) TO regress_default;
SELECT outbox.grant_operate('regress_default');
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'rights';
SELECT string_agg(hint, ' ') AS statements FROM outbox.doctor() WHERE "check" = 'rights' \gset
:statements
SELECT status FROM outbox.doctor() WHERE "check" = 'rights';
-- Each function that nothing gives by itself is told of; those that may be granted are not, nor what a user keeps in the schema.
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO "regress Second";
CREATE FUNCTION outbox.mine() RETURNS int LANGUAGE sql RETURN 1;
GRANT EXECUTE ON FUNCTION outbox.mine() TO regress_default;
SELECT count(*) AS told FROM outbox.doctor() WHERE "check" = 'rights';
SELECT outbox.grant_emit('"regress Second"'), outbox.grant_receive('"regress Second"');
REVOKE EXECUTE ON ROUTINE outbox.adopt, outbox.forget FROM "regress Second";
SELECT format('REVOKE EXECUTE ON ROUTINE %s FROM "regress Second"', p.oid::regprocedure) FROM pg_proc p
WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname ~ '^(grant|revoke)_' ORDER BY 1 \gexec
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'rights';
SELECT string_agg(hint, ' ') AS statements FROM outbox.doctor() WHERE "check" = 'rights' \gset
:statements
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'rights';
\c :db
DROP DATABASE regress_rights;
DROP ROLE regress_default, "regress Second";
