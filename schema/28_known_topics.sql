-- ---------------------------------------------------------------------------------------------------------------------
-- Routes that know their topics (option topics_known): emit() refuses others. (Run again in a step from one version to the
-- next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.routes_changed() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_routes_changed';
REVOKE ALL ON FUNCTION outbox_internal.routes_changed() FROM PUBLIC;
COMMENT ON FUNCTION outbox_internal.routes_changed() IS 'has every session that emits read outbox.route again';
CREATE OR REPLACE TRIGGER routes_changed AFTER INSERT OR UPDATE OR DELETE ON outbox.route
  FOR EACH ROW EXECUTE FUNCTION outbox_internal.routes_changed();
ALTER TABLE outbox.route ENABLE ALWAYS TRIGGER routes_changed;
COMMENT ON TRIGGER routes_changed ON outbox.route IS 'has every session that emits read it again';
CREATE OR REPLACE TRIGGER routes_emptied AFTER TRUNCATE ON outbox.route
  FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.routes_changed();
ALTER TABLE outbox.route ENABLE ALWAYS TRIGGER routes_emptied;
COMMENT ON TRIGGER routes_emptied ON outbox.route IS 'has every session that emits read it again';
