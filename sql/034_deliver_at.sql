-- deliver_at, the last argument of every emit function: what is called, what is stored, what the relay workers' reader
-- makes of it, what is refused.
\pset null '(null)'
SET client_min_messages = warning;
CREATE SERVER late_nowhere FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
SELECT outbox.create_route('late', server => 'late_nowhere', aggregate_types => '{late}') > 0 AS made;
-- its lane stays where it is, also where delayed events would leave the log before their time
SELECT outbox.pause('late', reason => 'the test looks at what waits');
CREATE VIEW due AS
  SELECT l.aggregate_id, l.event_type, l.topic, l.deliver_at AT TIME ZONE 'UTC' AS deliver_at
  FROM outbox_internal.log l WHERE l.xid = pg_current_xact_id_if_assigned() ORDER BY l.created_at;

-- Each function, by name and by position.
BEGIN;
SELECT outbox.emit('late', 'text', 'e', '{}', deliver_at => '2030-01-01 00:00:00+00') IS NOT NULL AS text_key;
SELECT outbox.emit('late', 1, 'e', '{}', deliver_at => '2030-01-01 00:00:01+00') IS NOT NULL AS bigint_key;
SELECT outbox.emit('late', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'e', '{}', deliver_at => '2030-01-01 00:00:02+00') IS NOT NULL AS uuid_key;
SELECT outbox.emit('late', 'position', 'e', '{}', NULL, 'a.topic', '2030-01-01 00:00:03+00') IS NOT NULL AS by_position;
SELECT outbox.emit('late', 4, 'e', '{}', NULL, NULL, '2030-01-01 00:00:04+00'::timestamptz) IS NOT NULL AS by_position;
SELECT outbox.emit('late'::varchar, 'varchar'::varchar, 'e'::varchar, '{}'::varchar, deliver_at => '2030-01-01 00:00:05+00') IS NOT NULL AS json_text_key;
SELECT outbox.emit('late', 6, 'e', '{}'::json, NULL, NULL, '2030-01-01 00:00:06+00') IS NOT NULL AS json_bigint_key;
SELECT outbox.emit('late'::text, '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'e'::text, '{}'::text, '{"a": "b"}'::text, 'a.topic'::text, '2030-01-01 00:00:07+00'::timestamptz) IS NOT NULL AS json_uuid_key;
SELECT outbox.emit_text('late', 'text', 'e', 'x', deliver_at => '2030-01-01 00:01:00+00') IS NOT NULL AS text_key;
SELECT outbox.emit_text('late', 1, 'e', 'x', 'text/plain', NULL, 'a.topic', '2030-01-01 00:01:01+00') IS NOT NULL AS bigint_key;
SELECT outbox.emit_text('late', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'e', 'x', deliver_at => '2030-01-01 00:01:02+00') IS NOT NULL AS uuid_key;
SELECT outbox.emit_bytes('late', 'text', 'e', '\x00', deliver_at => '2030-01-01 00:02:00+00') IS NOT NULL AS text_key;
SELECT outbox.emit_bytes('late', 1, 'e', '\x00', 'image/png', NULL, 'a.topic', '2030-01-01 00:02:01+00') IS NOT NULL AS bigint_key;
SELECT outbox.emit_bytes('late', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'e', '\x00', deliver_at => '2030-01-01 00:02:02+00') IS NOT NULL AS uuid_key;
SELECT outbox.emit_tombstone('late', 'text', 'e', deliver_at => '2030-01-01 00:03:00+00') IS NOT NULL AS text_key;
SELECT outbox.emit_tombstone('late', 1, 'e', NULL, 'a.topic', '2030-01-01 00:03:01+00') IS NOT NULL AS bigint_key;
SELECT outbox.emit_tombstone('late', '7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid, 'e', deliver_at => '2030-01-01 00:03:02+00') IS NOT NULL AS uuid_key;
SELECT cardinality(outbox.emit_many('late', '{a,b}', 'e', '{1,2}', deliver_at => '2030-01-01 00:04:00+00')) AS arrays;
SELECT cardinality(outbox.emit_many('late', NULL, 'e', '{1}', NULL, 'a.topic', '2030-01-01 00:04:01+00')) AS arrays_by_position;
SELECT count(*) AS objects FROM outbox.emit_many('[
  {"aggregate_type": "late", "aggregate_id": 1, "event_type": "e", "payload": 1, "deliver_at": "2030-01-01T00:05:00Z"},
  {"aggregate_type": "late", "aggregate_id": 1, "event_type": "e", "payload": 2, "deliver_at": "2030-01-01T02:05:01+02:00"},
  {"aggregate_type": "late", "aggregate_id": 1, "event_type": "e", "payload": 3, "deliver_at": null},
  {"aggregate_type": "late", "aggregate_id": 1, "event_type": "e", "payload": 4}]');
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, deliver_at) VALUES
  ('late', 'view', 'e', '{}', '2030-01-01 00:06:00+00'), ('late', 'view', 'e', '{}', NULL), ('late', 'view', 'e', '{}', DEFAULT)
  RETURNING deliver_at AT TIME ZONE 'UTC' AS returned;
SELECT * FROM due;
-- The same through the view, and by the reader that relay workers read with.
SELECT count(*) AS differ FROM outbox.event e JOIN outbox_internal.log l USING (id) WHERE e.deliver_at IS DISTINCT FROM l.deliver_at;
SELECT count(*) AS shown FROM outbox.event WHERE deliver_at IS NOT NULL;
COMMIT;
SELECT count(*), count(p.deliver_at) AS delayed, bool_and(p.deliver_at IS NOT DISTINCT FROM l.deliver_at AND p.topic IS NOT DISTINCT FROM l.topic) AS same
FROM outbox.peek('late', NULL) p JOIN outbox_internal.log l USING (id);

-- Whatever stands before it in the row, of every length, NULL or not: the reader finds it.
SELECT count(outbox.emit('late', CASE WHEN i % 3 > 0 THEN repeat('k', i % 11) END, repeat('e', 1 + i % 9), to_jsonb(repeat('p', i)),
  CASE WHEN i % 2 > 0 THEN jsonb_build_object('h', repeat('v', i % 13)) END, CASE WHEN i % 5 > 0 THEN repeat('t', 1 + i % 7) END,
  CASE WHEN i % 4 > 0 THEN '2030-01-01 00:00:00+00'::timestamptz + i * interval '1 microsecond' END)) FROM generate_series(1, 400) i;
SELECT count(*), bool_and(p.deliver_at IS NOT DISTINCT FROM l.deliver_at AND p.topic IS NOT DISTINCT FROM l.topic AND p.headers IS NOT DISTINCT FROM l.headers) AS same
FROM outbox.peek('late', NULL) p JOIN outbox_internal.log l USING (id);

-- In the past, however far, means at once; date and timestamp become timestamptz by themselves.
BEGIN;
SELECT outbox.emit('late', 'past', 'e', '{}', deliver_at => now() - interval '1 day') IS NOT NULL AS yesterday;
SELECT outbox.emit('late', 'past', 'e', '{}', deliver_at => '4713-01-01 00:00:00+00 BC') IS NOT NULL AS long_ago;
SELECT outbox.emit('late', 'past', 'e', '{}', deliver_at => '1970-01-01 00:00:00+00') IS NOT NULL AS the_epoch;
SELECT outbox.emit('late', 'date', 'e', '{}', deliver_at => date '2030-01-01') IS NOT NULL AS date;
SELECT outbox.emit('late', 'timestamp', 'e', '{}', deliver_at => timestamp '2030-01-01 00:00:00') IS NOT NULL AS timestamp;
SELECT outbox.emit('late', 'far', 'e', '{}', deliver_at => now() + 24 * 3660 * interval '1 hour') IS NOT NULL AS ten_years;
COMMIT;

-- Parameters of prepared statements find their types.
PREPARE all_untyped AS SELECT outbox.emit($1, $2, $3, $4, $5, $6, $7);
PREPARE named AS SELECT outbox.emit(aggregate_type => $1, aggregate_id => $2, event_type => $3, payload => $4, deliver_at => $5);
PREPARE typed_strings (varchar, varchar, varchar, varchar) AS SELECT outbox.emit($1, $2, $3, $4, deliver_at => $5);
PREPARE bigint_key (text, bigint) AS SELECT outbox.emit($1, $2, $3, $4, deliver_at => $5);
PREPARE many AS SELECT outbox.emit_many($1, $2, $3, $4, $5, $6, $7);
PREPARE tombstone AS SELECT outbox.emit_tombstone($1, $2, $3, $4, $5, $6);
PREPARE note AS SELECT outbox.emit_text($1, $2, $3, $4, $5, $6, $7, $8);
PREPARE through_view AS INSERT INTO outbox.event (aggregate_type, event_type, payload, deliver_at) VALUES ($1, $2, $3, $4);
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name;
DEALLOCATE ALL;

-- Refusals.
\x on
\t on
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', deliver_at => 'infinity')$$);
SELECT * FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', deliver_at => '-infinity')$$);
SELECT * FROM refused($$SELECT outbox.emit('o'::text, 1, 'e'::text, '{}'::text, deliver_at => 'infinity')$$);
SELECT * FROM refused($$SELECT outbox.emit_text('o', 1, 'e', 'x', deliver_at => 'infinity')$$);
SELECT * FROM refused($$SELECT outbox.emit_bytes('o', 1, 'e', 'x', deliver_at => 'infinity')$$);
SELECT * FROM refused($$SELECT outbox.emit_tombstone('o', 1, 'e', deliver_at => 'infinity')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('o', NULL, 'e', '{1}', deliver_at => 'infinity')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "deliver_at": "infinity"}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "deliver_at": 1893456000}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "deliver_at": "soon"}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "deliver_at": "2026-13-45"}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "deliver_at": "2030-01-01 12:00:00 Europe/Nowhere"}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "deliver_at": "2030-01-01 00:00:00+99"}]')$$);
SELECT * FROM refused($$SELECT outbox.emit_many('[{"aggregate_type": "o", "event_type": "e", "payload": 1, "deliver_at": ""}]')$$);
SELECT * FROM refused($$INSERT INTO outbox.event (aggregate_type, event_type, payload, deliver_at) VALUES ('o', 'e', '1', 'infinity')$$);
SELECT r.code, r.message, regexp_replace(r.detail, 'is .*,', 'is ...,') AS detail, r.hint FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', deliver_at => now() + 24 * 3661 * interval '1 hour')$$) r;
SELECT code, message FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', deliver_at => to_timestamp(1893456000000))$$);
SELECT code, message FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', deliver_at => '294276-12-31 23:59:59+00')$$);
SELECT code, message FROM refused($$SELECT outbox.emit('o', 1, 'e', '{}', deliver_at => '2030-01-01'::text)$$);
\t off
\x off

