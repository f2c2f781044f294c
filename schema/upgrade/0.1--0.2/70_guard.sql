-- ---------------------------------------------------------------------------------------------------------------------
-- No event is lost without a word: rows of the log are neither changed nor deleted by hand, and what is undelivered is
-- not dropped, unless a superuser has said SET outbox.allow_loss = on. Day tables get the trigger when they are made;
-- DROP and DETACH are looked at by the library, see src/admin/loss.h.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._refuse_loss() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_loss';
COMMENT ON FUNCTION outbox._refuse_loss() IS 'refuses UPDATE and DELETE on outbox.log, and TRUNCATE of it, DELETE and TRUNCATE of routes, lanes and parked events while there are undelivered events';

CREATE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox.log
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss();
ALTER TABLE outbox.log ENABLE ALWAYS TRIGGER log_loss;
COMMENT ON TRIGGER log_loss ON outbox.log IS 'the log is append-only, and undelivered events are not dropped unasked: see outbox.allow_loss';

CREATE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox.log_spare
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss();
ALTER TABLE outbox.log_spare ENABLE ALWAYS TRIGGER log_loss;
COMMENT ON TRIGGER log_loss ON outbox.log_spare IS 'as on outbox.log';

-- What says which events are undelivered: rows do not go by hand while some are, nor does the table. Unlike the trigger
-- ignore_replicated, which comes first, they always fire.
DO $state$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['route', 'lane', 'side_lane', 'side_topic', 'parked', 'adoption', 'adopted'] LOOP
    EXECUTE pg_catalog.format('CREATE TRIGGER no_loss BEFORE DELETE ON outbox.%I FOR EACH ROW %s'
      'EXECUTE FUNCTION outbox._refuse_loss()', name,
      CASE WHEN name OPERATOR(pg_catalog.=) 'parked' THEN 'WHEN (OLD.state OPERATOR(pg_catalog.<>) ''dead'') ' ELSE '' END);
    EXECUTE pg_catalog.format('CREATE TRIGGER no_loss_truncate BEFORE TRUNCATE ON outbox.%I FOR EACH STATEMENT '
      'EXECUTE FUNCTION outbox._refuse_loss()', name);
    EXECUTE pg_catalog.format('ALTER TABLE outbox.%I ENABLE ALWAYS TRIGGER no_loss', name);
    EXECUTE pg_catalog.format('ALTER TABLE outbox.%I ENABLE ALWAYS TRIGGER no_loss_truncate', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss ON outbox.%I IS %L', name,
      'undelivered events are not given up unasked: see outbox.allow_loss');
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss_truncate ON outbox.%I IS %L', name,
      'undelivered events are not given up unasked: see outbox.allow_loss');
  END LOOP;
END
$state$;

DO $day_tables$
DECLARE
  day regclass;
BEGIN
  FOR day IN
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i
    WHERE i.inhparent OPERATOR(pg_catalog.=) 'outbox.log'::pg_catalog.regclass AND NOT i.inhdetachpending
  LOOP
    EXECUTE pg_catalog.format('CREATE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss()', day);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER log_loss', day);
  END LOOP;
END
$day_tables$;

-- Where a route's lanes started from another position, so that status() is exact about older events: what a seek passed
-- over was never delivered, and what was delivered before is not where the lanes have been since.
CREATE TABLE outbox.lane_start (
  route_id      bigint      NOT NULL REFERENCES outbox.route (id) ON DELETE CASCADE,
  at            timestamptz NOT NULL,
  lane          integer     NOT NULL,
  topic         text        NOT NULL DEFAULT '',
  reason        text        NOT NULL,
  lanes         integer     NOT NULL,
  start_time    timestamptz NOT NULL,
  start_from    pg_snapshot NOT NULL,
  start_to      pg_snapshot,
  start_done_to timestamptz,
  stood_from    pg_snapshot NOT NULL,
  stood_to      pg_snapshot,
  stood_done_to timestamptz,
  fork_from     pg_snapshot,
  fork_to       pg_snapshot,
  fork_done_to  timestamptz,
  PRIMARY KEY (route_id, at, lane, topic)
);
COMMENT ON TABLE outbox.lane_start IS 'where all lanes of a route began anew (a seek, another number of lanes), and where each stood before';
COMMENT ON COLUMN outbox.lane_start.route_id IS 'route';
COMMENT ON COLUMN outbox.lane_start.at IS 'when: a reading of the shared clock, outbox.lane.since of the lanes that began';
COMMENT ON COLUMN outbox.lane_start.lane IS 'a lane that there was before';
COMMENT ON COLUMN outbox.lane_start.topic IS 'empty: the lane itself; else a topic that had left it';
COMMENT ON COLUMN outbox.lane_start.reason IS 'seek or lanes';
COMMENT ON COLUMN outbox.lane_start.lanes IS 'number of lanes that keys were hashed over before';
COMMENT ON COLUMN outbox.lane_start.start_time IS 'the route''s start_time before';
COMMENT ON COLUMN outbox.lane_start.start_from IS 'position that all lanes began at';
COMMENT ON COLUMN outbox.lane_start.start_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.start_done_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.stood_from IS 'position that the lane, or the topic''s side lane, had come to';
COMMENT ON COLUMN outbox.lane_start.stood_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.stood_done_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.fork_from IS 'of a topic: where it had left the lane; events up to there were the lane''s';
COMMENT ON COLUMN outbox.lane_start.fork_to IS 'likewise';
COMMENT ON COLUMN outbox.lane_start.fork_done_to IS 'likewise';

CREATE TRIGGER ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON outbox.lane_start
  FOR EACH ROW EXECUTE FUNCTION outbox._ignore_replicated();
