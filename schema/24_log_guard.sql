-- ---------------------------------------------------------------------------------------------------------------------
-- Only emit writes the log: emit bypasses triggers, everything else (a restore, logical replication, manual INSERTs)
-- ends up in outbox_internal.foreign_event. Transaction ids of another cluster in the log would be published at the wrong time
-- or never.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox_internal.home() RETURNS text
  LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_home';
COMMENT ON FUNCTION outbox_internal.home() IS 'system identifier and oid of this database, as in outbox_internal.lane.home';

CREATE FUNCTION outbox_internal.in_subscription() RETURNS boolean
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_in_subscription';
COMMENT ON FUNCTION outbox_internal.in_subscription() IS 'is this process one that applies what a subscription brings?';

CREATE FUNCTION outbox_internal.divert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $divert$
BEGIN
  INSERT INTO outbox_internal.foreign_event (created_at, id, aggregate_type, aggregate_id, event_type, payload, content_type,
                                    headers, topic, deliver_at, xid, home, subscribed)
  VALUES (NEW.created_at, NEW.id, NEW.aggregate_type, NEW.aggregate_id, NEW.event_type, NEW.payload, NEW.content_type,
          NEW.headers, NEW.topic, NEW.deliver_at, NEW.xid, outbox_internal.home(), outbox_internal.in_subscription());
  RETURN NULL;
END
$divert$;
COMMENT ON FUNCTION outbox_internal.divert() IS 'keeps rows that reach outbox_internal.log by another way than emit() in outbox_internal.foreign_event';

CREATE TRIGGER log_guard BEFORE INSERT ON outbox_internal.log FOR EACH ROW EXECUTE FUNCTION outbox_internal.divert();
ALTER TABLE outbox_internal.log ENABLE ALWAYS TRIGGER log_guard;
COMMENT ON TRIGGER log_guard ON outbox_internal.log IS 'diverts every insert but emit''s own into outbox_internal.foreign_event';

CREATE TRIGGER log_guard BEFORE INSERT ON outbox_internal.log_spare FOR EACH ROW EXECUTE FUNCTION outbox_internal.divert();
ALTER TABLE outbox_internal.log_spare ENABLE ALWAYS TRIGGER log_guard;
COMMENT ON TRIGGER log_guard ON outbox_internal.log_spare IS 'as on outbox_internal.log';
