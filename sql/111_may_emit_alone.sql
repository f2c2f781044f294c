-- matrix: R86
-- A role that may emit, and nothing else: each HINT that it is given is something that it may do, or says who may; and it holds up
-- nobody by a lock.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
CREATE SERVER regress_alone FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.create_route('alone', server => 'regress_alone', aggregate_types => '{order}', options => '{"topics_known": ["outbox.event.order"]}') > 0 AS made;
SELECT outbox.event_schema('order', 'checked', '{"type": "object", "required": ["total"]}');
CREATE ROLE regress_alone;
SELECT outbox.grant_emit('regress_alone', topics => '{outbox.event.*}');

-- What the caller is told, and whether every name of ours in the HINT is of something that he may use, or the HINT says whose it is.
CREATE FUNCTION told(call text, OUT message text, OUT hint text, OUT fits boolean) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE call;
  message := 'no error';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
  message := left(message, 90);
  fits := hint <> '' AND (hint ~ '\m(owner|administrator|superuser)\M' OR (hint !~ '\m(ALTER EXTENSION|ALTER SYSTEM|shared_preload_libraries)\M' AND NOT EXISTS (
    SELECT FROM regexp_matches(hint, '\moutbox\.(\w+)', 'g') m (name)
    WHERE NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname = m.name[1] AND has_function_privilege(p.oid, 'EXECUTE'))
      AND NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'outbox'::regnamespace AND c.relname = m.name[1] AND has_table_privilege(c.oid, 'SELECT'))
      AND NOT EXISTS (SELECT FROM pg_settings s WHERE s.name = 'outbox.' || m.name[1] AND s.context = 'user'))));
END $$;
SET ROLE regress_alone;
SELECT t.message, t.fits FROM (VALUES
  ($$SELECT outbox.emit('order', 1, 'made', NULL::jsonb)$$),
  ($$SELECT outbox.emit('order', 1, 'made', 'null')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '"{}"')$$),
  ($$SELECT outbox.emit('order', 1, 'made', 'hello'::text)$$),
  ($$SELECT outbox.emit(NULL, 1, 'made', '1')$$),
  ($$SELECT outbox.emit('', 1, 'made', '1')$$),
  ($$SELECT outbox.emit(repeat('o', 300), 1, 'made', '1')$$),
  ($$SELECT outbox.emit('order', 1, NULL, '1')$$),
  ($$SELECT outbox.emit('order', repeat('1', 2000), 'made', '1')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', '[]')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', '{"a": 1}')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', '{"id": "1"}')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', '{"": "1"}')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', '{"a\r\nX-Admin": "1"}')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', '{"traceparent": "junk"}')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', jsonb_build_object('a', repeat('x', 300000)))$$),
  ($$SELECT outbox.emit('order', 1, 'made', to_jsonb(repeat('x', 1100000)))$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', topic => 'no topic')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', topic => 'of.others')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', topic => 'outbox.event.ordre')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', deliver_at => 'infinity')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', dedupe_key => '')$$),
  ($$SELECT outbox.emit('order', 1, 'made', '1', dedupe_key => repeat('k', 2000))$$),
  ($$SELECT outbox.emit('order', 1, 'checked', '{}')$$),
  ($$SELECT outbox.emit_text('order', 1, 'made', 'x', 'nö')$$),
  ($$SELECT outbox.emit_tombstone('order', NULL, 'made')$$),
  ($$SELECT outbox.emit_many('{}')$$),
  ($$SELECT outbox.emit_many('[1]')$$),
  ($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "schema_version": 1.5}]')$$),
  ($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "dataschema": "a b"}]')$$),
  ($$SELECT outbox.emit_many('o', '{a,b}', 'e', '{1}')$$),
  ($$SELECT outbox.emit_many('o', '{{a},{b}}', 'e', '{1,2}')$$),
  ($$SELECT outbox.emit_many_json('hello'::text)$$),
  ($$INSERT INTO outbox.event (aggregate_type, event_type) VALUES ('o', 'e')$$),
  ($$UPDATE outbox.event SET topic = 'x'$$),
  ($$DELETE FROM outbox.event$$),
  ($$UPDATE outbox.outboxevent SET type = 'x'$$),
  ($$LOCK TABLE outbox.event$$),
  ($$SET outbox.traceparent = 'junk'$$)) c (call), told(c.call) t;
