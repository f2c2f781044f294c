CREATE DOMAIN outbox.text_arg AS text;
COMMENT ON DOMAIN outbox.text_arg IS 'text argument of a function that is chosen by its other arguments';

COMMENT ON COLUMN outbox.event.payload IS 'JSON payload; give exactly one of payload, payload_text and payload_bytes. Reads the body of JSON: without a content type, or of one that is application/json or ends in +json';
COMMENT ON COLUMN outbox.event.content_type IS 'media type; NULL for JSON in payload, text/plain for payload_text, application/octet-stream for payload_bytes';
COMMENT ON COLUMN outbox.event.payload_text IS 'text payload; application/json as content_type where it is JSON in a string. Reads the body of text/*, *json and *xml';
COMMENT ON FUNCTION outbox.pause(text, text, text, text, text, text) IS
  'stops a route, a destination (server), a topic of a route, or a key of a route (aggregate_type and aggregate_id); reason has to be given, and is kept; false: it was paused already';
COMMENT ON FUNCTION outbox.emit_row() IS 'trigger function emit_row(aggregate_type, key_column [, event_type_prefix [, left_out_column ...]]): emits each row change; who writes to the table needs no grant. An update that changes the key is deleted under the old key and created under the new one, row after row: where a statement exchanges or shifts keys, deleted may be the last event of a key that a row has';
