-- ---------------------------------------------------------------------------------------------------------------------
-- No event is lost without a word: rows of the log are neither changed nor deleted by hand, and what is undelivered is
-- not dropped, unless a superuser has said SET outbox.allow_loss = on. Day tables get the trigger when they are made;
-- DROP, DETACH and the taking away of guards are looked at by the library, see src/admin/guard/loss.h. (Run again in a step from one
-- version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.refuse_loss() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_loss';
COMMENT ON FUNCTION outbox_internal.refuse_loss() IS 'refuses UPDATE and DELETE on outbox_internal.log, and TRUNCATE of it, DELETE and TRUNCATE of routes, lanes and parked events while there are undelivered events';

-- What outbox.allow_loss lets through is told exactly, when it is done: of the log by what has gone.
DO $log$
DECLARE
  log regclass;
BEGIN
  FOR log IN
    SELECT 'outbox_internal.log'::pg_catalog.regclass UNION ALL SELECT 'outbox_internal.log_spare'::pg_catalog.regclass
    UNION ALL  -- none in a fresh install
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i
    WHERE i.inhparent OPERATOR(pg_catalog.=) 'outbox_internal.log'::pg_catalog.regclass AND NOT i.inhdetachpending
  LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.refuse_loss()', log);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER log_loss_deleted AFTER DELETE ON %s REFERENCING OLD TABLE AS gone '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.refuse_loss()', log);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER log_loss_updated AFTER UPDATE ON %s REFERENCING OLD TABLE AS gone '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.refuse_loss()', log);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER log_loss, ENABLE ALWAYS TRIGGER log_loss_deleted, '
      'ENABLE ALWAYS TRIGGER log_loss_updated', log);
  END LOOP;
END
$log$;
COMMENT ON TRIGGER log_loss ON outbox_internal.log IS 'the log is append-only, and undelivered events are not dropped unasked: see outbox.allow_loss';
COMMENT ON TRIGGER log_loss ON outbox_internal.log_spare IS 'as on outbox_internal.log';
COMMENT ON TRIGGER log_loss_deleted ON outbox_internal.log IS 'tells what outbox.allow_loss has let go';
COMMENT ON TRIGGER log_loss_deleted ON outbox_internal.log_spare IS 'as on outbox_internal.log';
COMMENT ON TRIGGER log_loss_updated ON outbox_internal.log IS 'tells what outbox.allow_loss has let be changed';
COMMENT ON TRIGGER log_loss_updated ON outbox_internal.log_spare IS 'as on outbox_internal.log';

-- What says which events are undelivered: rows do not go by hand while some are, nor does the table. Unlike the trigger
-- ignore_replicated, which comes first, they always fire.
DO $state$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['outbox.route', 'outbox_internal.lane', 'outbox_internal.side_lane', 'outbox_internal.side_topic',
                              'outbox_internal.parked', 'outbox_internal.adoption', 'outbox_internal.adopted', 'outbox_internal.identity',
                              'outbox_internal.foreign_event'] LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_loss BEFORE %s ON %s FOR EACH ROW %s'
      'EXECUTE FUNCTION outbox_internal.refuse_loss()',
      CASE WHEN name OPERATOR(pg_catalog.=) 'outbox_internal.identity' THEN 'UPDATE OR DELETE' ELSE 'DELETE' END, name,
      CASE WHEN name OPERATOR(pg_catalog.=) 'outbox_internal.parked' THEN 'WHEN (OLD.state OPERATOR(pg_catalog.<>) ''dead'') ' ELSE '' END);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_loss_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT '
      'EXECUTE FUNCTION outbox_internal.refuse_loss()', name);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_loss', name);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_loss_truncate', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss ON %s IS %L', name,
      'undelivered events are not given up unasked: see outbox.allow_loss');
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss_truncate ON %s IS %L', name,
      'undelivered events are not given up unasked: see outbox.allow_loss');
  END LOOP;
  FOREACH name IN ARRAY ARRAY['outbox_internal.lane', 'outbox_internal.parked', 'outbox_internal.foreign_event'] LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_loss_deleted AFTER DELETE ON %s FOR EACH STATEMENT '
      'EXECUTE FUNCTION outbox_internal.refuse_loss()', name);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER no_loss_deleted', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss_deleted ON %s IS %L', name,
      CASE WHEN name OPERATOR(pg_catalog.=) 'outbox_internal.lane' THEN 'lanes without undelivered events do not go without their route either'
      ELSE 'tells what outbox.allow_loss has let go' END);
  END LOOP;
END
$state$;

-- What only outbox itself writes: the event as it waits, and how far lanes have come (src/admin/guard/by_hand.h).
CREATE OR REPLACE FUNCTION outbox_internal.refuse_change() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_change';
COMMENT ON FUNCTION outbox_internal.refuse_change() IS 'refuses by hand what only functions of outbox are to change: events that wait, positions of lanes, pauses';

DO $change$
DECLARE
  name text;
  commands text;
  each_row text;
  trigger text;
