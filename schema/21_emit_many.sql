-- ---------------------------------------------------------------------------------------------------------------------
-- Many events in one call: one round trip and fewer WAL records. Both forms keep the order and hand back ids in it.
-- ---------------------------------------------------------------------------------------------------------------------

-- For comfort: '[{"aggregate_type": "order", "aggregate_id": 42, "event_type": "order.created", "payload": {...}}, ...]'
CREATE FUNCTION outbox.emit_many(events jsonb)
  RETURNS SETOF uuid LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'outbox_emit_many_objects';
COMMENT ON FUNCTION outbox.emit_many(jsonb) IS 'emits an event for each object of a JSON array; the objects have the argument names of emit()';

-- For speed: element i of each array belongs to event i.
CREATE FUNCTION outbox.emit_many(aggregate_type text, aggregate_ids text[], event_type text, payloads jsonb[], headers jsonb[] DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_keys text[] DEFAULT NULL)
  RETURNS uuid[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_many_arrays';
COMMENT ON FUNCTION outbox.emit_many(text, text[], text, jsonb[], jsonb[], text, timestamptz, text[]) IS 'emits an event for each payload of an array, all of one aggregate type and event type, all due at the same time; a NULL array of ids means no keys';
