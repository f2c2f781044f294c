-- ---------------------------------------------------------------------------------------------------------------------
-- Emitting. Not STRICT: a NULL argument is an error with a hint, not a call that does nothing. VOLATILE and PARALLEL
-- UNSAFE: poolers, balancers and the planner must take them for writes. Nothing here is for PUBLIC but the input and
-- output of json_arg, which casts run with the caller's rights: see outbox.grant_emit().
-- ---------------------------------------------------------------------------------------------------------------------

-- A type of our own for JSON that comes as text, varchar or json (drivers that declare their strings, json_build_object).
-- Its category is jsonb's, so that it never wins over jsonb or text where an argument is untyped. A twin on text,
-- varchar or json itself would silently capture or break untyped calls.
CREATE TYPE outbox.json_arg;
CREATE FUNCTION outbox_internal.json_arg_in(cstring) RETURNS outbox.json_arg
  LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_json_arg_in';
CREATE FUNCTION outbox_internal.json_arg_out(outbox.json_arg) RETURNS cstring
  LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'json_out';
CREATE FUNCTION outbox_internal.json_arg_recv(internal) RETURNS outbox.json_arg
  LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_json_arg_recv';
CREATE FUNCTION outbox_internal.json_arg_send(outbox.json_arg) RETURNS bytea
  LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'json_send';
CREATE TYPE outbox.json_arg (
  INPUT = outbox_internal.json_arg_in, OUTPUT = outbox_internal.json_arg_out, RECEIVE = outbox_internal.json_arg_recv, SEND = outbox_internal.json_arg_send,
  INTERNALLENGTH = VARIABLE, ALIGNMENT = int4, STORAGE = extended, CATEGORY = 'U', PREFERRED = false
);
COMMENT ON TYPE outbox.json_arg IS 'JSON argument: text, varchar, json and jsonb become it by themselves; published byte for byte';
COMMENT ON FUNCTION outbox_internal.json_arg_in(cstring) IS 'input of json_arg: checks that it is JSON';
COMMENT ON FUNCTION outbox_internal.json_arg_out(outbox.json_arg) IS 'output of json_arg';
COMMENT ON FUNCTION outbox_internal.json_arg_recv(internal) IS 'binary input of json_arg';
COMMENT ON FUNCTION outbox_internal.json_arg_send(outbox.json_arg) IS 'binary output of json_arg';

CREATE CAST (text AS outbox.json_arg) WITH INOUT AS IMPLICIT;
CREATE CAST (varchar AS outbox.json_arg) WITH INOUT AS IMPLICIT;
CREATE CAST (json AS outbox.json_arg) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (jsonb AS outbox.json_arg) WITH INOUT AS IMPLICIT;
CREATE CAST (outbox.json_arg AS text) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (outbox.json_arg AS jsonb) WITH INOUT AS ASSIGNMENT;
COMMENT ON CAST (text AS outbox.json_arg) IS 'checks that the text is JSON';
COMMENT ON CAST (varchar AS outbox.json_arg) IS 'checks that the text is JSON';
COMMENT ON CAST (json AS outbox.json_arg) IS 'the same bytes';
COMMENT ON CAST (jsonb AS outbox.json_arg) IS 'jsonb in its own spelling';
COMMENT ON CAST (outbox.json_arg AS text) IS 'the same bytes';
COMMENT ON CAST (outbox.json_arg AS jsonb) IS 'the document as jsonb';

-- text that is never the better match: for forms that no untyped call means. See 21_emit_twins.sql.
CREATE DOMAIN outbox.text_arg AS text;
COMMENT ON DOMAIN outbox.text_arg IS 'text argument of a function that is chosen by its other arguments';

