-- What revoke_emit() and revoke_operate() take back: USAGE on the schema as well, with the last right that needs it. And what is
-- left of a limit on topics when the role is renamed, or is missing when a dump is restored: all of it.
-- matrix: G8 R62 R65 R72
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_taken, regress_taken_group, regress_taken_new, regress_taken_missing;
RESET client_min_messages;
\set db :DBNAME
CREATE DATABASE regress_taken;
CREATE DATABASE regress_restored;
\c regress_taken
CREATE EXTENSION outbox;
CREATE ROLE regress_taken;
CREATE ROLE regress_taken_group;
CREATE FUNCTION usage_of(role regrole) RETURNS boolean LANGUAGE sql BEGIN ATOMIC
  SELECT EXISTS (SELECT FROM pg_namespace n, aclexplode(n.nspacl) x WHERE n.nspname = 'outbox' AND x.grantee = role AND x.privilege_type = 'USAGE'); END;
-- one of them; both, in either order
SELECT outbox.grant_emit('regress_taken');
SELECT outbox.revoke_emit('regress_taken');
SELECT usage_of('regress_taken') AS after_emit;
SELECT outbox.grant_operate('regress_taken');
SELECT outbox.revoke_operate('regress_taken');
SELECT usage_of('regress_taken') AS after_operate;
SELECT outbox.grant_emit('regress_taken'), outbox.grant_operate('regress_taken');
SELECT outbox.revoke_emit('regress_taken');
SELECT usage_of('regress_taken') AS still_operates;
SELECT outbox.revoke_operate('regress_taken');
SELECT usage_of('regress_taken') AS neither;
SELECT outbox.grant_emit('regress_taken'), outbox.grant_operate('regress_taken');
SELECT outbox.revoke_operate('regress_taken');
SELECT usage_of('regress_taken') AS still_emits;
SELECT outbox.revoke_emit('regress_taken');
SELECT usage_of('regress_taken') AS neither;
-- Twice, and of one who never had it: nothing is said to have been taken.
SELECT count(*) AS audited FROM outbox.audit \gset
SELECT outbox.revoke_emit('regress_taken');
SELECT outbox.revoke_operate('regress_taken');
SELECT count(*) - :audited AS more FROM outbox.audit;
-- Another right, by hand: on a table, a column, a function; by a role that it is a member of; as everybody.
DO $$
DECLARE
  what text;
BEGIN
  FOREACH what IN ARRAY ARRAY['SELECT ON outbox.route', 'SELECT (name) ON outbox.route', 'EXECUTE ON FUNCTION outbox.version()'] LOOP
    PERFORM outbox.grant_emit('regress_taken');
    EXECUTE 'GRANT ' || what || ' TO regress_taken';
    PERFORM outbox.revoke_emit('regress_taken');
    RAISE NOTICE '%: %', what, usage_of('regress_taken');
    EXECUTE 'REVOKE ' || what || ' FROM regress_taken';
    PERFORM outbox.revoke_emit('regress_taken');
    RAISE NOTICE 'taken back: %', usage_of('regress_taken');
  END LOOP;
END $$;
GRANT regress_taken_group TO regress_taken;
SELECT outbox.grant_emit('regress_taken'), outbox.grant_emit('regress_taken_group');
SELECT outbox.revoke_emit('regress_taken');
SELECT usage_of('regress_taken') AS by_its_group;
SELECT outbox.revoke_emit('regress_taken_group');
SELECT outbox.revoke_emit('regress_taken');
SELECT usage_of('regress_taken') AS "none", usage_of('regress_taken_group') AS of_the_group;
REVOKE regress_taken_group FROM regress_taken;
GRANT SELECT ON outbox.lag TO PUBLIC;
SELECT outbox.grant_emit('regress_taken');
SELECT outbox.revoke_emit('regress_taken');
SELECT usage_of('regress_taken') AS as_everybody;
REVOKE SELECT ON outbox.lag FROM PUBLIC;
-- USAGE that somebody gave it to pass on was not ours.
GRANT USAGE ON SCHEMA outbox TO regress_taken WITH GRANT OPTION;
SELECT outbox.grant_emit('regress_taken');
SELECT outbox.revoke_emit('regress_taken');
SELECT usage_of('regress_taken') AS by_hand;
REVOKE USAGE ON SCHEMA outbox FROM regress_taken;
SELECT count(*) FROM outbox_internal.emit_right WHERE role LIKE 'regress_taken%';
DROP ROLE regress_taken_group;

