-- ---------------------------------------------------------------------------------------------------------------------
-- No event is lost without a word: rows of the log are neither changed nor deleted by hand, and what is undelivered is
-- not dropped, unless a superuser has said SET outbox.allow_loss = on. Day tables get the trigger when they are made;
-- DROP, DETACH and the taking away of guards are looked at by the library, see src/admin/loss.h. (Run again in a step from one
-- version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox._refuse_loss() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_loss';
COMMENT ON FUNCTION outbox._refuse_loss() IS 'refuses UPDATE and DELETE on outbox.log, and TRUNCATE of it, DELETE and TRUNCATE of routes, lanes and parked events while there are undelivered events';

CREATE OR REPLACE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox.log
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss();
ALTER TABLE outbox.log ENABLE ALWAYS TRIGGER log_loss;
COMMENT ON TRIGGER log_loss ON outbox.log IS 'the log is append-only, and undelivered events are not dropped unasked: see outbox.allow_loss';

CREATE OR REPLACE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox.log_spare
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
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_loss BEFORE DELETE ON outbox.%I FOR EACH ROW %s'
      'EXECUTE FUNCTION outbox._refuse_loss()', name,
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
END
$state$;

-- (None in a fresh install.)
DO $day_tables$
DECLARE
  day regclass;
BEGIN
  FOR day IN
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i
    WHERE i.inhparent OPERATOR(pg_catalog.=) 'outbox.log'::pg_catalog.regclass AND NOT i.inhdetachpending
  LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss()', day);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER log_loss', day);
  END LOOP;
END
$day_tables$;
