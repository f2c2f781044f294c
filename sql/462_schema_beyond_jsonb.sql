-- What jsonb cannot hold cannot be compared with a schema: refused with the event's type named, by every way in. A schema that asks nothing passes it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\set VERBOSITY default
\set SHOW_CONTEXT always
SELECT outbox.event_schema('doc', 'doc.any', '{"type": ["object", "array"]}');
SELECT outbox.emit('doc', 1, 'doc.any', '{"n":1e-99999}'::json);
SELECT outbox.emit('doc', 1, 'doc.any', '{"n":1e400000}'::json);
SELECT outbox.emit('doc', 1, 'doc.any', '{"s":"a\u0000"}'::json);
SELECT outbox.emit_text('doc', 1, 'doc.any', 'nojson', 'application/json');
SELECT outbox.emit_bytes('doc', 1, 'doc.any', '\xff', 'application/json');
DO $$ BEGIN PERFORM outbox.emit('doc', 1, 'doc.any', '{"n":1e-99999}'::json); END $$;
-- Deeper than PostgreSQL reads.
\set SHOW_CONTEXT never
SELECT outbox.emit_text('doc', 1, 'doc.any', repeat('[', 100000) || repeat(']', 100000), 'application/json');
-- A row's own JSON, of a table whose trigger emits it.
CREATE TABLE papers (id int PRIMARY KEY, body json);
CREATE TRIGGER papers AFTER INSERT ON papers FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('paper', 'id');
SELECT outbox.event_schema('paper', 'paper.created', '{"type": "object"}');
INSERT INTO papers VALUES (1, '{"s":"a\u0000"}');
INSERT INTO papers VALUES (1, '{"s":"a"}');
-- A condition of another kind stays what it is, and what the next statement finds is whole.
SELECT outbox.emit('doc', 1, 'doc.any', '{"n":1e-9}'::json) IS NOT NULL AS emitted;
-- `true` and {} ask nothing.
SELECT outbox.event_schema('doc', 'doc.any', 'true', schema_version => 3);
BEGIN;
SELECT outbox.emit('doc', 1, 'doc.any', '{"n":1e-99999}'::json) IS NOT NULL AND outbox.emit('doc', 1, 'doc.any', '{"s":"a\u0000"}'::json) IS NOT NULL
  AND outbox.emit_text('doc', 1, 'doc.any', 'nojson', 'application/json') IS NOT NULL AND outbox.emit_bytes('doc', 1, 'doc.any', '\xff', 'application/json') IS NOT NULL AS emitted;
SELECT count(*), min(headers::text) AS headers FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id();
ROLLBACK;
SELECT outbox.event_schema('doc', 'doc.any', '{}');
SELECT outbox.emit('doc', 1, 'doc.any', '{"n":1e-99999}'::json) IS NOT NULL AS emitted;
SELECT outbox.event_schema('doc', 'doc.any', 'false');
SELECT outbox.emit('doc', 1, 'doc.any', '{"n":1}'::json);
-- Of long names the beginning, in what is said of a mismatch, too; of many steps the first.
SELECT outbox.event_schema('doc', 'doc.any', '{"additionalProperties": {"type": "integer"}}');
SELECT outbox.emit('doc', 1, 'doc.any', ('{"' || repeat('a', 50000) || '":"x"}')::json);
SELECT outbox.emit('doc', 1, 'doc.any', ('{"' || repeat('é/', 50000) || '":"x"}')::json);
SELECT outbox.event_schema('doc', 'doc.any', '{"additionalProperties": {"$ref": "#"}, "type": "object"}');
\set VERBOSITY terse
\set ON_ERROR_STOP 0
DO $$
DECLARE
  detail text;
BEGIN
  PERFORM outbox.emit('doc', 1, 'doc.any', (repeat('{"' || repeat('b', 500) || '":', 150) || '1' || repeat('}', 150))::json);
EXCEPTION WHEN invalid_parameter_value THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
  RAISE EXCEPTION '% bytes, ending in %', length(detail), right(detail, 50);
END $$;
DROP TABLE papers;
SELECT outbox.drop_event_schema('doc', 'doc.any'), outbox.drop_event_schema('paper', 'paper.created');
