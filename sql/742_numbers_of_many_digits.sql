-- A short number in a jsonb, 1e131000, has 131,001 digits as text. A payload of many is refused as soon as more is written than one may
-- have, by every way in; what has just as much as it may have is taken.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
BEGIN;
CREATE FUNCTION pg_temp.refusal(sql text, document jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE said text; more text;
BEGIN
  EXECUTE sql USING document;
  RETURN 'taken';
EXCEPTION WHEN program_limit_exceeded THEN
  GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, more = PG_EXCEPTION_DETAIL;
  RETURN said || ': ' || more;
END $$;
CREATE DOMAIN pg_temp.of_client AS jsonb;
CREATE TEMP TABLE numbers_row (id int, document jsonb, note text DEFAULT 'x');
CREATE TEMP TABLE numbers_domain (id int, gone int, secret text, document pg_temp.of_client);
ALTER TABLE numbers_domain DROP COLUMN gone;
CREATE TEMP TABLE numbers_left_out (id int, document jsonb);
CREATE TRIGGER "00_events" AFTER INSERT ON numbers_row FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('numbers', 'id');
CREATE TRIGGER "00_events" AFTER INSERT ON numbers_domain FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('numbers', 'id', '', 'secret');
CREATE TRIGGER "00_events" AFTER INSERT ON numbers_left_out FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('numbers', 'id', '', 'document');
CREATE TEMP VIEW numbers_debezium AS SELECT ''::text AS aggregatetype, ''::text AS aggregateid, ''::text AS type, '{}'::jsonb AS payload;
CREATE TRIGGER emits INSTEAD OF INSERT ON numbers_debezium FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
CREATE TEMP TABLE ways (way text, sql text, around int);  -- around: how much of the payload is not the document
INSERT INTO ways VALUES
  ('emit', $$SELECT outbox.emit('numbers', 1, 'came', $1)$$, 0),
  ('emit_many, arrays', $$SELECT outbox.emit_many('numbers', ARRAY[1::bigint], 'came', ARRAY[$1])$$, 0),
  ('emit_many, objects', $$SELECT outbox.emit_many(jsonb_build_array(jsonb_build_object('aggregate_type', 'numbers', 'aggregate_id', '1', 'event_type', 'came', 'payload', $1)))$$, 0),
  ('outbox.event', $$INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('numbers', 1, 'came', $1)$$, 0),
  ('emit_outboxevent', $$INSERT INTO numbers_debezium VALUES ('numbers', '1', 'came', $1)$$, 0),
  ('emit_row', $$INSERT INTO numbers_row VALUES (1, $1)$$, length('{"id":1,"document":,"note":"x"}')),
  ('emit_row, domain', $$INSERT INTO numbers_domain VALUES (1, 'x', $1)$$, length('{"id":1,"document":}')),
  ('emit_row, left out', $$INSERT INTO numbers_left_out VALUES (1, $1)$$, NULL);
-- 393 MB
SELECT way, pg_temp.refusal(sql, (SELECT jsonb_agg(1e131000) FROM generate_series(1, 3000))) FROM ways ORDER BY way;
SELECT way, pg_temp.refusal(sql, (SELECT jsonb_object_agg(n, jsonb_build_array(1e131000)) FROM generate_series(1, 3000) n)) FROM ways WHERE way = 'emit';
-- One such number is no more than there may be.
SELECT way, pg_temp.refusal(sql, '[1e131000]') FROM ways ORDER BY way;
-- Up to the byte: numbers and strings that need more room as text than as jsonb, in arrays and objects, alone.
SET LOCAL outbox.max_payload_size = '1kB';
CREATE TEMP TABLE documents AS
  SELECT d FROM generate_series(960, 1060) n, LATERAL (VALUES (to_jsonb(10::numeric ^ n)), (jsonb_build_array(10::numeric ^ n)), (jsonb_build_object('k', 10::numeric ^ n)),
    (jsonb_build_array(1e300, 1e300, 1e300, 10::numeric ^ (n - 900))), (jsonb_build_object('a', 1e400, 'b', jsonb_build_array(1e400, 10::numeric ^ (n - 800), '[]'::jsonb))),
    (to_jsonb(repeat(E'\x01', n / 6) || repeat('x', n % 6))), (jsonb_build_array(repeat('"', n / 2), repeat('x', n % 2)))) v (d);
SELECT way, count(*) FILTER (WHERE taken) > 50 AS many_taken, count(*) FILTER (WHERE NOT taken) > 50 AS many_refused, bool_and(taken = (octet_length(d::text) + around <= 1024)) AS exact
FROM (SELECT way, around, d, pg_temp.refusal(sql, d) = 'taken' AS taken FROM ways, documents WHERE around IS NOT NULL) t GROUP BY way ORDER BY way;
-- What emit_row makes of a row with jsonb is what row_to_json() makes of it.
RESET outbox.max_payload_size;
DROP TRIGGER "00_events" ON numbers_row;
CREATE TRIGGER "00_events" AFTER INSERT ON numbers_row FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('same', 'id');
TRUNCATE numbers_row;
INSERT INTO numbers_row SELECT 1, d, NULL FROM documents;
INSERT INTO numbers_row VALUES (1, NULL, 'null'), (1, 'null', ''), (1, '{"a": [1.50, {"b": "\u00e9\n"}, null, true]}', 'x'), (1, '"x"', 'x');
CREATE TEMP VIEW emitted AS SELECT convert_from(payload, 'UTF8') FROM outbox_internal.log WHERE xid = pg_current_xact_id_if_assigned() AND aggregate_type = 'same';
SELECT count(*) > 500 AS many, count(*) = (SELECT count(*) FROM numbers_row) AS all FROM emitted;
SELECT count(*) FROM (TABLE emitted EXCEPT ALL SELECT row_to_json(r)::text FROM numbers_row r) other;
ROLLBACK;
