-- An event that comes for the first time when its id is older than what the inbox remembers, as it was delayed, parked or paused for so
-- long: the error says how it is taken, and what is said does it, for this event and no other.
SET client_min_messages = notice;
\set VERBOSITY terse
\set SHOW_CONTEXT never
\pset format unaligned
CREATE FUNCTION pg_temp.id_at(t timestamptz, n integer) RETURNS uuid LANGUAGE sql AS $$
  SELECT (lpad(to_hex((extract(epoch FROM t) * 1000)::bigint), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid $$;
CREATE FUNCTION pg_temp.refused(id uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  state text; hint text;
BEGIN
  RETURN 'not refused: ' || outbox.receive('late', id);
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, state = RETURNED_SQLSTATE;
  RETURN state || ' ' || hint;
END $$;
SELECT pg_temp.id_at(now() - interval '60 days', 1) AS late, pg_temp.id_at(now() - interval '60 days', 2) AS later, pg_temp.id_at(now(), 3) AS next \gset
SELECT pg_temp.refused(:'late');
-- The transaction that the hint names, taken from it.
SELECT substring(pg_temp.refused(:'late') FROM '(SET LOCAL .*?) in the transaction') AS way \gset
BEGIN;
:way;
SELECT outbox.receive('late', :'late');
COMMIT;
-- It is remembered, what comes next is received as ever, and another one that is late is told of.
SELECT outbox.receive('late', :'late'), outbox.receive('late', :'next'), left(pg_temp.refused(:'later'), 5);
-- As a program does it.
BEGIN;
SELECT set_config('outbox.inbox_expired', 'accept', true);
SELECT outbox.receive('late', :'later'), outbox.receive('late', :'late');
COMMIT;
SELECT count(*) FROM outbox.receive_many('late', ARRAY[:'late', :'later']::uuid[]);
-- doctor() has nothing against that.
SELECT status FROM outbox.doctor() WHERE "check" = 'inbox' AND detail ~ 'accept';
SELECT outbox.forget_consumer('late') > 0 AS forgotten;
DELETE FROM outbox.audit WHERE action = 'forget_consumer' AND detail->>'consumer' = 'late';