-- Rows that come by another way keep it; adopt() emits them with it, and leaves one whose time is none.
BEGIN;
CREATE TEMP TABLE rows ON COMMIT DROP AS SELECT * FROM outbox_internal.log l WHERE l.aggregate_type = 'late' AND l.aggregate_id IN ('view', 'far') AND l.deliver_at IS NOT NULL;
UPDATE rows SET event_type = 'came', deliver_at = CASE aggregate_id WHEN 'view' THEN deliver_at ELSE 'infinity' END;
INSERT INTO rows SELECT created_at, id, xid, aggregate_type, 'latest', event_type, payload, content_type, headers, topic, '294276-12-31 23:59:59.999999+00' FROM rows WHERE aggregate_id = 'far';
INSERT INTO outbox_internal.log SELECT * FROM rows;
SELECT aggregate_id, deliver_at AT TIME ZONE 'UTC' AS deliver_at FROM outbox_internal.foreign_event ORDER BY aggregate_id DESC;
SELECT outbox.adopt() AS adopted;
SELECT aggregate_id, deliver_at AT TIME ZONE 'UTC' AS deliver_at FROM outbox_internal.foreign_event;
SELECT * FROM due;
COMMIT;
SET outbox.allow_loss = on;
SET client_min_messages = error;
DELETE FROM outbox_internal.foreign_event;
SET client_min_messages = warning;
RESET outbox.allow_loss;
-- What not even 64 bits of microseconds since 1970 can say is as late as they can.
SELECT p.aggregate_id, p.deliver_at AT TIME ZONE 'UTC' AS deliver_at FROM outbox.peek('late', NULL) p WHERE p.event_type = 'came';

DROP VIEW due;
SELECT outbox.drop_route('late') IS NOT NULL AS dropped;
DROP SERVER late_nowhere;
