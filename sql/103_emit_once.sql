-- dedupe_key: a key emits once, by every way in; what is a key, and within what; schema_version and dataschema.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\pset null '(null)'
BEGIN;
CREATE FUNCTION events() RETURNS bigint LANGUAGE sql RETURN (SELECT count(*) FROM outbox_internal.whole_log WHERE xid = pg_current_xact_id());
-- Every way in returns the first one's id, and writes nothing. A statement sees its own keys; the payload is not compared.
SELECT outbox.emit('order', 42, 'order.paid', '{"n": 1}', dedupe_key => 'order-42-paid') AS first \gset
SELECT outbox.emit('order', 42, 'order.paid', '{"n": 2}', dedupe_key => 'order-42-paid') = :'first' AS emit,
  outbox.emit('order'::varchar, '42'::varchar, 'order.paid'::varchar, '{"n": 2}'::varchar, dedupe_key => 'order-42-paid'::varchar) = :'first' AS emit_varchar,
  outbox.emit('order', gen_random_uuid(), 'order.paid', '{}'::json, dedupe_key => 'order-42-paid') = :'first' AS emit_json,
  outbox.emit_text('order', 42, 'order.paid', 'x', dedupe_key => 'order-42-paid') = :'first' AS emit_text,
  outbox.emit_bytes('order', 42, 'order.paid', '\x00', dedupe_key => 'order-42-paid') = :'first' AS emit_bytes,
  outbox.emit_tombstone('order', 42, 'order.paid', dedupe_key => 'order-42-paid') = :'first' AS emit_tombstone,
  outbox.emit('order', 42, 'order.paid', '{}', NULL, NULL, NULL, 'order-42-paid') = :'first' AS by_place;
SELECT events();
SELECT i, id = :'first' AS first FROM unnest(outbox.emit_many('order', '{1,2,3,4}', 'e', '{1,2,3,4}', dedupe_keys => '{order-42-paid,b,b,NULL}')) WITH ORDINALITY AS u (id, i);
SELECT i, id = :'first' AS first FROM unnest(outbox.emit_many('order', ARRAY[1, 2]::bigint[], 'e'::varchar, ARRAY['1', '2']::json[], dedupe_keys => ARRAY['order-42-paid', NULL])) WITH ORDINALITY AS u (id, i);
SELECT id = :'first' AS first FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1, "dedupe_key": "order-42-paid"},
  {"aggregate_type": "order", "event_type": "e", "payload": 2, "dedupe_key": null}]') WITH ORDINALITY AS u (id, i) ORDER BY i;
INSERT INTO outbox.event (aggregate_type, event_type, payload, dedupe_key) VALUES ('order', 'e', '1', 'order-42-paid'), ('order', 'e', '1', 'c'), ('order', 'e', '1', 'c') RETURNING id = :'first' AS first, dedupe_key;
SELECT events(), count(*), count(DISTINCT id) FROM (SELECT outbox.emit('order', n, 'e', '{}', dedupe_key => 'g' || n % 2) AS id FROM generate_series(1, 10) n) e;
SELECT events();
-- More than a batch.
SELECT count(DISTINCT id) FROM unnest(outbox.emit_many('order', NULL, 'e', array_fill('1'::jsonb, ARRAY[1200]), dedupe_keys => ARRAY(SELECT 'm' || i % 700 FROM generate_series(1, 1200) i))) AS u (id);
SELECT events();
-- A key counts within its topic: the one given, or outbox.event.<aggregate type>.
SELECT outbox.emit('invoice', 42, 'order.paid', '{}', dedupe_key => 'order-42-paid') = :'first' AS other_type,
  outbox.emit('order', 42, 'order.paid', '{}', topic => 'shop', dedupe_key => 'order-42-paid') = :'first' AS other_topic,
  outbox.emit('x', 42, 'order.paid', '{}', topic => 'outbox.event.order', dedupe_key => 'order-42-paid') = :'first' AS the_same_topic;
-- Savepoints that are rolled back give the key free; NULL is none.
SAVEPOINT s;
SELECT outbox.emit('order', 42, 'e', '{}', dedupe_key => 'back') AS gone \gset
ROLLBACK TO s;
SELECT outbox.emit('order', 42, 'e', '{}', dedupe_key => 'back') AS there \gset
SELECT :'gone' = :'there' AS the_same, outbox.emit('order', 42, 'e', '{}', dedupe_key => 'back') = :'there' AS taken,
  outbox.emit('order', 42, 'e', '{}', dedupe_key => NULL) = outbox.emit('order', 42, 'e', '{}', dedupe_key => NULL) AS none;
