-- matrix: H2
-- Every refusal of the emit functions, with its SQLSTATE, DETAIL and HINT.
CREATE FUNCTION refused(sql text) RETURNS TABLE (code text, message text, detail text, hint text)
LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE sql;
  message := 'not refused';
  RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RETURN NEXT;
END $$;
\x on
\t on
-- aggregate type, event type
SELECT * FROM refused($$SELECT outbox.emit(NULL, 1, 'e', '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit('', 1, 'e', '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit(repeat('a', 256), 1, 'e', '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, NULL, '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, '', '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, repeat('ü', 128), '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit_text(NULL, 1, 'e', 'x')$$);
SELECT * FROM refused($$SELECT outbox.emit_bytes('o', 1, NULL, 'x')$$);
SELECT * FROM refused($$SELECT outbox.emit_tombstone('', 1, 'e')$$);
SELECT * FROM refused($$SELECT outbox.emit(NULL::varchar, 1, 'e', '{}'::text)$$);
-- aggregate id
SELECT * FROM refused($$SELECT outbox.emit('o', repeat('a', 1001), 'e', '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit_tombstone('o', NULL::text, 'e')$$);
SELECT * FROM refused($$SELECT outbox.emit_tombstone('o', NULL::bigint, 'e')$$);
SELECT * FROM refused($$SELECT outbox.emit_tombstone('o', NULL::uuid, 'e')$$);
-- payload
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', NULL)$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', NULL::json)$$);
SELECT * FROM refused($$SELECT outbox.emit_text('o', 1, 'e', NULL)$$);
SELECT * FROM refused($$SELECT outbox.emit_bytes('o', 1, 'e', NULL)$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', to_jsonb('{"a": 1}'::text))$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', to_jsonb(E' \n[1]'::text))$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '"{\"a\": 1}"'::text)$$);
-- However it is spelled, and only what is JSON: a string may begin with a bracket.
SELECT j, bool_and(r.message = 'payload is JSON encoded twice') AS refused
FROM unnest(ARRAY['" \n{\"a\": \"\\u00e9\\\"\"}"', '"\n[1, \"\ud83d\ude00\"]"', '"[\u0031]"', '"{}"', '"[]"']) j, unnest('{json,jsonb,text}'::text[]) t,
  refused(format('SELECT outbox.emit(''string'', 1, ''e'', %L::%s)', j, t)) r GROUP BY j ORDER BY j;
SELECT left(j, 20) AS j, bool_and(r.message = 'not refused') AS taken
FROM unnest(ARRAY['"[INFO] started"', '"{name} was here"', '"{"', '"[1,]"', '"[1] and more"', '"{\"a\": 1"', '"[\"\\x\"]"', '"[\"\t\"]"',
  to_jsonb(repeat('[', 100000))::text]) j, unnest('{json,jsonb,text}'::text[]) t,
  refused(format('SELECT outbox.emit(''string'', 1, ''e'', %L::%s)', j, t)) r GROUP BY j ORDER BY j;
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', ' "\n[1]"'::json)$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{"a": }'::text)$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', 'plain'::varchar)$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{"a": }')$$);
SET outbox.max_payload_size = '1kB';
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', jsonb_build_object('a', repeat('x', 1024)))$$);
SELECT * FROM refused($$SELECT outbox.emit_text('o', 1, 'e', repeat('x', 1025))$$);
SELECT * FROM refused($$SELECT outbox.emit_text('o', 1, 'e', repeat('x', 1024))$$);
SELECT * FROM refused($$SELECT outbox.emit_bytes('o', 1, 'e', decode(repeat('ff', 1025), 'hex'))$$);
RESET outbox.max_payload_size;
SHOW outbox.max_payload_size;
-- content type
SELECT * FROM refused($$SELECT outbox.emit_text('o', 1, 'e', 'x', '')$$);
SELECT * FROM refused($$SELECT outbox.emit_text('o', 1, 'e', 'x', repeat('x', 256))$$);
SELECT * FROM refused($$SELECT outbox.emit_text('o', 1, 'e', 'x', E'text/plain\r\nx: y')$$);
-- headers
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '[]')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '"x"')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '{"a": "b", "n": 1}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '{"n": null}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '{"n": true}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '{"n": {"a": "b"}}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '{"n": []}')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', '{"": "b"}')$$);
SELECT r.* FROM unnest(ARRAY['id', 'type', 'aggregate_type', 'content-type', 'created_at', 'Content-Type']) name, refused(format($$SELECT outbox.emit('o', 1, 'e', '{}', %L)$$, jsonb_build_object(name, 'x'))) r;
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', jsonb_build_object('a', repeat('x', 12284)))$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}'::text, '{"a": 1}'::text)$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}'::text, 'x'::text)$$);
SELECT * FROM refused(format($$SELECT outbox.emit('o', 1, 'e', '{}', %L)$$, jsonb_build_object(repeat('é', 20000), 'x')));
SELECT * FROM refused(format($$SELECT outbox.emit('o', 1, 'e', '{}', %L)$$, jsonb_build_object(repeat('é', 8000), 'x')));
SELECT * FROM refused(format($$SELECT outbox.emit('o', 1, 'e', '{}', %L)$$, jsonb_build_object(E'a\n\u009b\u202e\u2028é', 'x')));
-- topic
SELECT r.* FROM unnest(ARRAY['', '.', '..', 'a b', 'a/b', 'ü', repeat('t', 250), '__consumer_offsets']) topic, refused(format($$SELECT outbox.emit('o', 1, 'e', '{}', topic => %L)$$, topic)) r;
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', topic => repeat('t', 249))$$);
-- where and when
BEGIN READ ONLY;
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1}]')$$);
SELECT * FROM refused($$INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('o', 'e', '1')$$);
COMMIT;
\t off
\x off
-- Nothing that was refused left anything behind.
SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'o' AND event_type = 'e' AND length(payload) <> 1024 AND topic IS NULL;

