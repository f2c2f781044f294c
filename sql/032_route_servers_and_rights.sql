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
SELECT outbox.pause(name, reason => 'nothing is to be delivered') FROM outbox.route WHERE name LIKE 'regress%';
SET outbox.lone_emit = allow;
SELECT count(outbox.emit('regress_gone', i::text, 'e', '{}')) FROM generate_series(1, 3) i;
SELECT count(*) AS of_today FROM outbox.day WHERE undelivered = 3;
BEGIN;
SET LOCAL outbox.allow_loss = on;
ALTER EXTENSION outbox DROP FOREIGN DATA WRAPPER outbox_log;
DROP FOREIGN DATA WRAPPER outbox_log CASCADE;
SELECT count(outbox.resume(name)) FROM outbox.route WHERE name LIKE 'regress%';
SELECT route, lane, server, pending, delay IS NOT NULL AS waits, error_class, error_code, error_message FROM outbox.lag WHERE route LIKE 'regress%';
SELECT undelivered, held_by ~ 'regress one" \(3 events since [^;]*; there is no server' AS told FROM outbox.day WHERE undelivered > 0;
SELECT s.route, s.state, s.topic, s.error_code FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.aggregate_type = 'regress_gone' AND l.aggregate_id = '1';
SELECT outbox.drop_route('regress one') AS unsent;
SELECT route, detail - 'from' AS detail FROM outbox.audit WHERE action = 'drop_route' ORDER BY at DESC LIMIT 1;
-- what it wants is known whatever is wrong with its own row, too
UPDATE outbox.route SET topic = '{nothing' WHERE name = 'regress two';
SELECT route, pending, delay IS NOT NULL AS waits, error_code, error_message FROM outbox.lag WHERE route LIKE 'regress%';
SELECT undelivered, held_by ~ 'regress two" \(3 events since [^;]*; there is no server' AS told FROM outbox.day WHERE held_by IS NOT NULL;
SELECT outbox.drop_route('regress two') AS unsent;
SELECT route, detail - 'from' AS detail FROM outbox.audit WHERE action = 'drop_route' ORDER BY at DESC LIMIT 1;
ROLLBACK;
-- templates that nobody can read: a hint that mends it, and what waits is shown
BEGIN;
SELECT count(outbox.resume(name)) FROM outbox.route WHERE name LIKE 'regress%';
UPDATE outbox.route SET key = '{nonsense}' WHERE name = 'regress one';
UPDATE outbox.route SET topic = '{nothing' WHERE name = 'regress two';
SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'route';
SELECT route, pending, error_code, error_message FROM outbox.lag WHERE route LIKE 'regress%';
SELECT s.route, s.state, s.topic, s.error_code FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.aggregate_type = 'regress_gone' AND l.aggregate_id = '1';
SELECT outbox.alter_route('regress one', key => '{aggregate_id}'), outbox.alter_route('regress two', topic => 'mended');
SELECT s.route, s.state, s.topic, s.error_code FROM outbox_internal.log l, outbox.status(l.id) s WHERE l.aggregate_type = 'regress_gone' AND l.aggregate_id = '1';
ROLLBACK;
-- what is erased of a person waits for no server
BEGIN;
SET LOCAL outbox.allow_loss = on;
ALTER EXTENSION outbox DROP FOREIGN DATA WRAPPER outbox_log;
SET client_min_messages = warning;
DROP FOREIGN DATA WRAPPER outbox_log CASCADE;
RESET client_min_messages;
CALL outbox.forget('regress_gone', '1');
ROLLBACK;
SELECT count(outbox.resume(name)) FROM outbox.route WHERE name LIKE 'regress%';
RESET outbox.lone_emit;
SET client_min_messages = error;
SET outbox.allow_loss = on;
DELETE FROM outbox_internal.log WHERE aggregate_type = 'regress_gone';
RESET outbox.allow_loss;
RESET client_min_messages;
DELETE FROM outbox.audit WHERE action IN ('pause', 'resume') AND route LIKE 'regress%';

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
