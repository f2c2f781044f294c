-- ---------------------------------------------------------------------------------------------------------------------
-- Row changes as events without code:
--   CREATE TRIGGER "00_events" AFTER INSERT OR UPDATE OR DELETE ON orders
--     FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
-- Arguments: aggregate type, key column, prefix of the event type (default: the aggregate type), columns to leave out.
-- Events are <prefix>.created, .updated and .deleted. The payload is the row as JSON: the new one, or the old one for
-- .deleted. An UPDATE that changes the key is .deleted under the old key and .created under the new one.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox.emit_row() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_row';
COMMENT ON FUNCTION outbox.emit_row() IS 'trigger function emit_row(aggregate_type, key_column [, event_type_prefix [, left_out_column ...]]): emits each row change; who writes to the table needs no grant. An update that changes the key is deleted under the old key and created under the new one, row after row: where a statement exchanges or shifts keys, deleted may be the last event of a key that a row has';
