-- matrix: C10
-- Only emit writes the log: other rows are kept in outbox_internal.foreign_event, whatever way they come.
\pset null '(null)'
SELECT outbox.emit('foreign', 1, 'own', '{"a": 1}', '{"h": "x"}', 't') IS NOT NULL AS emitted;
SELECT 'outbox_internal.log_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') AS day \gset
CREATE TEMP TABLE rows AS SELECT * FROM outbox_internal.log WHERE aggregate_type = 'foreign';
UPDATE rows SET event_type = 'by hand';
INSERT INTO outbox_internal.log SELECT * FROM rows;
UPDATE rows SET event_type = 'into the day table';
INSERT INTO :day SELECT * FROM rows;
-- As a subscription's apply worker does it.
SET session_replication_role = replica;
UPDATE rows SET event_type = 'as replica';
INSERT INTO :day SELECT * FROM rows;
RESET session_replication_role;
-- As a restore does it.
UPDATE rows SET event_type = 'copied';
\copy rows TO '/tmp/outbox_regress_rows'
\copy outbox_internal.log FROM '/tmp/outbox_regress_rows'
\! rm -f /tmp/outbox_regress_rows
SELECT event_type FROM outbox_internal.log WHERE aggregate_type = 'foreign';
SELECT aggregate_type, aggregate_id, event_type, convert_from(payload, 'UTF8') AS payload, content_type, headers, topic,
       created_at IS NOT NULL AS created_at, id IS NOT NULL AS id, received_at IS NOT NULL AS received_at
FROM outbox_internal.foreign_event ORDER BY received_at;
SELECT t.tgname, t.tgenabled FROM pg_trigger t WHERE t.tgrelid IN ('outbox_internal.log'::regclass, :'day'::regclass) ORDER BY t.tgrelid::regclass::text = 'outbox_internal.log', t.tgname;
SET outbox.allow_loss = on;
SET client_min_messages = error;
DELETE FROM outbox_internal.foreign_event;
RESET client_min_messages;
RESET outbox.allow_loss;