RESET ROLE;

-- Names of headers: no control character, whatever the way in. Values are the event's own.
\set VERBOSITY default
SELECT outbox.emit('order', 1, 'made', '1', E'{"a\\r\\nX-Admin": "1"}');
\set VERBOSITY terse
SELECT outbox.emit_text('order', 1, 'made', 'x', headers => '{"tab\there": "1"}');
SELECT outbox.emit_many('[{"aggregate_type": "order", "event_type": "made", "payload": 1, "headers": {"a\u0001": "1"}}]');
SELECT outbox.emit_many('order', NULL, 'made', '{1}', ARRAY['{"a\u007f": "1"}']::jsonb[]);
INSERT INTO outbox.event (aggregate_type, event_type, payload, headers) VALUES ('order', 'made', '1', '{"a\nb": "1"}');
SELECT outbox.emit('order', 1, 'made', '1', '{"a\u0085X-Admin": "1"}');
SELECT outbox.emit('order', 1, 'made', '1', '{"a\u009f": "1"}'), outbox.emit('order', 1, 'made', '1', '{"a\u0080": "1"}');
SELECT outbox.emit('order', 1, 'made', '1', '{"a\u2028X-Admin": "1"}');
SELECT outbox.emit('order', 1, 'made', '1', '{"a\u2029": "1"}');
BEGIN;
INSERT INTO outbox.event (aggregate_type, event_type, payload, headers) VALUES ('order', 'made', '1', '{"X-Trace: né ü": "one\r\ntwo\tthree\u0001"}');
SELECT headers FROM outbox.event;
ROLLBACK;

-- What he may lock, of what there is. In transactions that end at once.
CREATE FUNCTION locked(what text, mode text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('LOCK TABLE %s IN %s MODE', what, mode);
  RETURN 'yes';
EXCEPTION WHEN insufficient_privilege THEN
  RETURN 'no: ' || SQLERRM;
END $$;
CREATE VIEW regress_over AS SELECT e.* FROM outbox.event e;
CREATE VIEW regress_twice AS SELECT (SELECT max(o.created_at) FROM regress_over o) AS at;
ALTER VIEW regress_over OWNER TO regress_alone;
ALTER VIEW regress_twice OWNER TO regress_alone;
SET ROLE regress_alone;
BEGIN;
SELECT w.what, m.mode, locked(w.what, m.mode) FROM (VALUES ('outbox.event'), ('outbox.outboxevent'), ('regress_over'), ('regress_twice')) w (what),
  (VALUES (1, 'ACCESS SHARE'), (2, 'ROW SHARE'), (3, 'ROW EXCLUSIVE'), (4, 'SHARE UPDATE EXCLUSIVE'), (5, 'SHARE'), (8, 'ACCESS EXCLUSIVE')) m (number, mode) ORDER BY w.what, m.number;
-- Nothing else that he can name at all.
SELECT DISTINCT locked(c.oid::regclass::text, 'ACCESS SHARE') LIKE 'no: permission denied%' AS refused FROM pg_class c
WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v') AND c.relname NOT IN ('event', 'outboxevent');
SELECT DISTINCT l.mode FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = pg_backend_pid() AND c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) ORDER BY 1;
COMMIT;
\set VERBOSITY default
LOCK TABLE outbox.event IN ACCESS EXCLUSIVE MODE;
\set VERBOSITY terse
RESET ROLE;
-- The owner may; and no snapshot is taken before the lock, of any view: the level could not be set any more.
BEGIN;
LOCK TABLE outbox.event IN ACCESS EXCLUSIVE MODE;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
ROLLBACK;
DROP VIEW regress_twice, regress_over;
-- The operator, likewise: what he is told he may do, of what he may read; and pg_monitor reads the routes too.
CREATE ROLE regress_oncall;
CREATE ROLE regress_looks IN ROLE pg_monitor;
SELECT outbox.grant_operate('regress_oncall');
SET ROLE regress_looks;
SELECT name, server FROM outbox.route WHERE name = 'alone';
SET ROLE regress_oncall;
SELECT t.message, t.hint, t.fits FROM (VALUES
  ($$SELECT outbox.pause('aloen', reason => 'x')$$),
  ($$SELECT outbox.pause('alone')$$),
  ($$SELECT outbox.pause(reason => 'x')$$),
  ($$SELECT outbox.pause(server => 'regress_alnoe', reason => 'x')$$),
  ($$SELECT outbox.resume('aloen')$$),
  ($$CALL outbox.seek('aloen', '-infinity')$$),
  ($$CALL outbox.replay(since => '-infinity', route => 'aloen')$$),
  ($$CALL outbox.replay(since => '-infinity')$$),
  ($$CALL outbox.replay(number => 4711)$$),
  ($$SELECT outbox.cancel_replay(4711)$$),
  ($$CALL outbox.redrive('aloen')$$),
  ($$SELECT outbox.retry('00000000-0000-4000-8000-000000000001')$$),
  ($$SELECT outbox.skip('00000000-0000-4000-8000-000000000001', 'x')$$),
  ($$SELECT outbox.discard('00000000-0000-4000-8000-000000000001', 'x')$$),
  ($$SELECT outbox.test_server('regress_alnoe')$$),
RESET ROLE;
-- What doctor() tells him is his, or says whose it is.
CREATE VIEW regress_hints AS SELECT d."check", d.hint, m.name[2] AS name,
  EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname = m.name[2] AND has_function_privilege('regress_oncall', p.oid, 'EXECUTE'))
  OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'outbox'::regnamespace AND c.relname = m.name[2] AND has_table_privilege('regress_oncall', c.oid, 'SELECT'))
  OR EXISTS (SELECT FROM pg_settings s WHERE s.name = 'outbox.' || m.name[2]) AS his