-- A limit goes with the role when it is renamed, and does not wait for anybody to notice.
CREATE FUNCTION may(role name, topic text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SET ROLE %I', role);
  PERFORM outbox.emit('a', 1, 'e', '{}', topic => may.topic);
  RAISE EXCEPTION USING ERRCODE = 'XX999';
EXCEPTION
  WHEN SQLSTATE 'XX999' THEN RETURN 'it may';
  WHEN insufficient_privilege THEN RETURN SQLERRM;
END $$;
SELECT outbox.grant_emit('regress_taken', topics => '{shop.*}');
SELECT may('regress_taken', 'shop.a'), may('regress_taken', 'other');
ALTER ROLE regress_taken RENAME TO regress_taken_new;
SELECT may('regress_taken_new', 'shop.a'), may('regress_taken_new', 'other');
-- Somebody new under the old name: limited rather than free, until somebody says.
CREATE ROLE regress_taken;
SELECT may('regress_taken_new', 'other');
SELECT outbox.grant_emit('regress_taken');
SELECT may('regress_taken', 'other'), may('regress_taken_new', 'other');
SELECT outbox.grant_emit('regress_taken_new', topics => '{other}');
SELECT may('regress_taken_new', 'shop.a'), may('regress_taken_new', 'other');
SELECT role, role_id = role::text::regrole AS same, topics FROM outbox_internal.emit_right WHERE role LIKE 'regress_taken%' ORDER BY role;
SELECT outbox.revoke_emit('regress_taken'), outbox.revoke_emit('regress_taken_new');
DROP ROLE regress_taken_new;

-- Roles take each other's names, two and three at once: each keeps its own limit, also after the next grant.
CREATE ROLE regress_taken_b;
CREATE ROLE regress_taken_c;
SELECT outbox.grant_emit('regress_taken', topics => '{a.*}'), outbox.grant_emit('regress_taken_b', topics => '{b.*}'),
  outbox.grant_emit('regress_taken_c', topics => '{c.*}');
ALTER ROLE regress_taken RENAME TO regress_taken_x;
ALTER ROLE regress_taken_b RENAME TO regress_taken;
ALTER ROLE regress_taken_c RENAME TO regress_taken_b;
ALTER ROLE regress_taken_x RENAME TO regress_taken_c;
SELECT may('regress_taken', 'b.1'), may('regress_taken', 'a.1');
SELECT role, topics FROM outbox_internal.emit_right WHERE role LIKE 'regress_taken%' ORDER BY role;
-- all at once, as if it had been in another database
UPDATE outbox_internal.emit_right SET role_id = CASE role WHEN 'regress_taken' THEN 'regress_taken_b'::regrole
  WHEN 'regress_taken_b' THEN 'regress_taken_c'::regrole ELSE 'regress_taken'::regrole END WHERE role LIKE 'regress_taken%';
-- each by its own limit at once, and not by the other's as well
SELECT may(r, 'a.1') AS a, may(r, 'b.1') AS b, may(r, 'c.1') AS c FROM unnest('{regress_taken,regress_taken_b,regress_taken_c}'::name[]) r;
SELECT outbox.grant_emit('regress_taken_b', topics => '{d.*}');
SELECT role, role_id = role::text::regrole AS same, topics FROM outbox_internal.emit_right WHERE role LIKE 'regress_taken%' ORDER BY role;
SELECT outbox.revoke_emit('regress_taken_b');
SELECT may('regress_taken', 'c.1'), may('regress_taken', 'd.1'), may('regress_taken_c', 'b.1'), may('regress_taken_c', 'a.1');
SELECT outbox.revoke_emit('regress_taken'), outbox.revoke_emit('regress_taken_c');
DROP ROLE regress_taken_b, regress_taken_c;

-- What changes nothing has no session read the limits again; what changes something has.
SELECT outbox.grant_emit('regress_taken', topics => '{a.*}');
BEGIN;
SELECT set_config('regress.emit_right', 'outbox_internal.emit_right'::regclass::oid::text, true) > '' AS known;
SET LOCAL ROLE regress_taken;
CREATE FUNCTION pg_temp.reads() RETURNS bigint LANGUAGE sql AS $$
  SELECT pg_stat_get_xact_numscans(current_setting('regress.emit_right')::oid) FROM (SELECT outbox.emit('a', 1, 'e', '{}', topic => 'a.1') OFFSET 0) e $$;
SELECT pg_temp.reads() AS once \gset
RESET ROLE;
SELECT pg_stat_get_xact_numscans('outbox_internal.emit_right'::regclass) AS before \gset
UPDATE outbox_internal.emit_right SET topics = topics WHERE false;
DELETE FROM outbox_internal.emit_right WHERE false;
SELECT pg_stat_get_xact_numscans('outbox_internal.emit_right'::regclass) - :before AS own \gset
SET LOCAL ROLE regress_taken;
SELECT pg_temp.reads() - :before - :own AS again;
RESET ROLE;
UPDATE outbox_internal.emit_right SET topics = '{a.*,b.*}' WHERE role = 'regress_taken';
SET LOCAL ROLE regress_taken;
SELECT outbox.emit('a', 1, 'e', '{}', topic => 'b.1') IS NOT NULL AS counts_at_once;
ROLLBACK;
SELECT outbox.revoke_emit('regress_taken');

-- A pattern that no topic can match is refused, with the characters that one may have; of the topics of events without one of
-- their own others too.
SELECT outbox.grant_emit('regress_taken', topics => '{shop/*}');
CREATE FUNCTION granted(pattern text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM outbox.grant_emit('regress_taken', topics => ARRAY[pattern]);
  RAISE EXCEPTION USING ERRCODE = 'XX999';
EXCEPTION
  WHEN SQLSTATE 'XX999' THEN RETURN 'granted';
  WHEN OTHERS THEN RETURN SQLSTATE;
END $$;
SELECT left(pattern, 30) AS pattern, granted(pattern) FROM unnest(ARRAY['*', 'shop.*', 'a-_.Z9', 'shop orders', 'ordré', '.', '..', '.*', 'shop,orders', '{shop.*}',
  'outbox.event.Größe', 'outbox.event.*', 'outbox.*é', 'shop.*é', '*é', repeat('x', 249), repeat('x', 250), repeat('x', 249) || '*']) pattern;

-- A dump brings the limits of two roles, of which one is not there.
\c regress_restored
CREATE EXTENSION outbox;
COPY outbox_internal.emit_right (role, topics) FROM stdin;
regress_taken_missing	{shop.*}
regress_taken	{shop.*}
\.
SELECT role, role_id IS NOT NULL AS there, topics FROM outbox_internal.emit_right ORDER BY role;
GRANT USAGE ON SCHEMA outbox TO regress_taken;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA outbox TO regress_taken;
CREATE FUNCTION may(role name, topic text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('SET ROLE %I', role);
  PERFORM outbox.emit('a', 1, 'e', '{}', topic => may.topic);
  RAISE EXCEPTION USING ERRCODE = 'XX999';
EXCEPTION
  WHEN SQLSTATE 'XX999' THEN RETURN 'it may';
  WHEN insufficient_privilege THEN RETURN SQLERRM;
END $$;
SELECT may('regress_taken', 'shop.a'), may('regress_taken', 'other');
-- Without triggers (pg_restore --disable-triggers), with oids of another server, which here are somebody else's: only names count.
ALTER TABLE outbox_internal.emit_right DISABLE TRIGGER ALL;
INSERT INTO outbox_internal.emit_right (role, role_id, topics, system_identifier)
VALUES ('regress_elsewhere', 'regress_taken'::regrole, '{other}', 1), ('regress_everywhere', 'regress_taken'::regrole, '{*}', NULL);
ALTER TABLE outbox_internal.emit_right ENABLE TRIGGER ALL;
SELECT may('regress_taken', 'shop.a'), may('regress_taken', 'other');
DELETE FROM outbox_internal.emit_right WHERE role LIKE 'regress\_e%';
UPDATE outbox_internal.emit_right SET role_id = 10, system_identifier = 1 WHERE role = 'regress_taken';
SELECT may('regress_taken', 'shop.a'), may('regress_taken', 'other');
SELECT outbox_internal.follow_role_names();
SELECT role, role_id = 'regress_taken'::regrole AS found, system_identifier = (pg_control_system()).system_identifier AS here FROM outbox_internal.emit_right WHERE role = 'regress_taken';
-- Renamed here before the keeper or adopt() has looked, as after pg_upgrade: the limit goes along, and is nobody else's.
UPDATE outbox_internal.emit_right SET role_id = 10, system_identifier = 1 WHERE role = 'regress_taken';
ALTER ROLE regress_taken RENAME TO regress_given;
SELECT may('regress_given', 'shop.a'), may('regress_given', 'other');
SELECT role, role_id = 'regress_given'::regrole AS found, system_identifier = (pg_control_system()).system_identifier AS here FROM outbox_internal.emit_right WHERE topics = '{shop.*}';
ALTER ROLE regress_given RENAME TO regress_taken;
-- adopt() looks, for roles that are renamed in other databases after it.
UPDATE outbox_internal.emit_right SET role_id = 10, system_identifier = 1 WHERE role = 'regress_taken';
SELECT outbox.adopt();
SELECT role, role_id = 'regress_taken'::regrole AS found, system_identifier = (pg_control_system()).system_identifier AS here FROM outbox_internal.emit_right WHERE role = 'regress_taken';
-- The other comes later, in this very session; so does a member of it, and a new name.
CREATE ROLE regress_taken_missing;
GRANT USAGE ON SCHEMA outbox TO regress_taken_missing;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA outbox TO regress_taken_missing;
SELECT may('regress_taken_missing', 'shop.a'), may('regress_taken_missing', 'other');
CREATE ROLE regress_taken_new IN ROLE regress_taken_missing;
SELECT may('regress_taken_new', 'shop.a'), may('regress_taken_new', 'other');
SELECT detail FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%has not said so%';
-- A part of what grant_emit() gave was taken back.
CREATE ROLE "regress_Part";
SELECT outbox.grant_emit('"regress_Part"', topics => '{some.*}');
SELECT count(*) FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%in part%';
REVOKE USAGE ON SCHEMA outbox FROM "regress_Part";
REVOKE INSERT ON outbox.event FROM "regress_Part";
REVOKE EXECUTE ON FUNCTION outbox.emit_row() FROM "regress_Part";
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%in part%';
SELECT outbox.grant_emit('"regress_Part"', topics => '{some.*}');
SELECT count(*) FROM outbox.doctor() WHERE "check" = 'rights' AND detail LIKE '%in part%';
SELECT outbox.revoke_emit('"regress_Part"');
DROP ROLE "regress_Part";
\c :db
DROP DATABASE regress_taken;
DROP DATABASE regress_restored;
DROP ROLE regress_taken, regress_taken_missing, regress_taken_new;