BEGIN
  -- The words about each are in src/admin/guard/by_hand.cpp (scripts/check-guards compares). Rows are looked at one by one
  -- where that costs no worker anything, else only where outbox.allow_loss is on, for the sake of what is told.
  FOR name, commands, each_row IN VALUES
    ('outbox_internal.parked', 'UPDATE OF route_id, lane, created_at, id, replay, state, order_key, due_at, aggregate_type, aggregate_id, event_type, payload, content_type, headers, own_topic, topic, xid, deliver_at', 'AFTER'),
    ('outbox_internal.foreign_event', 'UPDATE OF created_at, id, aggregate_type, aggregate_id, event_type, payload, content_type, headers, topic, deliver_at, xid, home, subscribed', 'AFTER'),
    ('outbox.route', 'INSERT OR UPDATE OF id, lanes, lanes_wanted, lanes_begun, common_snapshot, start_snapshot, start_time', 'AFTER'),
    ('outbox_internal.lane', 'INSERT OR UPDATE OF route_id, lane, since, window_from, window_to, done_to, home, repeats_to', 'AFTER'),
    ('outbox_internal.side_lane', 'INSERT OR UPDATE OF route_id, lane, side, since, window_from, window_to, done_to, topic_template', 'AFTER'),
    ('outbox_internal.side_topic', 'INSERT OR UPDATE OF route_id, lane, topic, side, start_from, start_to, start_done_to', 'AFTER'),
    ('outbox_internal.adoption', 'INSERT OR UPDATE OF begun_at, home, phase, done_to, first, starts, nothing, later', 'AFTER'),
    ('outbox_internal.adopted', 'INSERT OR UPDATE OF xid, wanted, before, passed', 'AFTER'),
    ('outbox.audit', 'UPDATE OF at, who, action, route, event_id, detail, reason', 'AFTER'),
    -- Of the first two, partitions get the trigger of rows with their parent's name.
    ('outbox_internal.progress', 'INSERT OR UPDATE OR DELETE', 'BEFORE'),
    ('outbox_internal.tick', 'INSERT OR UPDATE OR DELETE', 'BEFORE'),
    ('outbox.pause', 'INSERT OR UPDATE OR DELETE', 'BEFORE'),
    ('outbox_internal.lane_start', 'INSERT OR UPDATE OR DELETE', 'AFTER'),
    ('outbox_internal.outcome', 'UPDATE OR DELETE', 'AFTER'),
    ('outbox_internal.server_run', 'UPDATE OR DELETE', 'AFTER'),
    ('outbox_internal.met_cluster', 'INSERT OR UPDATE OR DELETE', 'AFTER'),
    ('outbox_internal.origin', 'INSERT OR UPDATE OR DELETE', 'AFTER'),
    ('outbox_internal.key_secret', 'INSERT OR UPDATE OR DELETE', 'AFTER')
  LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_change BEFORE %s%s ON %s FOR EACH STATEMENT '
      'EXECUTE FUNCTION outbox_internal.refuse_change()', commands,
      CASE WHEN pg_catalog.strpos(commands, 'UPDATE OF') OPERATOR(pg_catalog.>) 0 THEN '' ELSE ' OR TRUNCATE' END, name);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_change_rows %s %s ON %s FOR EACH ROW %s'
      'EXECUTE FUNCTION outbox_internal.refuse_change()', each_row, commands, name,
      CASE WHEN each_row OPERATOR(pg_catalog.=) 'AFTER' THEN
        'WHEN (pg_catalog.current_setting(''outbox.allow_loss'', true) OPERATOR(pg_catalog.=) ''on'') ' ELSE '' END);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_change_told AFTER %s ON %s FOR EACH STATEMENT '
      'EXECUTE FUNCTION outbox_internal.refuse_change()', commands, name);
    FOREACH trigger IN ARRAY ARRAY['no_change', 'no_change_rows', 'no_change_told'] LOOP
      EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', name, trigger);
      EXECUTE pg_catalog.format('COMMENT ON TRIGGER %I ON %s IS %L', trigger, name,
        CASE WHEN trigger OPERATOR(pg_catalog.=) 'no_change_told' THEN 'tells what outbox.allow_loss has let be done by hand'
        ELSE 'changed by functions of outbox only: see outbox.allow_loss' END);
    END LOOP;
  END LOOP;
END
$change$;

-- What is parked by hand says nothing of the transaction that emitted it; a row of a dump does (pg_dump --inserts).
CREATE OR REPLACE TRIGGER no_change_inserted BEFORE INSERT ON outbox_internal.parked FOR EACH ROW WHEN (NEW.xid IS NOT NULL)
  EXECUTE FUNCTION outbox_internal.refuse_change();
ALTER TABLE outbox_internal.parked ENABLE ALWAYS TRIGGER no_change_inserted;
COMMENT ON TRIGGER no_change_inserted ON outbox_internal.parked IS 'a dump is not restored over an outbox in use';

CREATE OR REPLACE FUNCTION outbox_internal.note_route() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_note_route';
COMMENT ON FUNCTION outbox_internal.note_route() IS 'a route that is changed or dropped by hand: audited, and workers are told';
CREATE OR REPLACE TRIGGER route_by_hand AFTER UPDATE OR DELETE ON outbox.route FOR EACH ROW EXECUTE FUNCTION outbox_internal.note_route();
ALTER TABLE outbox.route ENABLE ALWAYS TRIGGER route_by_hand;
COMMENT ON TRIGGER route_by_hand ON outbox.route IS 'audits what is not done by alter_route() and drop_route()';
CREATE OR REPLACE TRIGGER route_by_hand_truncate BEFORE TRUNCATE ON outbox.route FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.note_route();
ALTER TABLE outbox.route ENABLE ALWAYS TRIGGER route_by_hand_truncate;
COMMENT ON TRIGGER route_by_hand_truncate ON outbox.route IS 'audits what is not done by drop_route()';
