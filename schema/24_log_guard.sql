-- ---------------------------------------------------------------------------------------------------------------------
-- Only emit writes the log: emit bypasses triggers, everything else (a restore, logical replication, manual INSERTs)
-- ends up in outbox.foreign_event. Transaction ids of another cluster in the log would be published at the wrong time
-- or never.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._home() RETURNS text
  LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_home';
COMMENT ON FUNCTION outbox._home() IS 'system identifier and oid of this database, as in outbox.lane.home';

CREATE FUNCTION outbox._in_subscription() RETURNS boolean
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_in_subscription';
COMMENT ON FUNCTION outbox._in_subscription() IS 'is this process one that applies what a subscription brings?';

CREATE FUNCTION outbox._divert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $divert$
BEGIN
  INSERT INTO outbox.foreign_event (created_at, id, aggregate_type, aggregate_id, event_type, payload, content_type,
                                    headers, topic, deliver_at, xid, home, subscribed)
  VALUES (NEW.created_at, NEW.id, NEW.aggregate_type, NEW.aggregate_id, NEW.event_type, NEW.payload, NEW.content_type,
          NEW.headers, NEW.topic, NEW.deliver_at, NEW.xid, outbox._home(), outbox._in_subscription());
  RETURN NULL;
END
$divert$;
COMMENT ON FUNCTION outbox._divert() IS 'keeps rows that reach outbox.log by another way than emit() in outbox.foreign_event';

CREATE TRIGGER log_guard BEFORE INSERT ON outbox.log FOR EACH ROW EXECUTE FUNCTION outbox._divert();
ALTER TABLE outbox.log ENABLE ALWAYS TRIGGER log_guard;
COMMENT ON TRIGGER log_guard ON outbox.log IS 'diverts every insert but emit''s own into outbox.foreign_event';

CREATE TRIGGER log_guard BEFORE INSERT ON outbox.log_spare FOR EACH ROW EXECUTE FUNCTION outbox._divert();
ALTER TABLE outbox.log_spare ENABLE ALWAYS TRIGGER log_guard;
COMMENT ON TRIGGER log_guard ON outbox.log_spare IS 'as on outbox.log';
