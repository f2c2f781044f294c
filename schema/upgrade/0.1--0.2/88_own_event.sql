-- ---------------------------------------------------------------------------------------------------------------------
-- The view outbox.event reads a foreign table: an event by its id is looked up, not searched for.
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

CREATE OR REPLACE VIEW outbox.event AS
  SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.headers, e.topic, e.created_at,
         e.content_type, e.payload_text, e.payload_bytes, e.deliver_at
  FROM outbox_internal.own_event e;
COMMENT ON VIEW outbox.event IS 'INSERT emits an event; shows what the current role has emitted in the current transaction';
REVOKE ALL ON FUNCTION outbox_internal.own_event_scan() FROM PUBLIC;
REVOKE ALL ON outbox_internal.own_event FROM PUBLIC;

DROP FUNCTION outbox_internal.own_events();
