-- ---------------------------------------------------------------------------------------------------------------------
-- The view outbox.event, for ORMs: INSERT emits. It shows what the current role has emitted in the current transaction and
-- nothing else, so that RETURNING, refresh and merge work and granting SELECT leaks nothing. No column defaults: they would run with the
-- caller's rights. The functions need no SECURITY DEFINER: they are C and reach the log by themselves. It stands over a
-- foreign table, which the planner tells what is asked for: an event by its id is looked up, whatever else was emitted.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox_internal.own_event_scan() RETURNS fdw_handler
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_own_event_scan';
COMMENT ON FUNCTION outbox_internal.own_event_scan() IS 'reads the events of the current transaction';
CREATE FOREIGN DATA WRAPPER outbox_own_event HANDLER outbox_internal.own_event_scan NO VALIDATOR;
COMMENT ON FOREIGN DATA WRAPPER outbox_own_event IS 'no destination: for outbox_internal.own_event';
CREATE SERVER outbox_own_event FOREIGN DATA WRAPPER outbox_own_event;
COMMENT ON SERVER outbox_own_event IS 'no destination: for outbox_internal.own_event';
CREATE FOREIGN TABLE outbox_internal.own_event (
  id uuid, aggregate_type text, aggregate_id text, event_type text, payload jsonb, headers jsonb, topic text,
  created_at timestamptz, content_type text, payload_text text, payload_bytes bytea, deliver_at timestamptz,
  dedupe_key text, schema_version integer, dataschema text
) SERVER outbox_own_event;
COMMENT ON FOREIGN TABLE outbox_internal.own_event IS 'events of the current transaction, for the view outbox.event';

CREATE VIEW outbox.event AS
  SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.headers, e.topic, e.created_at,
         e.content_type, e.payload_text, e.payload_bytes, e.deliver_at, e.dedupe_key, e.schema_version, e.dataschema
  FROM outbox_internal.own_event e;
COMMENT ON VIEW outbox.event IS 'INSERT emits an event; shows what the current role has emitted in the current transaction';
COMMENT ON COLUMN outbox.event.id IS 'event id; the client''s own if given, else made';
COMMENT ON COLUMN outbox.event.aggregate_type IS 'kind of thing the event is about';
COMMENT ON COLUMN outbox.event.aggregate_id IS 'ordering and partition key; NULL: no key, no order';
COMMENT ON COLUMN outbox.event.event_type IS 'what happened';
COMMENT ON COLUMN outbox.event.payload IS 'JSON payload; give exactly one of payload, payload_text and payload_bytes. Reads the body of JSON: without a content type, or of one that is application/json or ends in +json';
COMMENT ON COLUMN outbox.event.headers IS 'flat object of strings; NULL for none';
COMMENT ON COLUMN outbox.event.topic IS 'explicit topic; NULL for the route''s own template';
COMMENT ON COLUMN outbox.event.created_at IS 'given by outbox; what a client sends is ignored';
COMMENT ON COLUMN outbox.event.content_type IS 'media type; NULL for JSON in payload, text/plain for payload_text, application/octet-stream for payload_bytes';
COMMENT ON COLUMN outbox.event.payload_text IS 'text payload; application/json as content_type where it is JSON in a string. Reads the body of text/*, *json and *xml';
COMMENT ON COLUMN outbox.event.payload_bytes IS 'payload of bytes; reads the body of all other content types';
COMMENT ON COLUMN outbox.event.deliver_at IS 'not to be delivered before this time; NULL: at once';
COMMENT ON COLUMN outbox.event.dedupe_key IS 'emits once: an insert with a key that has emitted within outbox.dedupe_retention writes nothing, and RETURNING has the id of that event; reads NULL';
COMMENT ON COLUMN outbox.event.schema_version IS 'version of the payload''s schema: header schema_version';
COMMENT ON COLUMN outbox.event.dataschema IS 'URI of the payload''s schema: header dataschema';

CREATE FUNCTION outbox_internal.event_insert() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_event_insert';
COMMENT ON FUNCTION outbox_internal.event_insert() IS 'emits what is inserted into outbox.event';
CREATE FUNCTION outbox_internal.event_refuse() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_event_refuse';
COMMENT ON FUNCTION outbox_internal.event_refuse() IS 'refuses UPDATE and DELETE on outbox.event';

CREATE TRIGGER event_insert INSTEAD OF INSERT ON outbox.event
  FOR EACH ROW EXECUTE FUNCTION outbox_internal.event_insert();
COMMENT ON TRIGGER event_insert ON outbox.event IS 'INSERT emits';
-- Once per statement, so that one that finds no row is refused too; the INSTEAD OF trigger is what lets a statement on
-- this view get as far as that.
CREATE TRIGGER event_refuse BEFORE UPDATE OR DELETE ON outbox.event
  FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.event_refuse();
COMMENT ON TRIGGER event_refuse ON outbox.event IS 'the log is append-only';
CREATE TRIGGER event_refuse_row INSTEAD OF UPDATE OR DELETE ON outbox.event
  FOR EACH ROW EXECUTE FUNCTION outbox_internal.event_refuse();
COMMENT ON TRIGGER event_refuse_row ON outbox.event IS 'the log is append-only';