FROM outbox.doctor() d, regexp_matches(d.hint, '\m(outbox|outbox_internal)\.(\w+)', 'g') m (name);
GRANT SELECT ON regress_hints TO regress_oncall;
BEGIN;
SELECT outbox.pause('alone', reason => 'the test');
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, aggregate_type, event_type, topic, error_class, error_code)
SELECT r.id, 0, timestamptz '2026-01-01' + n * interval '1 ms', ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'dead', 'order', 'made', 't', 'message', 'X'
FROM outbox.route r, generate_series(1, 10001) n WHERE r.name = 'alone';
SET LOCAL ROLE regress_oncall;
SELECT count(*) FILTER (WHERE "check" = 'parked') AS uncounted, count(*) > 1 AS hints, count(*) FILTER (WHERE NOT h.his AND h.hint !~ '\mowner\M') AS not_his FROM regress_hints h;
SELECT count(*) AS parked FROM outbox.parked_event;
SELECT r.name AS route, p.reason FROM outbox.pause p LEFT JOIN outbox.route r ON r.id = p.route_id;
ROLLBACK;
BEGIN;
SET LOCAL outbox.allow_loss = on;
DELETE FROM outbox.route;
SELECT hint FROM outbox.doctor() WHERE "check" = 'route';
SET LOCAL ROLE regress_oncall;
SELECT hint FROM outbox.doctor() WHERE "check" = 'route';
ROLLBACK;
DROP VIEW regress_hints;
SELECT outbox.revoke_operate('regress_oncall');
DROP ROLE regress_oncall, regress_looks;
DROP FUNCTION told, locked;
SELECT outbox.drop_event_schema('order', 'checked');
SET outbox.allow_loss = on;
SELECT outbox.drop_route('alone') >= 0 AS dropped;
RESET outbox.allow_loss;
DROP SERVER regress_alone;
SELECT outbox.revoke_emit('regress_alone');
DROP ROLE regress_alone;
