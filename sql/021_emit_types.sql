-- emit_text, emit_bytes, emit_tombstone with each type of key, and the type json_arg.
\pset null '(null)'
BEGIN;
SELECT outbox.emit_text('note', 'k', 'note.written', 'plain {text') IS NOT NULL AS text_key;
SELECT outbox.emit_text('note', 1, 'note.written', 'plain', 'text/csv') IS NOT NULL AS bigint_key;
SELECT outbox.emit_text('note', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'note.written', '') IS NOT NULL AS uuid_key;
SELECT outbox.emit_text('note', NULL, 'note.written', 'ü', headers => '{"a": "b"}', topic => 't') IS NOT NULL AS no_key;
SELECT outbox.emit_text('note', 1, 'note.written', 'default', NULL) IS NOT NULL AS null_content_type;
SELECT outbox.emit_text('note'::varchar, '1'::varchar, 'note.written'::varchar, 'typed'::varchar) IS NOT NULL AS varchar;
SELECT * FROM stored;
ROLLBACK;
BEGIN;
SELECT outbox.emit_bytes('scan', 'k', 'scan.made', '\x00ff') IS NOT NULL AS text_key;
SELECT outbox.emit_bytes('scan', 1, 'scan.made', '\x', 'application/avro') IS NOT NULL AS bigint_key;
SELECT outbox.emit_bytes('scan', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'scan.made', '\x01', headers => '{"a": "b"}', topic => 't') IS NOT NULL AS uuid_key;
SELECT outbox.emit_bytes('scan', 1, 'scan.made', '\x02', NULL) IS NOT NULL AS null_content_type;
SELECT aggregate_id, payload, content_type, headers, topic FROM outbox_internal.log WHERE xid = pg_current_xact_id() ORDER BY created_at;
ROLLBACK;
BEGIN;
SELECT outbox.emit_tombstone('order', 'k', 'order.deleted') IS NOT NULL AS text_key;
SELECT outbox.emit_tombstone('order', 1, 'order.deleted', '{"a": "b"}') IS NOT NULL AS bigint_key;
SELECT outbox.emit_tombstone('order', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'order.deleted', topic => 't') IS NOT NULL AS uuid_key;
SELECT * FROM stored;
ROLLBACK;

-- json_arg: checked on the way in, the same on the way out, no new meaning for anything between built-in types.
SELECT '{"a":  1}'::text::outbox.json_arg, '[1,  2]'::json::outbox.json_arg, '{"b":1}'::jsonb::outbox.json_arg, '"x"'::varchar::outbox.json_arg;
SELECT '{"a": 1'::text::outbox.json_arg;
SELECT ''::varchar::outbox.json_arg;
CREATE TEMP TABLE casts (t text, j jsonb);
INSERT INTO casts SELECT v, v FROM (SELECT '{"a":  1}'::outbox.json_arg AS v) s;
SELECT * FROM casts;
SELECT c.castsource::regtype, c.casttarget::regtype, c.castcontext FROM pg_cast c
WHERE 'outbox.json_arg'::regtype IN (c.castsource, c.casttarget) ORDER BY c.castsource::regtype::text, c.casttarget::regtype::text;
SELECT typcategory, typispreferred FROM pg_type WHERE oid = 'outbox.json_arg'::regtype;
CREATE TEMP TABLE binary_arg (v outbox.json_arg);
INSERT INTO binary_arg VALUES ('{"a":  "ü"}');
\copy binary_arg TO '/tmp/outbox_regress_json_arg.bin' (FORMAT binary)
\copy binary_arg FROM '/tmp/outbox_regress_json_arg.bin' (FORMAT binary)
\! rm -f /tmp/outbox_regress_json_arg.bin
SELECT v FROM binary_arg;
