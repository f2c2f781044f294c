-- What is taken back of events older than what the inbox remembers is refused when it comes again, unless it is accepted: who takes it
-- back is told, with the way, and of no others.
SET client_min_messages = notice;
\set VERBOSITY default
\set SHOW_CONTEXT never
\pset format unaligned
CREATE FUNCTION pg_temp.id_at(t timestamptz, n integer) RETURNS uuid LANGUAGE sql AS $$
  SELECT (lpad(to_hex((extract(epoch FROM t) * 1000)::bigint), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid $$;
SELECT pg_temp.id_at(timestamptz '2025-03-04 05:06:07+00', 1) AS old, pg_temp.id_at(timestamptz '2025-03-04 05:06:07+00', 2) AS older,
       pg_temp.id_at(now(), 3) AS new, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a57' AS undated \gset
BEGIN;
SET LOCAL outbox.inbox_expired = 'accept';
SELECT count(*) FROM outbox.receive_many('again', ARRAY[:'old', :'older', :'new', :'undated']::uuid[]);
COMMIT;
SELECT outbox.forget_received('again', :'old');
-- Nothing was there to be taken back; one of now, and one without a time, are handled again.
SELECT outbox.forget_received('again', :'old'), outbox.forget_received('again', :'new'), outbox.forget_received('again', :'undated');
SELECT outbox.receive('again', :'new'), outbox.receive('again', :'undated');
-- By the hint.
BEGIN;
SET LOCAL outbox.inbox_expired = 'accept';
SELECT outbox.receive('again', :'old');
COMMIT;
SELECT outbox.receive('again', :'old');
-- Of a time: how many of them.
SELECT outbox.reprocess('again', since => now() - interval '1 hour');
SELECT outbox.receive('again', :'new');
SELECT outbox.reprocess('again', since => '-infinity');
-- Who accepts already is told nothing.
BEGIN;
SET LOCAL outbox.inbox_expired = 'accept';
SELECT outbox.receive('again', :'old'), outbox.forget_received('again', :'old'), outbox.receive('again', :'old');
COMMIT;
SELECT outbox.forget_consumer('again') > 0 AS forgotten;
DELETE FROM outbox.audit WHERE action IN ('forget_received', 'reprocess', 'forget_consumer') AND detail->>'consumer' = 'again';
