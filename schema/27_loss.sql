-- ---------------------------------------------------------------------------------------------------------------------
-- No event is lost without a word: rows of the log are neither changed nor deleted by hand, and what is undelivered is
-- not dropped, unless a superuser has said SET outbox.allow_loss = on. Day tables get the trigger when they are made;
-- DROP and DETACH are looked at by the library, see src/admin/loss.h.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._refuse_loss() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_loss';
COMMENT ON FUNCTION outbox._refuse_loss() IS 'refuses UPDATE and DELETE on outbox.log, and TRUNCATE while it holds undelivered events';

CREATE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox.log
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss();
ALTER TABLE outbox.log ENABLE ALWAYS TRIGGER log_loss;
COMMENT ON TRIGGER log_loss ON outbox.log IS 'the log is append-only, and undelivered events are not dropped unasked: see outbox.allow_loss';

CREATE TRIGGER log_loss BEFORE UPDATE OR DELETE OR TRUNCATE ON outbox.log_spare
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._refuse_loss();
ALTER TABLE outbox.log_spare ENABLE ALWAYS TRIGGER log_loss;
COMMENT ON TRIGGER log_loss ON outbox.log_spare IS 'as on outbox.log';
