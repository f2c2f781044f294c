-- matrix: G2
-- grant_emit() and revoke_emit(): one line lets a role emit, and nothing else.
CREATE ROLE regress_app;
CREATE ROLE "regress odd ""name""";
SET ROLE regress_app;
SELECT outbox.emit('order', 1, 'e', '1');
RESET ROLE;
SELECT outbox.grant_emit('regress_app');
SELECT outbox.grant_emit('"regress odd ""name"""');
SELECT outbox.grant_emit('regress_nobody');
SELECT outbox.grant_emit(NULL);
-- which is not PUBLIC, either
BEGIN;
GRANT EXECUTE ON FUNCTION outbox.emit_many_json TO PUBLIC;
SAVEPOINT a;
\set VERBOSITY terse
SELECT outbox.revoke_emit('-');
ROLLBACK TO a;
SELECT outbox.grant_emit('-');
ROLLBACK TO a;
SELECT outbox.revoke_operate('4000000000');
\set VERBOSITY default
ROLLBACK;
BEGIN;
SET LOCAL ROLE regress_app;
SELECT outbox.emit('order', 1, 'e', '1') IS NOT NULL AS emit, outbox.emit('order', 1, 'e', '1'::json) IS NOT NULL AS twin,
  outbox.emit_text('order', 1, 'e', 'x') IS NOT NULL AS emit_text, outbox.emit_bytes('order', 1, 'e', 'x') IS NOT NULL AS emit_bytes,
  outbox.emit_tombstone('order', 1, 'e') IS NOT NULL AS emit_tombstone;
SELECT count(*) FROM outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": 1}]');
SELECT cardinality(outbox.emit_many('order', NULL, 'e', '{1}'));
INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('order', 'e', '1') RETURNING payload;
SELECT count(*) FROM outbox.event;
CREATE TEMP TABLE mine (id int);
CREATE TRIGGER events AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('mine', 'id');
INSERT INTO mine VALUES (1);
SELECT count(*) FROM outbox.event WHERE aggregate_type = 'mine';
ROLLBACK;
-- Nothing else in the schema.
SELECT p.oid::regprocedure FROM pg_proc p
WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND p.proname NOT LIKE 'emit%' AND p.proname NOT LIKE 'json_arg%'
  AND has_function_privilege('regress_app', p.oid, 'EXECUTE') ORDER BY 1;
SELECT c.oid::regclass FROM pg_class c
WHERE c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v') AND c.relname NOT LIKE '%\_20______'
  AND has_table_privilege('regress_app', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE') ORDER BY 1;
SET ROLE regress_app;
SELECT count(*) FROM outbox_internal.log;
INSERT INTO outbox_internal.log DEFAULT VALUES;
SELECT outbox.grant_emit('regress_app');
RESET ROLE;
SELECT outbox.revoke_emit('regress_app');
SELECT outbox.revoke_emit(NULL);
SET ROLE regress_app;
SELECT outbox.emit('order', 1, 'e', '1');
INSERT INTO outbox.event (aggregate_type, event_type, payload) VALUES ('order', 'e', '1');
RESET ROLE;
SELECT outbox.revoke_emit('"regress odd ""name"""');
REVOKE USAGE ON SCHEMA outbox FROM regress_app, "regress odd ""name""";
DROP ROLE regress_app, "regress odd ""name""";
