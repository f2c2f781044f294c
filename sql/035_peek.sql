-- outbox.peek(): what would go next, read by the relay workers' own reader. The destination cannot be reached, so the
-- position moves only where this file moves it.
SET client_min_messages = warning;
SET outbox.allow_loss = on;  -- positions are moved by hand, and days attached
CREATE SERVER peek_nowhere FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
SELECT outbox.create_route('peek', server => 'peek_nowhere', aggregate_types => '{peek*}') > 0 AS made;
CREATE FUNCTION peeked() RETURNS TABLE (aggregate_id text, event_type text, payload text, content_type text, headers jsonb, topic text)
  LANGUAGE sql AS $$ SELECT aggregate_id, event_type, convert_from(payload, 'UTF8'), content_type, headers, topic FROM outbox.peek('peek', NULL) $$;
CREATE PROCEDURE finish() LANGUAGE sql AS $$
  DELETE FROM outbox_internal.progress p USING outbox.route r WHERE r.id = p.route_id AND r.name = 'peek';
  UPDATE outbox_internal.lane l SET window_from = pg_current_snapshot() FROM outbox.route r WHERE r.id = l.route_id AND r.name = 'peek';
$$;

-- Every column, NULL and empty told apart.
SELECT outbox.emit('peek', 1, 'json', '{"a": [1, "ü"]}', headers => '{"plain": "x", "quoted": "\"\\\n", "empty": ""}', topic => 'elsewhere') IS NOT NULL AS emitted;
SELECT outbox.emit_text('peek', NULL::text, 'no key', '', 'text/plain', headers => '{}') IS NOT NULL AS emitted;
SELECT outbox.emit_tombstone('peek', 'k', 'tombstone') IS NOT NULL AS emitted;
SELECT outbox.emit('other', 1, 'not of this route', '{}') IS NOT NULL AS emitted;
SELECT * FROM peeked();
-- What this transaction has emitted is not committed.
BEGIN;
SELECT outbox.emit('peek', 1, 'mine', '{}') IS NOT NULL AS emitted;
SELECT count(*) FROM peeked();
ROLLBACK;
CALL finish();
SELECT count(*) FROM peeked();

-- Large payloads: compressed, out of line, and not compressible; each comes back byte for byte.
SELECT outbox.emit_bytes('peek', i, 'large', convert_to(repeat('x', 1000 * i), 'UTF8'), 'application/octet-stream') IS NOT NULL AS emitted
FROM generate_series(1, 1000, 333) i;
SELECT outbox.emit_bytes('peek', 0, 'random', string_agg(decode(md5(i::text), 'hex'), '' ORDER BY i), 'application/octet-stream') IS NOT NULL AS emitted
FROM generate_series(1, 20000) i;
SELECT p.aggregate_id, p.event_type, length(p.payload), p.payload = l.payload AS same
FROM outbox.peek('peek') p JOIN outbox_internal.log l USING (id) ORDER BY p.created_at;
CALL finish();

-- Rows in several day tables, also ones older than the table before; the guard is lifted to put them there.
DO $$
BEGIN
  PERFORM outbox.emit('peek', 5, 'today', '{}');
  EXECUTE 'CREATE TABLE outbox_internal.log_20200101 (LIKE outbox_internal.log)';
  EXECUTE 'CREATE INDEX ON outbox_internal.log_20200101 (xid)';
  INSERT INTO outbox_internal.log_20200101 SELECT '2020-01-01 00:00:00+00', gen_random_uuid(), pg_current_xact_id(), 'peek', '1', 'in 2020', '\x31';
  EXECUTE 'CREATE TABLE outbox_internal.log_20200102 (LIKE outbox_internal.log)';
  INSERT INTO outbox_internal.log_20200102 SELECT '2020-01-02 00:00:00+00', gen_random_uuid(), pg_current_xact_id(), 'peek', '2', 'in a table without index', '\x32';
  INSERT INTO outbox_internal.log_20200102 SELECT '2020-01-02 00:00:00.000001+00', gen_random_uuid(), '3', 'peek', '2', 'before the window', '\x32';
END $$;
ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.log_20200101 FOR VALUES FROM ('2020-01-01 00:00:00+00') TO ('2020-01-02 00:00:00+00');
ALTER TABLE outbox_internal.log ATTACH PARTITION outbox_internal.log_20200102 FOR VALUES FROM ('2020-01-02 00:00:00+00') TO ('2020-01-03 00:00:00+00');
SELECT event_type FROM peeked();
-- Half of them done.
UPDATE outbox_internal.lane l SET window_to = pg_current_snapshot(), done_to = '2020-01-01 00:00:00+00' FROM outbox.route r WHERE r.id = l.route_id AND r.name = 'peek';
SELECT event_type FROM peeked();
UPDATE outbox_internal.lane l SET window_to = NULL, done_to = NULL FROM outbox.route r WHERE r.id = l.route_id AND r.name = 'peek';
-- A row deleted by hand is gone.
DELETE FROM outbox_internal.log_20200102 WHERE event_type = 'in a table without index';
SELECT event_type FROM peeked();
ALTER TABLE outbox_internal.log DETACH PARTITION outbox_internal.log_20200102;
SELECT event_type FROM peeked();
DROP TABLE outbox_internal.log_20200101, outbox_internal.log_20200102;
CALL finish();



-- Vacuumed, frozen, and after a rewrite.
SELECT outbox.emit('peek', i, 'kept', '{}') IS NOT NULL AS emitted FROM generate_series(1, 3) i;
BEGIN;
SELECT outbox.emit('peek', i, 'rolled back', '{}') IS NOT NULL AS emitted FROM generate_series(1, 3) i;
ROLLBACK;
VACUUM (FREEZE) outbox_internal.log;
SELECT aggregate_id, event_type FROM peeked();
VACUUM (FULL) outbox_internal.log;
SELECT aggregate_id, event_type FROM peeked();
REINDEX TABLE outbox_internal.log;
SELECT aggregate_id, event_type FROM peeked();
CALL finish();

-- Several lanes: together they have every event once, each key in one lane.
SELECT outbox.create_route('peek lanes', server => 'peek_nowhere', aggregate_types => '{peek*}', lanes => 3) > 0 AS made;
SELECT count(outbox.emit('peek', i % 10, 'lanes', to_jsonb(i))) FROM generate_series(1, 100) i;
SELECT count(*), count(DISTINCT p.id), count(DISTINCT p.lane) > 1 AS spread, count(DISTINCT (p.lane, p.aggregate_id)) AS keys
FROM outbox.peek('peek lanes', NULL) p;
SELECT count(*) FROM outbox.peek('peek lanes', 2);
SELECT count(*) FROM outbox.peek('peek lanes', 0);

-- Errors.
\set VERBOSITY default
SELECT * FROM outbox.peek('no such route');
SELECT * FROM outbox.peek(NULL);
SELECT * FROM outbox.peek('peek', -1);
CREATE ROLE regress_peek;
SET ROLE regress_peek;
SELECT * FROM outbox.peek('peek');
RESET ROLE;
DROP ROLE regress_peek;
SELECT outbox.drop_route('peek') IS NOT NULL AS dropped, outbox.drop_route('peek lanes') IS NOT NULL AS dropped;
DROP SERVER peek_nowhere;
DROP PROCEDURE finish();
DROP FUNCTION peeked();
