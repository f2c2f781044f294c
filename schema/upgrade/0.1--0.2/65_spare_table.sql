-- ---------------------------------------------------------------------------------------------------------------------
-- emit() depends on no free background worker.
-- ---------------------------------------------------------------------------------------------------------------------
-- Takes an event when the table of its day is not there and cannot be made at once. No partition: a session that
-- attaches one holds a lock until his transaction ends, a default partition is locked by each that is attached, and any
-- other bounds would be untrue.
CREATE TABLE outbox_internal.log_spare (LIKE outbox_internal.log INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING COMMENTS) USING heap
  WITH (fillfactor = 100, autovacuum_enabled = false, toast.autovacuum_enabled = false);
CREATE INDEX log_spare_xid ON outbox_internal.log_spare USING btree (xid);
COMMENT ON TABLE outbox_internal.log_spare IS 'a part of the log beside its day tables: events whose day had no table, and no background worker was free to make it; read like the log, and emptied as a whole when all of it has expired';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.log_spare', '');
REVOKE ALL ON TABLE outbox_internal.log_spare FROM PUBLIC;

CREATE TRIGGER log_guard BEFORE INSERT ON outbox_internal.log_spare FOR EACH ROW EXECUTE FUNCTION outbox_internal.divert();
ALTER TABLE outbox_internal.log_spare ENABLE ALWAYS TRIGGER log_guard;
COMMENT ON TRIGGER log_guard ON outbox_internal.log_spare IS 'as on outbox_internal.log';
