-- ---------------------------------------------------------------------------------------------------------------------
-- What adopt() and doctor() look for.
-- ---------------------------------------------------------------------------------------------------------------------

-- Rows that cannot have been events stay where they are.
CREATE OR REPLACE VIEW outbox_internal.adoptable AS
  SELECT f.ctid AS row_location, f.received_at, f.created_at, f.id, f.aggregate_type, f.aggregate_id, f.event_type, f.payload,
         f.content_type, f.headers, f.topic, f.deliver_at, f.xid, f.home, f.subscribed
  FROM outbox_internal.foreign_event f
  WHERE f.aggregate_type OPERATOR(pg_catalog.<>) '' AND f.event_type OPERATOR(pg_catalog.<>) ''
    AND (f.payload IS NOT NULL OR f.aggregate_id IS NOT NULL)
    AND (f.deliver_at IS NULL OR pg_catalog.isfinite(f.deliver_at));
COMMENT ON VIEW outbox_internal.adoptable IS 'rows of outbox_internal.foreign_event that can have been events';
COMMENT ON COLUMN outbox_internal.adoptable.row_location IS 'where the row of outbox_internal.foreign_event lies';
COMMENT ON COLUMN outbox_internal.adoptable.received_at IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.created_at IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.id IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.aggregate_type IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.aggregate_id IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.event_type IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.payload IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.content_type IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.headers IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.topic IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.deliver_at IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.xid IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.home IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.adoptable.subscribed IS 'as in outbox_internal.foreign_event';

-- Those of a restored dump that is being adopted are moved by another way (src/admin/operate/adoption.h).
CREATE OR REPLACE VIEW outbox_internal.emitted_again AS
  SELECT f.received_at, f.created_at, f.id, f.aggregate_type, f.aggregate_id, f.event_type, f.payload, f.content_type,
         f.headers, f.topic, f.deliver_at
  FROM outbox_internal.adoptable f
  WHERE NOT EXISTS (SELECT FROM outbox_internal.adoption a WHERE f.home OPERATOR(pg_catalog.=) ANY (a.later OPERATOR(pg_catalog.||) a.home) AND NOT f.subscribed
                    AND f.received_at OPERATOR(pg_catalog.<=) a.begun_at AND f.created_at IS NOT NULL AND f.id IS NOT NULL
                    AND f.xid IS NOT NULL);
COMMENT ON VIEW outbox_internal.emitted_again IS 'rows of outbox_internal.foreign_event that outbox.adopt() emits under their own ids: what came by logical replication, by hand, or in the foreign_event of a dump';
COMMENT ON COLUMN outbox_internal.emitted_again.received_at IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.created_at IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.id IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.aggregate_type IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.aggregate_id IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.event_type IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.payload IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.content_type IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.headers IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.topic IS 'as in outbox_internal.foreign_event';
COMMENT ON COLUMN outbox_internal.emitted_again.deliver_at IS 'as in outbox_internal.foreign_event';

-- A copy may be copied again before it is adopted. The positions stay those of the original, and so do the rows that were
-- diverted where its dump was restored; the log of the copy, which a second dump brings, is another's. Nothing but this
-- row tells afterwards where the first restore was.
CREATE OR REPLACE FUNCTION outbox_internal.note_restore() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $note$
BEGIN
  IF NEW.restored_in IS NULL AND pg_catalog.format('%s/%s', NEW.system_identifier, NEW.database) <> outbox_internal.home() THEN
    NEW.restored_in := outbox_internal.home();
  END IF;
  RETURN NEW;
END
$note$;
COMMENT ON FUNCTION outbox_internal.note_restore() IS 'notes where a dump brings the identity of its original';
CREATE OR REPLACE TRIGGER note_restore BEFORE INSERT ON outbox_internal.identity FOR EACH ROW EXECUTE FUNCTION outbox_internal.note_restore();
ALTER TABLE outbox_internal.identity ENABLE ALWAYS TRIGGER note_restore;
COMMENT ON TRIGGER note_restore ON outbox_internal.identity IS 'notes where a dump brings the identity of its original';

CREATE OR REPLACE VIEW outbox_internal.wrong_guard AS
  SELECT c.oid AS relation, t.oid AS trigger, c.relname AS relation_name, t.tgname AS trigger_name,
         c.relispartition AS is_partition
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
  WHERE (n.nspname OPERATOR(pg_catalog.=) 'outbox' OR n.nspname OPERATOR(pg_catalog.=) 'outbox_internal')
    AND ((t.tgname IN ('log_guard', 'log_loss', 'log_loss_deleted', 'log_loss_updated', 'no_loss', 'no_loss_deleted', 'no_loss_truncate',
                       'no_change', 'no_change_rows', 'no_change_told', 'no_change_inserted',
                       'route_by_hand', 'route_by_hand_truncate', 'find_role', 'read_again', 'read_again_emptied', 'no_forgetting', 'note_restore')
          AND t.tgenabled OPERATOR(pg_catalog.<>) 'A')
         OR (t.tgname OPERATOR(pg_catalog.=) 'ignore_replicated' AND t.tgenabled OPERATOR(pg_catalog.<>) 'R'));
COMMENT ON VIEW outbox_internal.wrong_guard IS 'triggers of tables of outbox that do not fire when they should: switched off, or changed by a restore';
COMMENT ON COLUMN outbox_internal.wrong_guard.relation IS 'table';
COMMENT ON COLUMN outbox_internal.wrong_guard.trigger IS 'trigger';
COMMENT ON COLUMN outbox_internal.wrong_guard.relation_name IS 'name of the table';
COMMENT ON COLUMN outbox_internal.wrong_guard.is_partition IS 'the table is a day table, or the like';
COMMENT ON COLUMN outbox_internal.wrong_guard.trigger_name IS 'ignore_replicated, which fires for logical replication, or another, which fires always';