-- A day table that was changed by hand is refused, and taken again once it is as it was.
DO $$ BEGIN PERFORM outbox.emit('o', 1, 'e', '{}'); END $$;
SELECT 'outbox_internal.log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') AS day \gset
CREATE FUNCTION refused_masked(sql text) RETURNS TABLE (code text, message text, detail text, hint text)
LANGUAGE sql AS $$ SELECT r.code, regexp_replace(r.message, '\d{8}', 'YYYYMMDD'), regexp_replace(r.detail, '\d{8}', 'YYYYMMDD'), regexp_replace(r.hint, '\d{8}', 'YYYYMMDD') FROM refused(sql) r $$;
\x on
\t on
SET outbox.allow_loss = on;
ALTER TABLE :day ADD CONSTRAINT extra CHECK (aggregate_type <> 'forbidden');
SELECT * FROM refused_masked($$SELECT outbox.emit('o', 1, 'e', '{}')$$);
ALTER TABLE :day DROP CONSTRAINT extra;
SELECT * FROM refused_masked($$SELECT outbox.emit('o', 1, 'e', '{}')$$);
ALTER TABLE :day ADD CONSTRAINT extra EXCLUDE USING btree (id WITH =);
SELECT * FROM refused_masked($$SELECT outbox.emit('o', 1, 'e', '{}')$$);
ALTER TABLE :day DROP CONSTRAINT extra;
CREATE TABLE types (name text PRIMARY KEY);
ALTER TABLE :day ADD CONSTRAINT extra FOREIGN KEY (aggregate_type) REFERENCES types NOT VALID;
SELECT * FROM refused_masked($$SELECT outbox.emit('o', 1, 'e', '{}')$$);
ALTER TABLE :day DROP CONSTRAINT extra;
RESET outbox.allow_loss;
DROP TABLE types;
SELECT * FROM refused_masked($$SELECT outbox.emit('o', 1, 'e', '{}')$$);
\t off
\x off
-- Indexes of others are filled: unique ones refuse, expressions and predicates are evaluated.
BEGIN;
SET LOCAL outbox.allow_loss = on;
CREATE UNIQUE INDEX extra_unique ON :day (aggregate_id) WHERE aggregate_type = 'once';
CREATE INDEX extra_expression ON :day (lower(aggregate_type)) WHERE event_type = 'indexed';
SELECT outbox.emit('once', 1, 'e', '{}') IS NOT NULL AS first, outbox.emit('twice', 1, 'e', '{}') IS NOT NULL AS other;
SELECT outbox.emit('ONE', 1, 'indexed', '{}') IS NOT NULL AS indexed FROM generate_series(1, 3);
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SELECT count(*) FROM :day WHERE lower(aggregate_type) = 'one' AND event_type = 'indexed';
SELECT cardinality(outbox.emit_many('ONE', NULL, 'indexed', '{1,2}')) AS many;
SELECT count(*) FROM :day WHERE lower(aggregate_type) = 'one' AND event_type = 'indexed';
\set VERBOSITY terse
SELECT outbox.emit('once', 1, 'e', '{}');
\set VERBOSITY default
ROLLBACK;