-- In every other respect the second is checked as the first.
\set VERBOSITY default
\set ON_ERROR_ROLLBACK on
SELECT outbox.emit('order', 42, 'order.paid', NULL::jsonb, dedupe_key => 'order-42-paid');
SELECT outbox.emit('order', 42, 'order.paid', '{}', dedupe_key => '');
SELECT outbox.emit('order', 42, 'order.paid', '{}', dedupe_key => repeat('x', 1001));
SELECT outbox.emit('order', 42, 'order.paid', '{}', dedupe_key => repeat('x', 1000)) IS NOT NULL AS emitted;
SELECT outbox.emit_many('order', '{1,2}', 'e', '{1,2}', dedupe_keys => '{a}');
SELECT * FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1, "dedupe_key": 7}]');
-- A key is freed by hand. Nobody reads one, or a key's event, without rights on the table.
DELETE FROM outbox_internal.emit_key WHERE id = :'first';
DELETE FROM outbox_internal.emit_key_spare WHERE id = :'first';
SELECT outbox.emit('order', 42, 'order.paid', '{}', dedupe_key => 'order-42-paid') = :'first' AS the_same;
CREATE ROLE regress_once;
SELECT outbox.grant_emit('regress_once', '{shop.*}');
SET ROLE regress_once;
SELECT outbox.emit('order', 42, 'e', '{}', topic => 'shop.a', dedupe_key => 'mine') IS NOT NULL AS emitted;
SELECT outbox.emit('order', 42, 'order.paid', '{}', dedupe_key => 'order-42-paid');
TABLE outbox_internal.emit_key;
RESET ROLE;
ROLLBACK;

-- A table that does not keep what is written to it is refused, as one of the log is.
BEGIN;
SET LOCAL outbox.allow_loss = on;
SET LOCAL client_min_messages = error;
CREATE FUNCTION of_keys(change text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE t regclass;
BEGIN
  FOR t IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'outbox_internal.emit_key'::regclass UNION ALL SELECT 'outbox_internal.emit_key_spare'::regclass LOOP
    EXECUTE format('ALTER TABLE %s %s', t, replace(change, 'extra', 'extra_' || t::oid));  -- an index has a name of its own
  END LOOP;
END $$;
CREATE FUNCTION keys_refused(change text) RETURNS TABLE (message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
  BEGIN
    PERFORM of_keys(change);
    PERFORM outbox.emit('order', 42, 'order.paid', '{}', dedupe_key => 'refused');
    message := 'not refused';
  EXCEPTION WHEN object_not_in_prerequisite_state THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    message := regexp_replace(message, 'emit_key_\w+', 'emit_key_...');
    detail := regexp_replace(detail, 'extra_\d+', 'extra');
  END;
  RETURN NEXT;
END $$;
SELECT change, r.* FROM unnest('{SET UNLOGGED,ADD CONSTRAINT extra CHECK (true),ADD CONSTRAINT extra EXCLUDE USING btree (at WITH =)}'::text[]) change, keys_refused(change) r;
ROLLBACK;

-- schema_version and dataschema are headers, by whatever way they came.
BEGIN;
INSERT INTO outbox.event (aggregate_type, event_type, payload, schema_version, dataschema, headers) VALUES
  ('order', 'both', '1', 2, 'https://schemas.example.com/order/2', '{"a": "b"}'), ('order', 'instead', '1', 3, NULL, '{"schema_version": "1"}'), ('order', 'none', '1', NULL, NULL, NULL)
  RETURNING event_type, headers, schema_version, dataschema;
SELECT count(*) FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "many", "payload": 1, "schema_version": 4, "dataschema": "urn:order:4"}, {"aggregate_type": "order", "event_type": "null", "payload": 1, "schema_version": null}]');
SELECT outbox.emit('order', 1, 'header', '1', '{"schema_version": "5", "dataschema": "urn:5"}') IS NOT NULL AS emitted, outbox.emit('order', 1, 'other form', '1', '{"schema_version": "5.1"}') IS NOT NULL AS emitted;
SELECT event_type, headers, schema_version, dataschema FROM outbox.event ORDER BY created_at;
\set ON_ERROR_ROLLBACK on
INSERT INTO outbox.event (aggregate_type, event_type, payload, schema_version) VALUES ('order', 'e', '1', -1);
INSERT INTO outbox.event (aggregate_type, event_type, payload, dataschema) VALUES ('order', 'e', '1', '');
INSERT INTO outbox.event (aggregate_type, event_type, payload, dataschema) VALUES ('order', 'e', '1', 'no uri');
SELECT * FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1, "schema_version": 1.5}]');
SELECT * FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1, "schema_version": "1"}]');
SELECT * FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1, "schema_version": 99999999999}]');
SELECT * FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1, "schema_version": -99999999999}]');
ROLLBACK;
