-- ---------------------------------------------------------------------------------------------------------------------
-- No event is lost without a word: rows of the log are neither changed nor deleted by hand, and what is undelivered is
-- not dropped, unless a superuser has said SET outbox.allow_loss = on. Day tables get the trigger when they are made;
-- DROP, DETACH and the taking away of guards are looked at by the library, see src/admin/guard/loss.h. (Run again in a step from one
-- version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox._refuse_loss() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_loss';
COMMENT ON FUNCTION outbox._refuse_loss() IS 'refuses UPDATE and DELETE on outbox.log, and TRUNCATE of it, DELETE and TRUNCATE of routes, lanes and parked events while there are undelivered events';

-- What outbox.allow_loss lets through is told exactly, when it is done: of the log by what has gone.
DO $log$
DECLARE
  log regclass;
BEGIN
  FOR log IN
    SELECT 'outbox.log'::pg_catalog.regclass UNION ALL SELECT 'outbox.log_spare'::pg_catalog.regclass
    UNION ALL  -- none in a fresh install
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i
    WHERE i.inhparent OPERATOR(pg_catalog.=) 'outbox.log'::pg_catalog.regclass AND NOT i.inhdetachpending
  LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss()', log);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER log_loss_deleted AFTER DELETE ON %s REFERENCING OLD TABLE AS gone '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss()', log);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER log_loss_updated AFTER UPDATE ON %s REFERENCING OLD TABLE AS gone '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss()', log);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER log_loss, ENABLE ALWAYS TRIGGER log_loss_deleted, '
      'ENABLE ALWAYS TRIGGER log_loss_updated', log);
  END LOOP;
END
$log$;
COMMENT ON TRIGGER log_loss ON outbox.log IS 'the log is append-only, and undelivered events are not dropped unasked: see outbox.allow_loss';
COMMENT ON TRIGGER log_loss ON outbox.log_spare IS 'as on outbox.log';
COMMENT ON TRIGGER log_loss_deleted ON outbox.log IS 'tells what outbox.allow_loss has let go';
COMMENT ON TRIGGER log_loss_deleted ON outbox.log_spare IS 'as on outbox.log';
COMMENT ON TRIGGER log_loss_updated ON outbox.log IS 'tells what outbox.allow_loss has let be changed';
COMMENT ON TRIGGER log_loss_updated ON outbox.log_spare IS 'as on outbox.log';

-- What says which events are undelivered: rows do not go by hand while some are, nor does the table. Unlike the trigger
-- ignore_replicated, which comes first, they always fire.
DO $state$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['route', 'lane', 'side_lane', 'side_topic', 'parked', 'adoption', 'adopted', 'identity', 'foreign_event'] LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_loss BEFORE %s ON outbox.%I FOR EACH ROW %s'
      'EXECUTE FUNCTION outbox._refuse_loss()',
      CASE WHEN name OPERATOR(pg_catalog.=) 'identity' THEN 'UPDATE OR DELETE' ELSE 'DELETE' END, name,
      CASE WHEN name OPERATOR(pg_catalog.=) 'parked' THEN 'WHEN (OLD.state OPERATOR(pg_catalog.<>) ''dead'') ' ELSE '' END);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_loss_truncate BEFORE TRUNCATE ON outbox.%I FOR EACH STATEMENT '
      'EXECUTE FUNCTION outbox._refuse_loss()', name);
    EXECUTE pg_catalog.format('ALTER TABLE outbox.%I ENABLE ALWAYS TRIGGER no_loss', name);
    EXECUTE pg_catalog.format('ALTER TABLE outbox.%I ENABLE ALWAYS TRIGGER no_loss_truncate', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss ON outbox.%I IS %L', name,
      'undelivered events are not given up unasked: see outbox.allow_loss');
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss_truncate ON outbox.%I IS %L', name,
      'undelivered events are not given up unasked: see outbox.allow_loss');
  END LOOP;
  FOREACH name IN ARRAY ARRAY['lane', 'parked', 'foreign_event'] LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_loss_deleted AFTER DELETE ON outbox.%I FOR EACH STATEMENT '
      'EXECUTE FUNCTION outbox._refuse_loss()', name);
    EXECUTE pg_catalog.format('ALTER TABLE outbox.%I ENABLE ALWAYS TRIGGER no_loss_deleted', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_loss_deleted ON outbox.%I IS %L', name,
      CASE WHEN name OPERATOR(pg_catalog.=) 'lane' THEN 'lanes without undelivered events do not go without their route either'
      ELSE 'tells what outbox.allow_loss has let go' END);
  END LOOP;
END
$state$;

CREATE OR REPLACE FUNCTION outbox._note_route() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_note_route';
COMMENT ON FUNCTION outbox._note_route() IS 'a route that is changed or dropped by hand: audited, and workers are told';
CREATE OR REPLACE TRIGGER route_by_hand AFTER UPDATE OR DELETE ON outbox.route FOR EACH ROW EXECUTE FUNCTION outbox._note_route();
ALTER TABLE outbox.route ENABLE ALWAYS TRIGGER route_by_hand;
COMMENT ON TRIGGER route_by_hand ON outbox.route IS 'audits what is not done by alter_route() and drop_route()';
CREATE OR REPLACE TRIGGER route_by_hand_truncate BEFORE TRUNCATE ON outbox.route FOR EACH STATEMENT EXECUTE FUNCTION outbox._note_route();
ALTER TABLE outbox.route ENABLE ALWAYS TRIGGER route_by_hand_truncate;
COMMENT ON TRIGGER route_by_hand_truncate ON outbox.route IS 'audits what is not done by drop_route()';

REVOKE ALL ON FUNCTION outbox._refuse_loss(), outbox._note_route() FROM PUBLIC;
