-- wait_for() an event of its own statement: said as it is for one of an earlier statement, with what to do.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
CREATE SCHEMA regress_549;
SET search_path = regress_549, public;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
\x on
\t on
CREATE FUNCTION waited(statement text) RETURNS TABLE (code text, message text, detail text, hint text) LANGUAGE sql AS
  $$ SELECT r.code, regexp_replace(r.message, ' \S+$', ' ID'), r.detail, r.hint FROM refused(statement) r $$;
SELECT * FROM waited($$SELECT outbox.wait_for(outbox.emit('regress_wait', 1, 'x', '{}'), '2 s')$$);
SELECT * FROM waited($$WITH e AS (INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload)
  VALUES ('11111111-2222-4333-8444-000000000002', 'regress_wait', '1', 'x', '{}') RETURNING id) SELECT outbox.wait_for(id) FROM e$$);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) >= 0 FROM outbox.event;
SELECT * FROM waited($$SELECT outbox.wait_for(outbox.emit('regress_wait', 1, 'x', '{}'), '2 s')$$);
ROLLBACK;
-- one that is nowhere, in a transaction that has emitted
BEGIN;
SELECT outbox.emit('regress_wait', 1, 'x', '{}') IS NOT NULL;
SELECT * FROM waited($$SELECT outbox.wait_for('00000000-0000-4000-8000-000000000000')$$);
ROLLBACK;
DROP SCHEMA regress_549 CASCADE;
