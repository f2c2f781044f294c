-- The forms of emit_many(), emit_text(), emit_bytes() and emit_tombstone() that typed strings, json and arrays of keys reach, and
-- that an untyped call means what it meant without them; content types in outbox.event; words for UPDATE and DELETE there.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\pset null '(null)'
-- Which form each call means, for every kind of string (untyped, text, varchar), keys, payloads and headers: never none, never
-- more than one, and the one with text[] and jsonb[] where nothing else was given.
-- The function that a call resolves to, from the view that it makes.
CREATE FUNCTION resolved(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE form text;
BEGIN
  EXECUTE 'CREATE TEMP VIEW resolved_view AS ' || call;
  SELECT d.refobjid::regprocedure::text INTO form
  FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
  WHERE r.ev_class = 'resolved_view'::regclass AND d.refclassid = 'pg_proc'::regclass;
  DROP VIEW resolved_view;
  RETURN regexp_replace(form, '^outbox\.\w+', '');
EXCEPTION WHEN undefined_function OR ambiguous_function THEN
  RETURN SQLERRM;
END $$;
CREATE TEMP VIEW many AS
SELECT s1.how AS type, k.how AS keys, s2.how AS event, p.how AS payloads, h.how AS headers,
  format('SELECT outbox.emit_many(%s, %s, %s, %s%s) AS e', s1.sql, k.sql, s2.sql, p.sql, h.sql) AS call
FROM (VALUES ('untyped', $$'o'$$), ('text', $$'o'::text$$), ('varchar', $$'o'::varchar$$)) s1 (how, sql),
  (VALUES ('untyped', $$'o'$$), ('text', $$'o'::text$$), ('varchar', $$'o'::varchar$$)) s2 (how, sql),
  (VALUES ('untyped', $$'{}'$$), ('null', 'NULL'), ('text', $$'{}'::text[]$$), ('varchar', $$'{}'::varchar[]$$), ('bigint', $$'{}'::bigint[]$$), ('int', $$'{}'::int[]$$), ('uuid', $$'{}'::uuid[]$$)) k (how, sql),
  (VALUES ('untyped', $$'{}'$$), ('jsonb', $$'{}'::jsonb[]$$), ('json', $$'{}'::json[]$$), ('text', $$'{}'::text[]$$), ('varchar', $$'{}'::varchar[]$$)) p (how, sql),
  (VALUES ('none', ''), ('untyped', $$, '{}'$$), ('jsonb', $$, '{}'::jsonb[]$$), ('json', $$, '{}'::json[]$$), ('text', $$, '{}'::text[]$$)) h (how, sql);
SELECT resolved(call) AS form, count(*),
  string_agg(DISTINCT keys, ' ' ORDER BY keys) AS keys,
  bool_and((payloads IN ('json', 'text', 'varchar') OR headers IN ('json', 'text')) = (resolved(call) LIKE '%json_arg[]%')) AS as_given
FROM many GROUP BY 1 ORDER BY 1;
SELECT resolved(call) FROM many WHERE (type, keys, event, payloads, headers) = ('untyped', 'untyped', 'untyped', 'untyped', 'none');
-- The same of emit_text(): text where a key is untyped, and nothing is ambiguous.
CREATE TEMP VIEW texts AS
SELECT s.how AS strings, k.how AS key, h.how AS headers,
  format('SELECT outbox.emit_text(%1$s, %2$s, %1$s, %1$s%3$s) AS e', s.sql, k.sql, h.sql) AS call
FROM (VALUES ('untyped', $$'o'$$), ('text', $$'o'::text$$), ('varchar', $$'o'::varchar$$)) s (how, sql),
  (VALUES ('untyped', $$'1'$$), ('null', 'NULL'), ('text', $$'1'::text$$), ('varchar', $$'1'::varchar$$), ('int', '1'), ('bigint', '1::bigint'), ('uuid', 'gen_random_uuid()')) k (how, sql),
  (VALUES ('none', ''), ('untyped', $$, headers => '{}'$$), ('jsonb', $$, headers => '{}'::jsonb$$), ('json', $$, headers => '{}'::json$$), ('text', $$, headers => '{}'::text$$), ('varchar', $$, headers => '{}'::varchar$$)) h (how, sql);
SELECT split_part(resolved(call), ',', 2) AS key_of_form, count(*), string_agg(DISTINCT key, ' ' ORDER BY key) AS keys,
  string_agg(DISTINCT headers, ' ' ORDER BY headers) FILTER (WHERE resolved(call) LIKE '%json_arg%') AS headers_as_json_arg
FROM texts GROUP BY 1 ORDER BY 1;
SELECT resolved(call) FROM texts WHERE (strings, key, headers) = ('untyped', 'untyped', 'none');
DROP VIEW many, texts;
DROP FUNCTION resolved;

-- What they store.
BEGIN;
SELECT cardinality(outbox.emit_many('order', ARRAY[1, 2, NULL]::bigint[], 'order.bigint', ARRAY['1', '{"b": 1, "a": 2}', '3']::jsonb[])) AS bigint,
  cardinality(outbox.emit_many('order', ARRAY[3], 'order.int', ARRAY['{"b":1,"a":2}'::json])) AS int_and_json,
  cardinality(outbox.emit_many('order'::varchar, ARRAY['11111111-2222-3333-4444-555555555555']::uuid[], 'order.uuid'::varchar, ARRAY['{"b":1, "a":2}']::varchar[], ARRAY['{"h": "x"}']::varchar[], 'shop.t')) AS uuid_and_text,
  cardinality(outbox.emit_many('order'::varchar, NULL, 'order.none'::varchar, ARRAY['[1]']::text[])) AS no_keys;
SELECT count(*) FROM outbox.emit_many_json('[{"aggregate_type": "order", "aggregate_id": 7, "event_type": "order.text", "payload": {"n": 1}},
  {"aggregate_type": "order", "event_type": "order.text", "payload": [2], "headers": {"a": "b"}}]'::varchar);
SELECT outbox.emit_text('order'::varchar, 8, 'order.said'::varchar, 'hello'::varchar, headers => '{"h": "t"}'::text) IS NOT NULL AS text,
  outbox.emit_bytes('order', 9, 'order.packed', '\x00', headers => '{"h": "b"}'::json) IS NOT NULL AS bytes,
  outbox.emit_tombstone('order'::varchar, '10'::varchar, 'order.gone'::varchar, '{"h": "d"}'::varchar) IS NOT NULL AS tombstone;
SELECT aggregate_id, event_type, convert_from(payload, 'UTF8') AS payload, content_type, headers, topic FROM outbox_internal.log
WHERE xid = pg_current_xact_id() AND event_type <> 'order.packed' ORDER BY created_at;
SELECT payload, content_type, headers FROM outbox_internal.log WHERE xid = pg_current_xact_id() AND event_type = 'order.packed';
ROLLBACK;
-- As drivers send them: without types (a simple driver), and with those that were declared (JDBC).
BEGIN;
PREPARE untyped AS SELECT count(*) FROM outbox.emit_many($1);
EXECUTE untyped ('[{"aggregate_type": "o", "event_type": "e", "payload": 1}]');
PREPARE untyped_arrays AS SELECT cardinality(outbox.emit_many($1, $2, $3, $4));
EXECUTE untyped_arrays ('o', '{a,b}', 'e', '{1,2}');
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name;
PREPARE jdbc (varchar, bigint[], varchar, text[]) AS SELECT cardinality(outbox.emit_many($1, $2, $3, $4));
EXECUTE jdbc ('o', '{1,2}', 'e', '{1,"{\"a\": 1}"}');
PREPARE jdbc_objects (varchar) AS SELECT count(*) FROM outbox.emit_many_json($1);
EXECUTE jdbc_objects ('[{"aggregate_type": "o", "event_type": "e", "payload": 1}]');
ROLLBACK;
DEALLOCATE ALL;
-- Errors name the element, in every form.
\set VERBOSITY default
SELECT outbox.emit_many('o', ARRAY[1, 2], 'e', ARRAY['1', '"{}"']::text[]);
SELECT outbox.emit_many('o', ARRAY[1], 'e', ARRAY['1', '2']::text[]);
SELECT outbox.emit_many('o', NULL, 'e', ARRAY['1', 'hello']::text[]);
SELECT outbox.emit_many('o', ARRAY['x'], 'e', ARRAY['1']::text[], ARRAY['{"id": "x"}']::text[]);
SELECT * FROM outbox.emit_many_json('[{"aggregate_type": "o", "event_type": "e", "payload": 1}, {"aggregate_type": "o", "event_type": "e"}]'::text);
SELECT * FROM outbox.emit_many_json('{}');
SELECT * FROM outbox.emit_many_json('hello'::text);
SELECT * FROM outbox.emit_many_json(NULL);
SELECT outbox.emit_text('o', 1, 'e', 'x', headers => 'hello'::text);
-- More than one batch, by size.
BEGIN;
SELECT cardinality(outbox.emit_many('o', array_agg(i), 'e', array_agg(to_json(repeat('x', 500000) || i)))) FROM generate_series(1, 40) i;
SELECT count(*), bool_and(aggregate_id::int = n AND convert_from(payload, 'UTF8') LIKE '%x' || n || '"') AS in_order
FROM (SELECT *, row_number() OVER (ORDER BY created_at) AS n FROM outbox_internal.log WHERE xid = pg_current_xact_id()) l;
ROLLBACK;

-- outbox.event: whoever reads back what he wrote finds it where he left it.
BEGIN;
INSERT INTO outbox.event (aggregate_type, event_type, payload, content_type) VALUES ('o', 'payload', '{"a": 1}', NULL),
  ('o', 'payload', '{"a": 1}', 'application/json'), ('o', 'payload', '{"a": 1}', 'application/cloudevents+json; charset=utf-8'), ('o', 'payload', '[1]', 'Application/JSON'),
  ('o', 'payload', '5', 'text/plain');
INSERT INTO outbox.event (aggregate_type, event_type, payload_text, content_type) VALUES ('o', 'text', '{"a":1}', NULL),
  ('o', 'text', '{"a":1}', 'application/json'), ('o', 'text', '{"a":', 'application/json'), ('o', 'text', '"\u0000"', 'application/json'), ('o', 'text', '{"a":1}', 'application/notjson'), ('o', 'text', '<a/>', 'application/xml'),
  ('o', 'text', '<a/>', 'Application/XML; charset=utf-8'), ('o', 'text', 'a', 'TEXT/PLAIN'), ('o', 'text', '{}', 'application/x-ndjson; charset=utf-8');
INSERT INTO outbox.event (aggregate_type, event_type, payload_text, content_type) VALUES ('o', 'deep', repeat('[', 100000), 'application/json');
SELECT event_type, content_type, payload, left(payload_text, 20) AS payload_text, payload_bytes FROM outbox.event ORDER BY created_at;
ROLLBACK;

-- UPDATE and DELETE of outbox.event, as an application does them: our words, not "permission denied".
CREATE ROLE regress_app;
SELECT outbox.grant_emit('regress_app');
SET ROLE regress_app;
UPDATE outbox.event SET payload = '2' WHERE id = '11111111-2222-3333-4444-555555555555';
DELETE FROM outbox.event;
INSERT INTO outbox.event (id, aggregate_type, event_type, payload) VALUES (gen_random_uuid(), 'o', 'e', '1') ON CONFLICT (id) DO UPDATE SET payload = '2';
RESET ROLE;
SELECT outbox.revoke_emit('regress_app');
SELECT has_table_privilege('regress_app', 'outbox.event', 'INSERT, SELECT, UPDATE, DELETE') AS has_rights;
DROP ROLE regress_app;
