-- outbox.audit: who made, changed and dropped a route, changed its server or user mapping, granted rights, adopted, and
-- let undelivered events go; from what to what; what was left unsent; never a secret.
\pset null '(null)'
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
CREATE ROLE regress_audit;
CREATE SERVER regress_audit FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
CREATE SERVER regress_other FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '2');
CREATE VIEW pg_temp.told AS
  SELECT action, who = session_user AS me, route, jsonb_pretty(detail - '{xid,clock}'::text[]) AS detail FROM outbox.audit WHERE at >= now() ORDER BY at;

-- routes: nobody else sees them before the transaction ends, so nothing is delivered meanwhile
BEGIN;
SELECT clock_timestamp() AS before_all \gset
SELECT outbox.create_route('regress audit', 'regress_audit', aggregate_types => '{regress_audit}', options => '{"mode": "list"}', lanes => 2) > 0 AS made;
SELECT outbox.alter_route('regress audit', topic => 'new.{aggregate_type}', on_failure => 'block', max_attempts => 10);
-- nothing changed: no row
SELECT outbox.alter_route('regress audit', on_failure => 'block');
SELECT outbox.drop_route('regress audit');
SELECT * FROM pg_temp.told;
ROLLBACK;

-- what is left unsent, of the log and parked, each once
SELECT outbox.emit('regress_audit', '1', 'x', '{}') AS first \gset
SELECT outbox.emit('regress_audit', '2', 'x', '{}') AS second \gset
BEGIN;
SELECT outbox.create_route('regress audit', 'regress_audit', aggregate_types => '{regress_audit}', start => 'earliest') > 0 AS made;
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, aggregate_id, event_type, topic, state, due_at)
SELECT r.id, 0, l.created_at, l.id, l.aggregate_type, l.aggregate_id, l.event_type, 't', 'scheduled', now() + interval '1 day'
FROM outbox_internal.log l, outbox.route r WHERE l.id = :'first' AND r.name = 'regress audit';
SELECT pending, parked, overdue FROM outbox.lag WHERE route = 'regress audit';
SET client_min_messages = notice;
SELECT outbox.drop_route('regress audit');
SET client_min_messages = warning;
SELECT action, detail - 'from' AS detail FROM outbox.audit WHERE at >= now() AND action = 'drop_route';
ROLLBACK;

-- servers and user mappings, of routes only
BEGIN;
ALTER SERVER regress_other OPTIONS (SET port '3');
SELECT count(*) AS of_no_route FROM pg_temp.told;
SELECT outbox.create_route('regress audit', 'regress_audit', aggregate_types => '{regress_audit}') > 0 AS made;
ALTER SERVER regress_audit OPTIONS (SET port '4', ADD db '2', DROP host);
CREATE USER MAPPING FOR CURRENT_USER SERVER regress_audit OPTIONS (username 'outbox', password 'secret one');
ALTER USER MAPPING FOR CURRENT_USER SERVER regress_audit OPTIONS (SET password 'secret two', DROP username);
\set VERBOSITY terse
CREATE USER MAPPING FOR PUBLIC SERVER regress_audit OPTIONS (password 'secret three');
\set VERBOSITY default
DROP USER MAPPING FOR PUBLIC SERVER regress_audit;
-- nothing there: nothing happened
DROP USER MAPPING IF EXISTS FOR regress_audit SERVER regress_audit;
CREATE USER MAPPING IF NOT EXISTS FOR CURRENT_USER SERVER regress_audit OPTIONS (password 'secret four');
SELECT action, detail->>'for' = current_user AS for_me, detail - 'for' AS detail FROM outbox.audit WHERE at >= now() AND action <> 'create_route' ORDER BY at;
SELECT count(*) AS secrets FROM outbox.audit WHERE audit::text LIKE '%secret%';
-- refused: nothing happened
SAVEPOINT refused;
ALTER SERVER regress_audit OPTIONS (SET port 'none');
ROLLBACK TO refused;
SELECT count(*) AS rows FROM pg_temp.told;
ROLLBACK;

-- ... also by REASSIGN OWNED and DROP OWNED, with the warning that ALTER SERVER ... OWNER TO has
CREATE ROLE regress_heir;
ALTER SERVER regress_audit OWNER TO regress_audit;
BEGIN;
SELECT outbox.create_route('regress audit', 'regress_audit', aggregate_types => '{regress_audit}') > 0 AS made;
CREATE USER MAPPING FOR regress_audit SERVER regress_audit OPTIONS (password 'secret one');
\set VERBOSITY terse
CREATE USER MAPPING FOR PUBLIC SERVER regress_audit OPTIONS (password 'secret two');
REASSIGN OWNED BY regress_audit TO regress_heir;
\set VERBOSITY default
DROP OWNED BY regress_audit;
DROP OWNED BY regress_audit;  -- nothing is left
SELECT action, detail - '{xid,clock}'::text[] AS detail FROM outbox.audit WHERE at >= now() AND detail ? 'by' ORDER BY at;
SELECT count(*) AS secrets FROM outbox.audit WHERE audit::text LIKE '%secret%';
ROLLBACK;
BEGIN;
REASSIGN OWNED BY regress_audit TO regress_heir;
SELECT count(*) AS of_no_route FROM pg_temp.told;
ROLLBACK;
ALTER SERVER regress_audit OWNER TO CURRENT_USER;
DROP ROLE regress_heir;

-- rights
BEGIN;
SELECT outbox.grant_emit('regress_audit', '{shop.*}');
SELECT outbox.revoke_emit('regress_audit');
SELECT outbox.grant_operate('regress_audit');
SELECT outbox.revoke_operate('regress_audit');
SELECT action, me, route, detail::jsonb FROM pg_temp.told;
ROLLBACK;

-- adopt(), also where there is nothing to adopt
BEGIN;
SELECT outbox.adopt() AS sent;
SELECT action, detail::jsonb FROM pg_temp.told;
ROLLBACK;

-- what was let go
BEGIN;
SELECT outbox.create_route('regress audit', 'regress_audit', aggregate_types => '{regress_audit}', start => 'earliest') > 0 AS made;
SET LOCAL outbox.allow_loss = on;
SET LOCAL client_min_messages = error;
DELETE FROM outbox_internal.log WHERE id = :'first';
UPDATE outbox_internal.log SET topic = NULL WHERE id = :'second';
SELECT action, detail->>'command' AS command, detail->>'lost' AS lost FROM outbox.audit WHERE at >= now() AND action = 'allow_loss' ORDER BY at;
ROLLBACK;

DROP SERVER regress_audit, regress_other;
DROP ROLE regress_audit;
