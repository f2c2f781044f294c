-- Servers of routes: not dropped under them, renamed with them. Rights: none, unless granted.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE SERVER regress_events FOREIGN DATA WRAPPER outbox_log;
CREATE SERVER regress_unused FOREIGN DATA WRAPPER outbox_log;
SELECT outbox.create_route('regress one', server => 'regress_events') > 0 AS made;
SELECT outbox.create_route('regress two', server => 'regress_events') > 0 AS made;

DROP SERVER regress_events;
DROP SERVER IF EXISTS regress_unused, regress_events CASCADE;
ALTER SERVER regress_events RENAME TO "regress Renamed";
SELECT name, server FROM outbox.route WHERE name LIKE 'regress%' ORDER BY 1;
BEGIN;
ALTER SERVER "regress Renamed" RENAME TO regress_events;
ROLLBACK;
SELECT name, server FROM outbox.route WHERE name LIKE 'regress%' ORDER BY 1;
DROP SERVER regress_unused;

-- a route whose server is gone all the same is in trouble, and says so
BEGIN;
ALTER EXTENSION outbox DROP FOREIGN DATA WRAPPER outbox_log;
DROP FOREIGN DATA WRAPPER outbox_log CASCADE;
SELECT route, lane, server, pending, error_class, error_code, error_message FROM outbox.lag WHERE route LIKE 'regress%';
SELECT outbox.drop_route('regress one') AS unsent;
ROLLBACK;

-- PUBLIC gets nothing; EXECUTE can be granted, and asks for USAGE on the server
CREATE ROLE regress_outbox_router;
SET ROLE regress_outbox_router;
DROP SERVER "regress Renamed";
SELECT outbox.create_route('regress three', server => 'regress Renamed');
SELECT * FROM outbox.lag;
RESET ROLE;
GRANT USAGE ON SCHEMA outbox TO regress_outbox_router;
SET ROLE regress_outbox_router;
SELECT outbox.create_route('regress three', server => 'regress Renamed');
SELECT outbox.alter_route('regress one', topic => 'x');
SELECT outbox.drop_route('regress one');
SELECT * FROM outbox.lag;
SELECT * FROM outbox.worker;
SELECT * FROM outbox.status('00000000-0000-7000-8000-000000000000');
SELECT outbox.wait_for('00000000-0000-7000-8000-000000000000');
SELECT outbox.wait_until_idle();
SELECT outbox.version();
SELECT * FROM outbox.route;
SELECT * FROM outbox_internal.parked;
RESET ROLE;
GRANT EXECUTE ON FUNCTION outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval, text),
  outbox.drop_route(text) TO regress_outbox_router;
SET ROLE regress_outbox_router;
SELECT outbox.create_route('regress three', server => 'regress Renamed');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER "regress Renamed" TO regress_outbox_router;
SET ROLE regress_outbox_router;
SET search_path = pg_temp, public;
-- what the caller has in its search_path is not what runs
CREATE FUNCTION pg_temp.array_to_string(text[], text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE ''hijacked''; END';
SELECT outbox.create_route('regress three', server => 'regress Renamed') > 0 AS made;
RESET search_path;
RESET ROLE;
SELECT name, created_by FROM outbox.route WHERE name = 'regress three';
SET ROLE regress_outbox_router;
SELECT outbox.drop_route('regress three') >= 0 AS dropped;
SELECT current_user;
RESET ROLE;
-- pg_monitor may look
GRANT pg_monitor TO regress_outbox_router;
SET ROLE regress_outbox_router;
SELECT route, lane, server FROM outbox.lag WHERE route LIKE 'regress%' ORDER BY 1;
SELECT count(*) >= 0 AS looked FROM outbox.worker;
SELECT count(*) FROM outbox.status('00000000-0000-7000-8000-000000000000');
SELECT outbox.version();
RESET ROLE;

SET client_min_messages = warning;
SELECT count(outbox.drop_route(name)) AS dropped FROM outbox.route WHERE name LIKE 'regress%';
DROP SERVER "regress Renamed";
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA outbox FROM regress_outbox_router;
DROP OWNED BY regress_outbox_router;
DROP ROLE regress_outbox_router;
