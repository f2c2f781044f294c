-- ---------------------------------------------------------------------------------------------------------------------
-- The view outbox.outboxevent: the table that Debezium's libraries write (Quarkus' extension and others), with Debezium's own
-- column names. INSERT emits; DELETE, which they send behind each INSERT, counts the row and does nothing. For a table of other
-- columns, or of another name, a view of one's own stands in its place, with the same trigger function. (Run again in a step
-- from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox.emit_outboxevent() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_outboxevent';
COMMENT ON FUNCTION outbox.emit_outboxevent() IS 'trigger function for a view that stands where an outbox table stood: INSERT emits (columns by Debezium''s names id, aggregatetype, aggregateid, type, payload, tracingspancontext; others become headers), DELETE counts the row and does nothing';

CREATE OR REPLACE VIEW outbox.outboxevent AS
  SELECT e.id, e.aggregate_type AS aggregatetype, e.aggregate_id AS aggregateid, e.event_type AS type,
         coalesce(e.payload_text, e.payload::text) AS payload, e.created_at AS "timestamp", NULL::text AS tracingspancontext
  FROM outbox_internal.own_event e;
COMMENT ON VIEW outbox.outboxevent IS 'the outbox table of Debezium''s libraries: INSERT emits, DELETE does nothing; shows what the current role has emitted in the current transaction';
COMMENT ON COLUMN outbox.outboxevent.id IS 'event id; the client''s own if given, else made';
COMMENT ON COLUMN outbox.outboxevent.aggregatetype IS 'kind of thing the event is about; part of the topic''s name by default';
COMMENT ON COLUMN outbox.outboxevent.aggregateid IS 'ordering and partition key; NULL: no key, no order';
COMMENT ON COLUMN outbox.outboxevent.type IS 'what happened';
COMMENT ON COLUMN outbox.outboxevent.payload IS 'published byte for byte, as JSON if it is JSON, else as text/plain; NULL: a tombstone';
COMMENT ON COLUMN outbox.outboxevent."timestamp" IS 'given by outbox; what a client sends is ignored';
COMMENT ON COLUMN outbox.outboxevent.tracingspancontext IS 'properties, a line each, of which traceparent, tracestate and baggage become headers; not shown';

CREATE OR REPLACE TRIGGER outboxevent INSTEAD OF INSERT OR UPDATE OR DELETE ON outbox.outboxevent
  FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
COMMENT ON TRIGGER outboxevent ON outbox.outboxevent IS 'INSERT emits, DELETE does nothing';
CREATE OR REPLACE TRIGGER outboxevent_refuse BEFORE UPDATE ON outbox.outboxevent
  FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.event_refuse();
COMMENT ON TRIGGER outboxevent_refuse ON outbox.outboxevent IS 'the log is append-only';
