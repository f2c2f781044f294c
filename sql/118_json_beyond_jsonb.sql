-- JSON that jsonb cannot hold is delivered as it came, and read back as text: it does not take the other events of the
-- transaction with it.
BEGIN;
SELECT outbox.emit('beyond', n::text, 'e', body::json) IS NOT NULL AS emitted FROM (VALUES
  (1, '{"a":"\u0000"}'), (2, '{"a":1e400000}'), (3, '[-1.5E+99999]'), (4, '{"a":1e-400000}'), (5, '{"e":"1e99999"}'), (6, '[1e0000000003, true, 2e10]'),
  (7, '{"a":"\ud83d\ude00"}'), (8, '{"1e99999\"":"\\"}'), (9, '[' || repeat('9', 20000) || ']'), (10, repeat('[', 600) || repeat(']', 600))) v (n, body);
SELECT outbox.emit_text('beyond', 11, 'e', '{"a":1e400000}', content_type => 'application/json') IS NOT NULL AS emitted;
SELECT aggregate_id, left(payload::text, 40) AS payload, left(payload_text, 20) AS payload_text, payload_bytes IS NOT NULL AS bytes
FROM outbox.event WHERE aggregate_type = 'beyond' ORDER BY aggregate_id::int;
ROLLBACK;
