-- A role that may call the emit functions without a row of grant_emit() may emit to every topic: doctor() says so.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_said, regress_not_said;
CREATE ROLE regress_said;
CREATE ROLE regress_not_said;
RESET client_min_messages;
CREATE FUNCTION unsaid() RETURNS TABLE (status text, detail text, hint text) LANGUAGE sql
  BEGIN ATOMIC SELECT d.status, d.detail, d.hint FROM outbox.doctor() d WHERE d."check" = 'rights' AND d.detail LIKE '%regress%' ORDER BY 2; END;
SELECT outbox.grant_emit('regress_said', topics => '{shop.*}');
SELECT outbox.grant_emit('regress_not_said');
SELECT * FROM unsaid();
-- By hand.
DELETE FROM outbox_internal.emit_right;
\x on
SELECT * FROM unsaid();
\x off
SELECT outbox.grant_emit('regress_said', topics => '{shop.*}');
SELECT outbox.revoke_emit('regress_not_said');
SELECT * FROM unsaid();
-- By hand, one function of them.
GRANT EXECUTE ON FUNCTION outbox.emit(text, text, text, jsonb, jsonb, text, timestamptz, text) TO regress_not_said;
SELECT detail FROM unsaid();
REVOKE EXECUTE ON FUNCTION outbox.emit(text, text, text, jsonb, jsonb, text, timestamptz, text) FROM regress_not_said;
-- By hand, a view. Who is a member of a role with limits has these.
GRANT INSERT ON outbox.event TO regress_not_said;
SELECT detail FROM unsaid();
REVOKE INSERT ON outbox.event FROM regress_not_said;
GRANT INSERT (payload), SELECT ON outbox.outboxevent TO regress_not_said;
SELECT detail FROM unsaid();
GRANT INSERT ON outbox.outboxevent TO regress_not_said;
SELECT detail FROM unsaid();
GRANT regress_said TO regress_not_said;
SELECT detail FROM unsaid();
REVOKE regress_said FROM regress_not_said;
REVOKE ALL ON outbox.outboxevent FROM regress_not_said;
SELECT detail FROM unsaid();
-- By membership in a role that comes with PostgreSQL, where topics are limited.
CREATE FUNCTION write_all() RETURNS TABLE (status text, detail text, hint text) LANGUAGE sql
  BEGIN ATOMIC SELECT d.status, d.detail, d.hint FROM outbox.doctor() d WHERE d."check" = 'rights' AND d.detail LIKE 'pg_write_all_data%'; END;
SELECT * FROM write_all();
GRANT pg_write_all_data TO regress_not_said;
SELECT * FROM write_all();
SELECT outbox.grant_emit('pg_write_all_data', topics => '{shop.*}');
SELECT * FROM write_all();
SET ROLE regress_not_said;
INSERT INTO outbox.event (aggregate_type, event_type, payload, topic) VALUES ('regress', 'e', '{}', 'any.topic');
RESET ROLE;
SELECT outbox.revoke_emit('pg_write_all_data');
SELECT outbox.grant_emit('regress_said');
SELECT * FROM write_all();
REVOKE pg_write_all_data FROM regress_not_said;
DROP FUNCTION write_all;
SELECT outbox.revoke_emit('regress_said');
REVOKE USAGE ON SCHEMA outbox FROM regress_said, regress_not_said;
DROP FUNCTION unsaid;
DROP ROLE regress_said, regress_not_said;
