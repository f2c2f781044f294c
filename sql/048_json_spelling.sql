-- A jsonb payload is published in jsonb's own spelling, byte for byte, by every way in; emit() writes it by itself.
SET outbox.allow_json_null = on;
CREATE TEMP TABLE documents (n int GENERATED ALWAYS AS IDENTITY, j jsonb NOT NULL);
-- Each kind of value alone, empty, in an object, in an array; numbers in every form that numeric has.
INSERT INTO documents (j) SELECT v::jsonb FROM unnest(ARRAY['null', 'true', 'false', '0', '-0', '1', '-1.50', '1e5', '1e-5', '123456789012345678901234567890.000',
  '0.000000000000000000001', '1e300', '""', '"a"', '"é"', '"€"', '"😀"', '"\ud83d\ude00"', '{}', '[]', '[[]]', '[{}]', '{"": ""}', '[null, true, false, 0]']) v;
INSERT INTO documents (j) SELECT w FROM documents, LATERAL (VALUES (jsonb_build_object('k', j)), (jsonb_build_array(j, j)),
  (jsonb_build_object('a', j, 'bb', jsonb_build_array(1, j, 'x'), 'ccc', j))) AS w (w);
-- Every character that is escaped and its neighbours, at every place of a word of eight bytes and across it, in keys and in values.
INSERT INTO documents (j) SELECT jsonb_build_object(repeat('k', before) || chr(c) || repeat('k', after), repeat('v', before) || chr(c) || repeat('v', after))
FROM unnest(ARRAY[1, 7, 8, 9, 10, 11, 12, 13, 14, 27, 31, 32, 33, 34, 35, 47, 91, 92, 93, 126, 127, 128, 160, 162, 220, 255, 8232, 65535, 128512]) c,
  generate_series(0, 17) before, unnest(ARRAY[0, 1, 7, 8, 9]) after;
INSERT INTO documents (j) SELECT to_jsonb(repeat(v, n)) FROM unnest(ARRAY['"', '\', E'\n', E'\x01', '"\', 'plain', E'\u00e9"']) v, generate_series(1, 33) n;
-- So much of it escaped that what comes behind has to find room anew.
INSERT INTO documents (j) SELECT jsonb_build_object(repeat('"', n), repeat('\', n), repeat(E'\x01', n), n, 'k' || repeat(E'\n', n), jsonb_build_array(repeat('x', n), true))
FROM generate_series(1, 400, 7) n;
-- More children than one stride of offsets (32), at and around its bounds.
INSERT INTO documents (j) SELECT jsonb_agg(CASE i % 5 WHEN 0 THEN to_jsonb(i) WHEN 1 THEN to_jsonb(repeat('x', i % 11)) WHEN 2 THEN 'null' WHEN 3 THEN jsonb_build_array(i, i / 7.0) ELSE jsonb_build_object('i', i) END)
FROM unnest(ARRAY[1, 2, 31, 32, 33, 63, 64, 65, 97, 1000]) n, generate_series(1, n) i GROUP BY n;
INSERT INTO documents (j) SELECT jsonb_object_agg(repeat('k', i % 9) || i, CASE i % 5 WHEN 0 THEN to_jsonb(i) WHEN 1 THEN to_jsonb(repeat('x', i % 11)) WHEN 2 THEN 'null' WHEN 3 THEN jsonb_build_array(i, i / 7.0) ELSE jsonb_build_object('i', i) END)
FROM unnest(ARRAY[1, 2, 31, 32, 33, 63, 64, 65, 97, 1000]) n, generate_series(1, n) i GROUP BY n;
-- Nested as deep as the parser goes, and at the bounds of what is kept without asking for memory.
INSERT INTO documents (j) SELECT (repeat('[', n) || '7' || repeat(']', n))::jsonb FROM unnest(ARRAY[15, 16, 17, 31, 32, 33, 1000, 3000]) n;
INSERT INTO documents (j) SELECT (repeat('{"k": [1, ', n) || '{}' || repeat(']}', n))::jsonb FROM unnest(ARRAY[7, 8, 9, 16, 1000]) n;
-- What is in the catalogs, whatever that is.
INSERT INTO documents (j) SELECT to_jsonb(p) FROM pg_proc p LIMIT 300;
INSERT INTO documents (j) SELECT to_jsonb(t) FROM pg_type t LIMIT 300;
INSERT INTO documents (j) SELECT jsonb_agg(to_jsonb(t)) FROM (SELECT * FROM pg_type t LIMIT 200) t;
-- Numbers: each count of digits before and behind the point, with groups of zeros in between, both signs.
INSERT INTO documents (j) SELECT jsonb_agg(n) FROM unnest(ARRAY[1, -1]) sign, generate_series(0, 26) before, LATERAL (
  SELECT sign * round((d * 10::numeric ^ before), behind) AS n
  FROM generate_series(0, 24) behind, unnest(ARRAY[0, 1, 1.5, 0.00010001, 9.99999999999999999999999, 1.0000000100000001, 0.123456789012345678901234, 7e-9]) d) n
GROUP BY sign, before;
SELECT count(*) > 3000 AS documents FROM documents;

CREATE TEMP VIEW spelled AS
  SELECT aggregate_type, count(*) AS events, bool_and(l.payload = convert_to(d.j::text, 'UTF8')) AS same
  FROM outbox_internal.log l JOIN documents d ON d.n = l.aggregate_id::int
  WHERE l.xid = pg_current_xact_id_if_assigned() GROUP BY 1 ORDER BY 1;
BEGIN;
-- A JSON string that holds JSON is refused (sql/022_emit_errors.sql): not among these.
SELECT count(outbox.emit('emit', n, 'e', j)) = count(*) AS emitted FROM documents;
SELECT cardinality(outbox.emit_many('arrays', array_agg(n::text ORDER BY n), 'e', array_agg(j ORDER BY n))) = count(*) AS emitted FROM documents;
SELECT count(*) = (SELECT count(*) FROM documents) AS emitted
FROM outbox.emit_many((SELECT jsonb_agg(jsonb_build_object('aggregate_type', 'objects', 'aggregate_id', n, 'event_type', 'e', 'payload', j) ORDER BY n) FROM documents));
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) SELECT 'view', n, 'e', j FROM documents;
SELECT count(outbox.emit('twin', n, 'e', j::outbox.json_arg)) = count(*) AS emitted FROM documents;
SELECT aggregate_type, events = (SELECT count(*) FROM documents) AS all, same FROM spelled;
ROLLBACK;
-- From storage: short headers, compressed, out of line.
CREATE TABLE stored_documents (n int, j jsonb);
INSERT INTO stored_documents SELECT n, j FROM documents;
INSERT INTO stored_documents SELECT 0, jsonb_agg(md5(i::text)) FROM generate_series(1, 20000) i;
BEGIN;
SELECT count(outbox.emit('stored', n, 'e', j)) = count(*) AS emitted FROM stored_documents;
SELECT count(*) = (SELECT count(*) FROM stored_documents) AS all, bool_and(l.payload = convert_to(s.j::text, 'UTF8')) AS same
FROM outbox_internal.log l JOIN stored_documents s ON s.n = l.aggregate_id::int WHERE l.xid = pg_current_xact_id_if_assigned();
ROLLBACK;
DROP TABLE stored_documents;
