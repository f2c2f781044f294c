-- ---------------------------------------------------------------------------------------------------------------------
-- Schemas of payloads, asserted at emit. Sessions keep what they have read until it changes; where nothing is registered, emit()
-- asks for nothing. (Run again in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE TABLE IF NOT EXISTS outbox_internal.event_schema (
  aggregate_type text        NOT NULL,
  event_type     text        NOT NULL,
  json_schema    jsonb       NOT NULL,
  schema_version integer,
  dataschema     text,
  changed_at     timestamptz NOT NULL DEFAULT pg_catalog.now(),
  changed_by     name        NOT NULL DEFAULT SESSION_USER,
  PRIMARY KEY (aggregate_type, event_type)
) USING heap;
COMMENT ON TABLE outbox_internal.event_schema IS 'JSON Schemas that emit() asserts; change through outbox.event_schema() and outbox.drop_event_schema()';
COMMENT ON COLUMN outbox_internal.event_schema.aggregate_type IS 'of which events';
COMMENT ON COLUMN outbox_internal.event_schema.event_type IS 'of which events';
COMMENT ON COLUMN outbox_internal.event_schema.json_schema IS 'JSON Schema, draft 6 to 2020-12';
COMMENT ON COLUMN outbox_internal.event_schema.schema_version IS 'header schema_version of events that give none; NULL: none';
COMMENT ON COLUMN outbox_internal.event_schema.dataschema IS 'header dataschema of events that give none; NULL: none';
COMMENT ON COLUMN outbox_internal.event_schema.changed_at IS 'when it was registered last';
COMMENT ON COLUMN outbox_internal.event_schema.changed_by IS 'by whom';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.event_schema', '');

CREATE OR REPLACE FUNCTION outbox_internal.check_json_schema(aggregate_type text, event_type text, json_schema jsonb, schema_version integer, dataschema text) RETURNS void
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_check_json_schema';
COMMENT ON FUNCTION outbox_internal.check_json_schema(text, text, jsonb, integer, text) IS 'refuses what emit() could not assert';

CREATE OR REPLACE FUNCTION outbox.event_schema(aggregate_type text, event_type text, json_schema jsonb, schema_version integer DEFAULT NULL, dataschema text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $register$
#variable_conflict use_column
BEGIN
  PERFORM outbox_internal.check_json_schema(event_schema.aggregate_type, event_schema.event_type, event_schema.json_schema, event_schema.schema_version, event_schema.dataschema);
  INSERT INTO outbox_internal.event_schema AS s (aggregate_type, event_type, json_schema, schema_version, dataschema)
  VALUES (event_schema.aggregate_type, event_schema.event_type, event_schema.json_schema, event_schema.schema_version, event_schema.dataschema)
  ON CONFLICT ON CONSTRAINT event_schema_pkey DO UPDATE SET json_schema = excluded.json_schema, schema_version = excluded.schema_version,
    dataschema = excluded.dataschema, changed_at = now(), changed_by = session_user;
  PERFORM outbox_internal.write_audit('event_schema', jsonb_strip_nulls(jsonb_build_object('aggregate_type', event_schema.aggregate_type, 'event_type', event_schema.event_type,
    'schema_version', event_schema.schema_version, 'dataschema', event_schema.dataschema, 'json_schema', event_schema.json_schema)));
END
$register$;
COMMENT ON FUNCTION outbox.event_schema(text, text, jsonb, integer, text) IS 'registers a JSON Schema that emit() asserts of the JSON payloads of an event type (a name, no pattern) from now on, in place of the one before; schema_version and dataschema become headers of events that give none';

CREATE OR REPLACE FUNCTION outbox.drop_event_schema(aggregate_type text, event_type text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $drop$
BEGIN
  IF drop_event_schema.aggregate_type IS NULL OR drop_event_schema.event_type IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'aggregate_type and event_type must not be null',
      DETAIL = 'A schema is asserted of the events of one type of one aggregate type.', HINT = 'outbox.event_schemas has those that there are.';
  END IF;
  DELETE FROM outbox_internal.event_schema s WHERE s.aggregate_type = drop_event_schema.aggregate_type AND s.event_type = drop_event_schema.event_type;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM outbox_internal.write_audit('drop_event_schema', jsonb_build_object('aggregate_type', drop_event_schema.aggregate_type, 'event_type', drop_event_schema.event_type));
  RETURN true;
END
$drop$;
COMMENT ON FUNCTION outbox.drop_event_schema(text, text) IS 'ends the check of an event type''s payloads; false: there was none';

CREATE OR REPLACE VIEW outbox.event_schemas AS
  SELECT s.aggregate_type, s.event_type, s.json_schema, s.schema_version, s.dataschema, s.changed_at, s.changed_by
  FROM outbox_internal.event_schema s;
COMMENT ON VIEW outbox.event_schemas IS 'JSON Schemas that emit() asserts of payloads';
COMMENT ON COLUMN outbox.event_schemas.aggregate_type IS 'of which events';
COMMENT ON COLUMN outbox.event_schemas.event_type IS 'of which events';
COMMENT ON COLUMN outbox.event_schemas.json_schema IS 'JSON Schema, draft 6 to 2020-12';
COMMENT ON COLUMN outbox.event_schemas.schema_version IS 'header schema_version of events that give none';
COMMENT ON COLUMN outbox.event_schemas.dataschema IS 'header dataschema of events that give none';
COMMENT ON COLUMN outbox.event_schemas.changed_at IS 'when it was registered last';
COMMENT ON COLUMN outbox.event_schemas.changed_by IS 'by whom';

GRANT SELECT ON outbox.event_schemas TO pg_monitor;
