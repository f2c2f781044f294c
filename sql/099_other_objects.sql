-- The functions, views and wrappers of outbox by other hands, partitions that come by hand, and names of days that are taken.
-- matrix: C19 R75 R76
\set db :DBNAME
CREATE DATABASE regress_objects;
\c regress_objects
CREATE EXTENSION outbox;
CREATE SERVER regress_objects FOREIGN DATA WRAPPER outbox_log;
CREATE FUNCTION refused(command text) RETURNS TABLE (code text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  RAISE EXCEPTION USING ERRCODE = 'ZZ999';
EXCEPTION
  WHEN SQLSTATE 'ZZ999' THEN RETURN QUERY SELECT '', 'done', '', '';
  WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    message := regexp_replace(message, '[0-9]{8}', 'YYYYMMDD');
    RETURN NEXT;
END $$;
SELECT outbox.create_route('one', 'regress_objects', '{one}') > 0 AS made;
SELECT outbox.emit('zero', 1, 'e', '{}') IS NOT NULL AS emitted;
CREATE TABLE mine (LIKE outbox_internal.log);
CREATE DOMAIN mine_text AS text;
CREATE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
\x on
SELECT * FROM refused('ALTER FUNCTION outbox_internal.divert() RENAME TO x');
SELECT * FROM refused($$ALTER TABLE outbox_internal.log ATTACH PARTITION mine FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')$$);
SELECT * FROM refused('CREATE TRIGGER mine BEFORE INSERT ON outbox_internal.progress FOR EACH ROW EXECUTE FUNCTION taken()');
SELECT * FROM refused('CREATE TRIGGER mine AFTER INSERT ON outbox_internal.log FOR EACH ROW EXECUTE FUNCTION taken()');
\x off
CREATE TABLE commands (n int GENERATED ALWAYS AS IDENTITY, command text);
INSERT INTO commands (command) VALUES
  ('ALTER FUNCTION outbox_internal.divert() SET search_path = public'), ('ALTER FUNCTION outbox_internal.refuse_loss() SECURITY DEFINER'),
  ('ALTER ROUTINE outbox_internal.home() SET SCHEMA public'), ('ALTER PROCEDURE outbox.forget RENAME TO x'), ('ALTER FUNCTION outbox.version RESET ALL'),
  ('ALTER VIEW outbox.event RENAME TO x'), ('ALTER VIEW outbox.event RENAME COLUMN id TO x'), ('ALTER TABLE outbox.lag RENAME TO x'),
  ('ALTER VIEW outbox_internal.lane_position SET SCHEMA public'), ('CREATE OR REPLACE VIEW outbox_internal.wrong_guard AS SELECT * FROM outbox_internal.wrong_guard'),
  ('CREATE RULE mine AS ON INSERT TO outbox.event DO INSTEAD NOTHING'), ('CREATE RULE mine AS ON INSERT TO outbox_internal.progress DO INSTEAD NOTHING'),
  ('DROP TRIGGER event_insert ON outbox.event'), ('CREATE TRIGGER a_mine INSTEAD OF INSERT ON outbox.event FOR EACH ROW EXECUTE FUNCTION taken()'),
  ('CREATE TRIGGER mine BEFORE INSERT ON outbox.audit FOR EACH ROW EXECUTE FUNCTION taken()'),
  ('CREATE TABLE outbox.part PARTITION OF outbox_internal.log FOR VALUES FROM (''2020-01-01'') TO (''2020-01-02'')'),
  ('CREATE TABLE part PARTITION OF outbox_internal.progress DEFAULT'),
  ('ALTER TYPE outbox.json_arg RENAME TO x'), ('ALTER FOREIGN DATA WRAPPER outbox_log RENAME TO x'), ('ALTER FOREIGN DATA WRAPPER outbox_log NO VALIDATOR'),
  ('ALTER VIEW outbox.event ALTER COLUMN topic SET DEFAULT ''x'''), ('ALTER TABLE outbox.event ALTER COLUMN topic DROP DEFAULT'), ('ALTER VIEW outbox.lag SET (security_barrier)'),
  ('ALTER DOMAIN outbox.text_arg ADD CHECK (VALUE <> ''x'')'), ('ALTER DOMAIN outbox.json_arg SET NOT NULL'),
  ('CREATE TRIGGER mine AFTER INSERT ON outbox_internal.log FOR EACH ROW EXECUTE FUNCTION taken()'), ('CREATE TRIGGER mine BEFORE INSERT ON outbox_internal.log_spare EXECUTE FUNCTION taken()'),
  ('ALTER SEQUENCE outbox_internal.clock_ceiling RESTART'), ('ALTER SEQUENCE outbox_internal.clock_ceiling OWNED BY mine.created_at'),
  ('ALTER TRIGGER log_loss ON outbox_internal.log DEPENDS ON EXTENSION plpgsql'), ('ALTER TRIGGER event_insert ON outbox.event DEPENDS ON EXTENSION plpgsql'),
  ('ALTER INDEX outbox_internal.log_spare_xid DEPENDS ON EXTENSION plpgsql'), ('ALTER INDEX outbox_internal.lane_pkey DEPENDS ON EXTENSION plpgsql'),
  ('ALTER FUNCTION outbox_internal.home() DEPENDS ON EXTENSION plpgsql'),
  -- others' own, and what changes nothing
  ('ALTER FUNCTION outbox_internal.home() NO DEPENDS ON EXTENSION plpgsql'), ('ALTER TRIGGER log_loss ON outbox_internal.log NO DEPENDS ON EXTENSION plpgsql'),
  ('ALTER FUNCTION taken() DEPENDS ON EXTENSION plpgsql'),
  ('ALTER FUNCTION taken() RENAME TO x'), ('CREATE TRIGGER mine AFTER INSERT ON outbox.audit FOR EACH ROW EXECUTE FUNCTION taken()'),
  ('CREATE OR REPLACE VIEW lag AS SELECT * FROM outbox.lag'), ('COMMENT ON FUNCTION outbox.version() IS ''x'''), ('ALTER FUNCTION outbox.version() OWNER TO pg_monitor'),
  ('ALTER VIEW outbox.lag OWNER TO pg_monitor'), ('ALTER DOMAIN mine_text SET NOT NULL'), ('ALTER FUNCTION outbox.nothing() RENAME TO x'), ('ALTER VIEW nothing RENAME TO x'), ('CREATE RULE mine AS ON INSERT TO mine DO INSTEAD NOTHING');
SELECT command, code, message FROM (SELECT * FROM commands ORDER BY n) c, refused(command);
-- who may not is told so, by the command itself
CREATE ROLE regress_objects;
GRANT USAGE ON SCHEMA outbox TO regress_objects;
SET ROLE regress_objects;
ALTER FUNCTION outbox.version() RENAME TO x;
ALTER VIEW outbox.event RENAME TO x;
RESET ROLE;
-- by those who answer for it, and told
SET outbox.allow_loss = on;
BEGIN;
ALTER FUNCTION outbox.version() RENAME TO version_of;
CREATE RULE mine AS ON INSERT TO outbox.lag DO INSTEAD NOTHING;
SELECT detail FROM outbox.audit WHERE at >= now() ORDER BY at;
ROLLBACK;
RESET outbox.allow_loss;
-- A trigger that was added is told of, with what to type.
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'triggers';
BEGIN;
CREATE TRIGGER "of a statement" BEFORE UPDATE ON outbox_internal.lane EXECUTE FUNCTION taken();
SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'triggers';
ROLLBACK;
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'triggers';
-- A foreign key of others onto a table of outbox would hold up who deletes and changes its rows: none is made, by whatever command.
\x on
SELECT * FROM refused('CREATE TABLE note (route_id bigint, created_at timestamptz, id uuid, replay bigint, FOREIGN KEY (route_id, created_at, id, replay) REFERENCES outbox_internal.parked)');
\x off
CREATE TABLE note (route text, id bigint, at timestamptz);
CREATE TABLE notes (id bigint) PARTITION BY RANGE (id);
CREATE TABLE notes_1 PARTITION OF notes FOR VALUES FROM (0) TO (1000);
SELECT command, code, message FROM unnest(ARRAY[
  'ALTER TABLE note ADD FOREIGN KEY (route) REFERENCES outbox.route (name)', 'ALTER TABLE note ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES outbox.pause NOT VALID',
  'ALTER TABLE note ADD COLUMN of_pause bigint REFERENCES outbox.pause ON DELETE CASCADE', 'ALTER TABLE notes ADD FOREIGN KEY (id) REFERENCES outbox.route',
  'CREATE TABLE other (id bigint PRIMARY KEY, of bigint REFERENCES other)', 'ALTER TABLE note ADD PRIMARY KEY (id)', 'ALTER TABLE note ADD CHECK (id > 0)']) command, LATERAL refused(command);
GRANT USAGE ON SCHEMA outbox TO regress_objects;
GRANT REFERENCES, TRIGGER ON outbox.route TO regress_objects;
GRANT CREATE ON SCHEMA public TO regress_objects;
SET ROLE regress_objects;
SELECT code, message FROM refused('CREATE TABLE theirs (id bigint REFERENCES outbox.route)');
SELECT * FROM refused('CREATE TRIGGER theirs AFTER UPDATE ON outbox.route FOR EACH ROW EXECUTE FUNCTION taken()') \gx
RESET ROLE;
REVOKE ALL ON SCHEMA outbox, public FROM regress_objects;
REVOKE ALL ON outbox.route FROM regress_objects;
-- One that is there all the same is told of, with what to type.
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'foreign keys';
BEGIN;
SET LOCAL outbox.allow_loss = on;
ALTER TABLE note ADD CONSTRAINT "to a route" FOREIGN KEY (route) REFERENCES outbox.route (name);
ALTER TABLE notes ADD CONSTRAINT part FOREIGN KEY (id) REFERENCES outbox.route;
SELECT status, detail, hint FROM outbox.doctor() WHERE "check" = 'foreign keys';
SELECT action, detail FROM outbox.audit WHERE detail::text LIKE '%foreign key%' ORDER BY at;
ROLLBACK;
DROP TABLE note, notes;
-- An owner of its own is told of, with what to type.
BEGIN;
ALTER FUNCTION outbox.version() OWNER TO regress_objects;
SELECT status, replace(detail, session_user, 'owner') AS detail, replace(hint, session_user, 'owner') AS hint FROM outbox.doctor() WHERE "check" = 'owners';
ROLLBACK;

-- A day of today that was detached, and something with the name of a day: they make room, and are told of.
BEGIN;
SET LOCAL client_min_messages = error;
SET LOCAL outbox.allow_loss = on;
DO $$ BEGIN EXECUTE 'ALTER TABLE outbox_internal.log DETACH PARTITION outbox_internal.log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'); END $$;
SELECT outbox.emit('one', 1, 'after', '{}') IS NOT NULL AS emitted;
COMMIT;
SELECT event_type FROM outbox_internal.log ORDER BY created_at;
SELECT status, regexp_replace(detail, '[0-9]{8}', 'YYYYMMDD') AS detail, regexp_replace(hint, '[0-9]{8}', 'YYYYMMDD', 'g') AS hint FROM outbox.doctor()
WHERE "check" = 'day tables' AND detail LIKE '%no part%';
DO $$ BEGIN EXECUTE format('INSERT INTO outbox_internal.log SELECT * FROM outbox_internal.log_%s_aside', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$;
SELECT outbox.adopt() AS sent;
DO $$ BEGIN EXECUTE format('DROP TABLE outbox_internal.log_%s_aside', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$;
SELECT detail FROM outbox.doctor() WHERE "check" = 'day tables' AND detail LIKE '%no part%';
-- twice, of each kind of relation, with an index of the name in the way as well
BEGIN;
SET LOCAL client_min_messages = error;
SET LOCAL outbox.allow_loss = on;
DO $$
DECLARE day text := to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD');
BEGIN
  EXECUTE format('CREATE TABLE outbox_internal.log_%s_aside (x int)', day);
  EXECUTE format('DROP TABLE outbox_internal.log_%s', day);
  EXECUTE format('CREATE VIEW outbox_internal.log_%s AS SELECT 1', day);
  EXECUTE format('CREATE INDEX log_%s_xid ON outbox_internal.side_topic (topic)', day);
END $$;
SELECT outbox.emit('one', 2, 'again', '{}') IS NOT NULL AS emitted;
SELECT regexp_replace(relname, '[0-9]{8}', 'YYYYMMDD') AS name, relkind FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
  AND relname ~ ('^log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')) ORDER BY 1;
SELECT regexp_replace(detail, '[0-9]{8}', 'YYYYMMDD') AS detail, regexp_replace(hint, '[0-9]{8}', 'YYYYMMDD', 'g') AS hint FROM outbox.doctor()
WHERE "check" = 'day tables' AND detail LIKE '%no part%';
ROLLBACK;
-- beside the day table, in the other schema: the day's own is not meant
BEGIN;
DO $$ BEGIN EXECUTE format('CREATE TABLE outbox.log_%s (LIKE outbox_internal.log)', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$;
SELECT regexp_replace(detail, '[0-9]{8}', 'YYYYMMDD') AS detail, regexp_replace(hint, '[0-9]{8}', 'YYYYMMDD', 'g') AS hint FROM outbox.doctor()
WHERE "check" = 'day tables' AND detail LIKE '%no part%';
ROLLBACK;

-- What grant_emit() said outlives DROP OWNED and DROP ROLE, and is told of, with what to type.
SELECT outbox.grant_emit('regress_objects', topics => '{shop.*}');
CREATE ROLE regress_gone;
SELECT outbox.grant_emit('regress_gone', topics => '{a}');
DROP OWNED BY regress_objects, regress_gone;
DROP ROLE regress_gone;
SELECT detail, hint FROM outbox.doctor() WHERE "check" = 'rights' AND status <> 'ok' ORDER BY 1;
DELETE FROM outbox_internal.emit_right WHERE role = 'regress_gone';
SELECT outbox.revoke_emit('regress_objects');
SELECT status, detail FROM outbox.doctor() WHERE "check" = 'rights';

-- Each trigger that always fires is one that is switched on again when somebody has switched it off.
SELECT DISTINCT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND t.tgenabled = 'A'
  AND position(quote_literal(t.tgname) IN pg_get_viewdef('outbox_internal.wrong_guard')) = 0;

-- A copy: adopt() comes first, whatever else is said.
SELECT outbox.pause('one', reason => 'test') AS paused;
BEGIN;
SET LOCAL outbox.allow_loss = on;
UPDATE outbox_internal.identity SET system_identifier = 1;
SELECT "check", status FROM outbox.doctor() WHERE status <> 'ok' AND hint NOT LIKE '%outbox.adopt()%' AND "check" NOT IN ('preload', 'publications', 'durability');
SELECT hint FROM outbox.doctor() WHERE "check" = 'pause';
-- ... but what adopt() itself needs. A route whose server is missing is adopted, and waits for it.
SET LOCAL client_min_messages = error;
ALTER EXTENSION outbox DROP FOREIGN DATA WRAPPER outbox_log;
DROP FOREIGN DATA WRAPPER outbox_log CASCADE;
UPDATE outbox_internal.lane SET home = 'elsewhere';
SELECT DISTINCT hint FROM outbox.doctor() WHERE "check" = 'route' AND status = 'problem';
SAVEPOINT adopted;
SELECT outbox.adopt();
ROLLBACK TO adopted;
CREATE SERVER regress_elsewhere FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.alter_route('one', server => 'regress_elsewhere');
SELECT outbox.adopt() >= 0 AS adopted;
ROLLBACK;

-- What forget() has erased is not "skipped or discarded", and none of another route's is counted. (Whether a lane had it in
-- hand just then is a matter of the moment, and of t/296.)
SELECT outbox.emit('one', 'k', 'erased', '{}') AS one \gset
SELECT outbox.emit('two', 'k', 'erased', '{}') AS two \gset
\set VERBOSITY terse
CALL outbox.forget('one', 'k', undelivered => true, dry_run => false);
CALL outbox.forget('two', 'k', undelivered => true, dry_run => false);
\set VERBOSITY default
CALL outbox.replay(ids => ARRAY[:'one', :'two']::uuid[], route => 'one');
SET client_min_messages = error;
SET outbox.allow_loss = on;
DROP EXTENSION outbox CASCADE;
\c :db
DROP DATABASE regress_objects;
DROP ROLE regress_objects;
