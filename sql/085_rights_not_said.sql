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
SELECT outbox.revoke_emit('regress_said');
REVOKE USAGE ON SCHEMA outbox FROM regress_said, regress_not_said;
DROP FUNCTION unsaid;
DROP ROLE regress_said, regress_not_said;