-- emit: the body is jsonb. Result of each function here: the event's id. deliver_at and
-- dedupe_key are the last arguments of each and have one type in all twins, so that they decide nothing about which of them is
-- called. Each further argument with a default is read from the catalog by every call that is not prepared, twice: whatever
-- else an event has goes into its headers.
CREATE FUNCTION outbox.emit(aggregate_type text, aggregate_id text, event_type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_key_text';
CREATE FUNCTION outbox.emit(aggregate_type text, aggregate_id bigint, event_type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_key_bigint';
CREATE FUNCTION outbox.emit(aggregate_type text, aggregate_id uuid, event_type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_key_uuid';
COMMENT ON FUNCTION outbox.emit(text, text, text, jsonb, jsonb, text, timestamptz, text) IS 'emits an event with a JSON payload: it is published if and only if this transaction commits';
COMMENT ON FUNCTION outbox.emit(text, bigint, text, jsonb, jsonb, text, timestamptz, text) IS 'emits an event with a JSON payload: it is published if and only if this transaction commits';
COMMENT ON FUNCTION outbox.emit(text, uuid, text, jsonb, jsonb, text, timestamptz, text) IS 'emits an event with a JSON payload: it is published if and only if this transaction commits';

-- Its twin for clients that declare their strings (JDBC) or hold json.
CREATE FUNCTION outbox.emit(aggregate_type varchar, aggregate_id varchar, event_type varchar, payload outbox.json_arg, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_json_key_text';
CREATE FUNCTION outbox.emit(aggregate_type varchar, aggregate_id bigint, event_type varchar, payload outbox.json_arg, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_json_key_bigint';
CREATE FUNCTION outbox.emit(aggregate_type varchar, aggregate_id uuid, event_type varchar, payload outbox.json_arg, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_json_key_uuid';
COMMENT ON FUNCTION outbox.emit(varchar, varchar, varchar, outbox.json_arg, outbox.json_arg, varchar, timestamptz, text) IS 'emit() for typed strings and json: the payload is published byte for byte';
COMMENT ON FUNCTION outbox.emit(varchar, bigint, varchar, outbox.json_arg, outbox.json_arg, varchar, timestamptz, text) IS 'emit() for typed strings and json: the payload is published byte for byte';
COMMENT ON FUNCTION outbox.emit(varchar, uuid, varchar, outbox.json_arg, outbox.json_arg, varchar, timestamptz, text) IS 'emit() for typed strings and json: the payload is published byte for byte';

CREATE FUNCTION outbox.emit_text(aggregate_type text, aggregate_id text, event_type text, payload text, content_type text DEFAULT 'text/plain', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_key_text';
CREATE FUNCTION outbox.emit_text(aggregate_type text, aggregate_id bigint, event_type text, payload text, content_type text DEFAULT 'text/plain', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_key_bigint';
CREATE FUNCTION outbox.emit_text(aggregate_type text, aggregate_id uuid, event_type text, payload text, content_type text DEFAULT 'text/plain', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_key_uuid';
COMMENT ON FUNCTION outbox.emit_text(text, text, text, text, text, jsonb, text, timestamptz, text) IS 'emits an event whose payload is text, published in UTF-8';
COMMENT ON FUNCTION outbox.emit_text(text, bigint, text, text, text, jsonb, text, timestamptz, text) IS 'emits an event whose payload is text, published in UTF-8';
COMMENT ON FUNCTION outbox.emit_text(text, uuid, text, text, text, jsonb, text, timestamptz, text) IS 'emits an event whose payload is text, published in UTF-8';

CREATE FUNCTION outbox.emit_bytes(aggregate_type text, aggregate_id text, event_type text, payload bytea, content_type text DEFAULT 'application/octet-stream', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_key_text';
CREATE FUNCTION outbox.emit_bytes(aggregate_type text, aggregate_id bigint, event_type text, payload bytea, content_type text DEFAULT 'application/octet-stream', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_key_bigint';
CREATE FUNCTION outbox.emit_bytes(aggregate_type text, aggregate_id uuid, event_type text, payload bytea, content_type text DEFAULT 'application/octet-stream', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_key_uuid';
COMMENT ON FUNCTION outbox.emit_bytes(text, text, text, bytea, text, jsonb, text, timestamptz, text) IS 'emits an event whose payload is bytes, published as they are';
COMMENT ON FUNCTION outbox.emit_bytes(text, bigint, text, bytea, text, jsonb, text, timestamptz, text) IS 'emits an event whose payload is bytes, published as they are';
COMMENT ON FUNCTION outbox.emit_bytes(text, uuid, text, bytea, text, jsonb, text, timestamptz, text) IS 'emits an event whose payload is bytes, published as they are';

CREATE FUNCTION outbox.emit_tombstone(aggregate_type text, aggregate_id text, event_type text, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_key_text';
CREATE FUNCTION outbox.emit_tombstone(aggregate_type text, aggregate_id bigint, event_type text, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_key_bigint';
CREATE FUNCTION outbox.emit_tombstone(aggregate_type text, aggregate_id uuid, event_type text, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_key_uuid';
COMMENT ON FUNCTION outbox.emit_tombstone(text, text, text, jsonb, text, timestamptz, text) IS 'emits an event without a payload: consumers of compacted topics take it as a deletion of the key';
COMMENT ON FUNCTION outbox.emit_tombstone(text, bigint, text, jsonb, text, timestamptz, text) IS 'emits an event without a payload: consumers of compacted topics take it as a deletion of the key';
COMMENT ON FUNCTION outbox.emit_tombstone(text, uuid, text, jsonb, text, timestamptz, text) IS 'emits an event without a payload: consumers of compacted topics take it as a deletion of the key';
