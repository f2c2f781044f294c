-- ---------------------------------------------------------------------------------------------------------------------
-- The further forms of emit_text, emit_bytes, emit_tombstone and emit_many: headers and payloads of them as typed strings or
-- json (JDBC, psycopg's Json), keys of emit_many as bigint[] or uuid[]. (Run again in a step from one version to the next.)
--
-- Which form a call means is decided by the types of its arguments, and an untyped call has to mean what it meant without
-- these: text is the preferred type of strings, so of two forms the one with text is taken, where nothing else decides.
-- emit_text() and its like need no more than that. The keys of emit_many() are arrays, of which no type is preferred: there the
-- two strings tell all six forms apart, and text_arg, which no client's string has, never counts as a match:
--
--   text,     text[],   text,     jsonb[]       an untyped call, in 21_emit_many.sql
--   text,     bigint[], text_arg, jsonb[]
--   text,     uuid[],   text_arg, jsonb[]
--   text_arg, text[],   text,     json_arg[]
--   text_arg, bigint[], text_arg, json_arg[]
--   text_arg, uuid[],   text_arg, json_arg[]
--
-- A single argument leaves nothing to tell jsonb and json_arg apart by, hence another name for it.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox.emit_text(aggregate_type varchar, aggregate_id varchar, event_type varchar, payload varchar, content_type varchar DEFAULT 'text/plain', headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_json_headers_key_text';
CREATE OR REPLACE FUNCTION outbox.emit_text(aggregate_type varchar, aggregate_id bigint, event_type varchar, payload varchar, content_type varchar DEFAULT 'text/plain', headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_json_headers_key_bigint';
CREATE OR REPLACE FUNCTION outbox.emit_text(aggregate_type varchar, aggregate_id uuid, event_type varchar, payload varchar, content_type varchar DEFAULT 'text/plain', headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_json_headers_key_uuid';
COMMENT ON FUNCTION outbox.emit_text(varchar, varchar, varchar, varchar, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_text() for typed strings and json as headers';
COMMENT ON FUNCTION outbox.emit_text(varchar, bigint, varchar, varchar, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_text() for typed strings and json as headers';
COMMENT ON FUNCTION outbox.emit_text(varchar, uuid, varchar, varchar, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_text() for typed strings and json as headers';

CREATE OR REPLACE FUNCTION outbox.emit_bytes(aggregate_type varchar, aggregate_id varchar, event_type varchar, payload bytea, content_type varchar DEFAULT 'application/octet-stream', headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_json_headers_key_text';
CREATE OR REPLACE FUNCTION outbox.emit_bytes(aggregate_type varchar, aggregate_id bigint, event_type varchar, payload bytea, content_type varchar DEFAULT 'application/octet-stream', headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_json_headers_key_bigint';
CREATE OR REPLACE FUNCTION outbox.emit_bytes(aggregate_type varchar, aggregate_id uuid, event_type varchar, payload bytea, content_type varchar DEFAULT 'application/octet-stream', headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_json_headers_key_uuid';
COMMENT ON FUNCTION outbox.emit_bytes(varchar, varchar, varchar, bytea, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_bytes() for typed strings and json as headers';
COMMENT ON FUNCTION outbox.emit_bytes(varchar, bigint, varchar, bytea, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_bytes() for typed strings and json as headers';
COMMENT ON FUNCTION outbox.emit_bytes(varchar, uuid, varchar, bytea, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_bytes() for typed strings and json as headers';

CREATE OR REPLACE FUNCTION outbox.emit_tombstone(aggregate_type varchar, aggregate_id varchar, event_type varchar, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_json_headers_key_text';
CREATE OR REPLACE FUNCTION outbox.emit_tombstone(aggregate_type varchar, aggregate_id bigint, event_type varchar, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_json_headers_key_bigint';
CREATE OR REPLACE FUNCTION outbox.emit_tombstone(aggregate_type varchar, aggregate_id uuid, event_type varchar, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_key text DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_json_headers_key_uuid';
COMMENT ON FUNCTION outbox.emit_tombstone(varchar, varchar, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_tombstone() for typed strings and json as headers';
COMMENT ON FUNCTION outbox.emit_tombstone(varchar, bigint, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_tombstone() for typed strings and json as headers';
COMMENT ON FUNCTION outbox.emit_tombstone(varchar, uuid, varchar, outbox.json_arg, varchar, timestamptz, text) IS 'emit_tombstone() for typed strings and json as headers';

CREATE OR REPLACE FUNCTION outbox.emit_many(aggregate_type text, aggregate_ids bigint[], event_type outbox.text_arg, payloads jsonb[], headers jsonb[] DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_keys text[] DEFAULT NULL)
  RETURNS uuid[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_many_key_bigint';
CREATE OR REPLACE FUNCTION outbox.emit_many(aggregate_type text, aggregate_ids uuid[], event_type outbox.text_arg, payloads jsonb[], headers jsonb[] DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_keys text[] DEFAULT NULL)
  RETURNS uuid[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_many_key_uuid';
CREATE OR REPLACE FUNCTION outbox.emit_many(aggregate_type outbox.text_arg, aggregate_ids text[], event_type text, payloads outbox.json_arg[], headers outbox.json_arg[] DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_keys text[] DEFAULT NULL)
  RETURNS uuid[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_many_json_key_text';
CREATE OR REPLACE FUNCTION outbox.emit_many(aggregate_type outbox.text_arg, aggregate_ids bigint[], event_type outbox.text_arg, payloads outbox.json_arg[], headers outbox.json_arg[] DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_keys text[] DEFAULT NULL)
  RETURNS uuid[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_many_json_key_bigint';
CREATE OR REPLACE FUNCTION outbox.emit_many(aggregate_type outbox.text_arg, aggregate_ids uuid[], event_type outbox.text_arg, payloads outbox.json_arg[], headers outbox.json_arg[] DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL, dedupe_keys text[] DEFAULT NULL)
  RETURNS uuid[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_many_json_key_uuid';
COMMENT ON FUNCTION outbox.emit_many(text, bigint[], outbox.text_arg, jsonb[], jsonb[], text, timestamptz, text[]) IS 'emits an event for each payload of an array, all of one aggregate type and event type, all due at the same time; a NULL array of ids means no keys';
COMMENT ON FUNCTION outbox.emit_many(text, uuid[], outbox.text_arg, jsonb[], jsonb[], text, timestamptz, text[]) IS 'emits an event for each payload of an array, all of one aggregate type and event type, all due at the same time; a NULL array of ids means no keys';
COMMENT ON FUNCTION outbox.emit_many(outbox.text_arg, text[], text, outbox.json_arg[], outbox.json_arg[], text, timestamptz, text[]) IS 'emit_many() for arrays of typed strings or json: the payloads are published byte for byte';
COMMENT ON FUNCTION outbox.emit_many(outbox.text_arg, bigint[], outbox.text_arg, outbox.json_arg[], outbox.json_arg[], text, timestamptz, text[]) IS 'emit_many() for arrays of typed strings or json: the payloads are published byte for byte';
COMMENT ON FUNCTION outbox.emit_many(outbox.text_arg, uuid[], outbox.text_arg, outbox.json_arg[], outbox.json_arg[], text, timestamptz, text[]) IS 'emit_many() for arrays of typed strings or json: the payloads are published byte for byte';

CREATE OR REPLACE FUNCTION outbox.emit_many_json(events outbox.json_arg)
  RETURNS SETOF uuid LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'outbox_emit_many_json';
COMMENT ON FUNCTION outbox.emit_many_json(outbox.json_arg) IS 'emit_many() of an array of objects for typed strings and json; the payloads are published in the spelling of jsonb';

-- Said aloud, so that what default privileges gave and 98_rights.sql takes leaves the same behind in an update.
GRANT USAGE ON TYPE outbox.text_arg TO PUBLIC;