ALTER TABLE outbox.lane_start ENABLE REPLICA TRIGGER ignore_replicated;
COMMENT ON TRIGGER ignore_replicated ON outbox.lane_start IS 'drops what a subscription brings; fires for nothing else';

CREATE PROCEDURE outbox.forget(
  aggregate_type  text,
  aggregate_id    text,
  undelivered     boolean DEFAULT false,
  reason          text    DEFAULT NULL,
  dry_run         boolean DEFAULT true,
  INOUT forgotten bigint  DEFAULT NULL,
  INOUT kept      bigint  DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_forget';
REVOKE ALL ON PROCEDURE outbox.forget(text, text, boolean, text, boolean, bigint, bigint) FROM PUBLIC;
COMMENT ON PROCEDURE outbox.forget(text, text, boolean, text, boolean, bigint, bigint) IS
  'erases payload and headers of what the log keeps of one key; events that some route has not delivered yet, parked ones and rows of outbox.foreign_event are kept, or with undelivered => true given up: nobody sends them. A dry run unless told otherwise; it cannot be undone. Returns how many were erased and kept. The key itself stays in the log; outbox.audit keeps a hash of it';

-- Roles that may emit, and to which topics: what grant_emit() said last. Sessions keep what they have read until it changes.
-- By name, because that is what a dump restores where the role is missing: a limit stays, and a role that is made later under
-- the name has it. And by oid, because a role may be renamed; what a dump says of that is another server's.
CREATE TABLE outbox.emit_right (
  role    name PRIMARY KEY,
  role_id oid,
  topics  text[]
);
COMMENT ON TABLE outbox.emit_right IS 'roles that grant_emit() let emit, and to which topics; change through grant_emit and revoke_emit';
COMMENT ON COLUMN outbox.emit_right.role IS 'role; a row counts for a role that has this name or that oid';
COMMENT ON COLUMN outbox.emit_right.role_id IS 'its oid; NULL: there was none of that name when the row came';
COMMENT ON COLUMN outbox.emit_right.topics IS 'patterns with * for any run of characters; NULL: all topics';
SELECT pg_catalog.pg_extension_config_dump('outbox.emit_right', '');

CREATE FUNCTION outbox._find_role() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $find$
BEGIN
  NEW.role_id := (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = NEW.role);
  RETURN NEW;
END
$find$;
COMMENT ON FUNCTION outbox._find_role() IS 'fills outbox.emit_right.role_id, also of a row that a dump brings';
CREATE TRIGGER find_role BEFORE INSERT ON outbox.emit_right FOR EACH ROW EXECUTE FUNCTION outbox._find_role();
ALTER TABLE outbox.emit_right ENABLE ALWAYS TRIGGER find_role;
COMMENT ON TRIGGER find_role ON outbox.emit_right IS 'fills role_id';

CREATE FUNCTION outbox._emit_rights_changed() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_rights_changed';
COMMENT ON FUNCTION outbox._emit_rights_changed() IS 'has every session read outbox.emit_right again';
CREATE TRIGGER emit_rights_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON outbox.emit_right
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._emit_rights_changed();
ALTER TABLE outbox.emit_right ENABLE ALWAYS TRIGGER emit_rights_changed;
COMMENT ON TRIGGER emit_rights_changed ON outbox.emit_right IS 'has every session read it again';

CREATE TRIGGER ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON outbox.emit_right
  FOR EACH ROW EXECUTE FUNCTION outbox._ignore_replicated();
ALTER TABLE outbox.emit_right ENABLE REPLICA TRIGGER ignore_replicated;
COMMENT ON TRIGGER ignore_replicated ON outbox.emit_right IS 'drops what a subscription brings; fires for nothing else';

DROP FUNCTION outbox.grant_emit(regrole);
CREATE FUNCTION outbox.grant_emit(role regrole, topics text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  routine regprocedure;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to grant to.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  IF cardinality(topics) = 0 OR array_position(topics, NULL) IS NOT NULL OR '' = ANY (topics) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'topics must be patterns, one at least',
      DETAIL = 'An empty list, an empty pattern and NULL allow nothing.',
      HINT = 'Pass patterns such as ''{shop.*}''; revoke_emit() takes the right away, no topics at all means all.';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
  FOR routine IN SELECT * FROM outbox._emit_routines() LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', routine, role);
  END LOOP;
  EXECUTE format('GRANT INSERT, SELECT ON outbox.event TO %s', role);
  PERFORM outbox._follow_role_names();
  DELETE FROM outbox.emit_right e WHERE e.role_id = grant_emit.role::oid
    OR e.role = pg_get_userbyid(grant_emit.role::oid) AND NOT EXISTS (SELECT FROM pg_roles x WHERE x.oid = e.role_id);
  INSERT INTO outbox.emit_right (role, topics) VALUES (pg_get_userbyid(grant_emit.role::oid), grant_emit.topics);
  INSERT INTO outbox.audit (who, action, detail)
  VALUES (session_user, 'grant_emit', jsonb_strip_nulls(jsonb_build_object('to', grant_emit.role, 'topics', grant_emit.topics)));
END
$grant$;
COMMENT ON FUNCTION outbox.grant_emit(regrole, text[]) IS 'lets a role emit: the emit functions, the trigger function emit_row, and the view outbox.event; with topics (patterns) to these only: the topic given, or outbox.event.<aggregate type> where none is. The last call counts';

REVOKE ALL ON FUNCTION outbox._refuse_loss(), outbox._emit_rights_changed(), outbox._find_role(), outbox.grant_emit(regrole, text[]) FROM PUBLIC;
REVOKE ALL ON outbox.lane_start, outbox.emit_right FROM PUBLIC;
