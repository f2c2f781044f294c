-- outbox.events_of(): the events of one key, newest first, bounded by time and number, for those who may look, and for no others.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
SET timezone = 'UTC';
\pset null '(null)'
SELECT pg_catalog.now() AS begun \gset
SELECT count(*) FROM (SELECT outbox.emit('regress_of', i % 3, 'made ' || i, to_jsonb(i)) FROM generate_series(1, 9) i) e;
SELECT outbox.emit_text('regress_of', '1', 'said', 'hello', topic => 'a.topic') IS NOT NULL AS said;
SELECT outbox.emit_tombstone('regress_of', '1', 'gone') IS NOT NULL AS gone;
SELECT outbox.emit('regress_of', NULL, 'no key', '{}') IS NOT NULL AS no_key;
SELECT event_type, topic, content_type, payload_bytes, forgotten FROM outbox.events_of('regress_of', '1');
SELECT bool_and(created_at >= :'begun' AND id IS NOT NULL) AS times_and_ids, bool_and(created_at <= before) IS NOT FALSE AS newest_first
FROM (SELECT *, lag(created_at) OVER () AS before FROM outbox.events_of('regress_of', '1')) e;
SELECT event_type FROM outbox.events_of('regress_of', '1', "limit" => 2);
SELECT count(*) FROM outbox.events_of('regress_of', '1', since => pg_catalog.now() + interval '1 hour');
SELECT count(*) FROM outbox.events_of('regress_of', '1', since => '294250-01-01');
SELECT count(*) FROM outbox.events_of('regress_of', '1', since => '-infinity');
SELECT count(*) FROM outbox.events_of('regress_of', '%') a, outbox.events_of('regress\_of', '1') b;
SELECT count(*) FROM outbox.events_of('regress_none', '1');
-- with status()
SELECT e.event_type, s.state FROM outbox.events_of('regress_of', '2') e, outbox.status(e.id) s;
-- not its own transaction's, which may be taken back
BEGIN;
SELECT outbox.emit('regress_of', 1, 'open', '{}') IS NOT NULL AS emitted;
SELECT count(*) FROM outbox.events_of('regress_of', '1');
ROLLBACK;
-- where positions are known, the index by transaction id says where to begin: the same rows
SELECT 1 FROM outbox.emit('regress_of', 4, 'first', '{}');
CREATE SERVER regress_of FOREIGN DATA WRAPPER outbox_log;
SELECT outbox.create_route('regress of', server => 'regress_of') > 0 AS made;
SELECT 1 FROM outbox.emit('regress_of', 4, 'second', '{}');
SELECT event_type FROM outbox.events_of('regress_of', '4');
SELECT event_type FROM outbox.events_of('regress_of', '4', since => '-infinity');
SELECT count(*) FROM outbox.events_of('regress_of', '1');
SELECT outbox.drop_route('regress of') >= 0 AS dropped;
DROP SERVER regress_of;
-- erased
CALL outbox.forget('regress_of', '1', dry_run => false, undelivered => true);
SELECT event_type, payload_bytes, forgotten FROM outbox.events_of('regress_of', '1', "limit" => 2);
\set VERBOSITY default
SELECT outbox.events_of(NULL, '1');
SELECT outbox.events_of('regress_of', NULL);
SELECT outbox.events_of('regress_of', '1', NULL);
SELECT outbox.events_of('regress_of', '1', "limit" => NULL);
SELECT outbox.events_of('regress_of', '1', "limit" => 0);
SELECT outbox.events_of('regress_of', '1', "limit" => 10001);
SELECT outbox.events_of('regress_of', '1', 'infinity');
-- who may
CREATE ROLE regress_app;
CREATE ROLE regress_oncall;
CREATE ROLE regress_watcher IN ROLE pg_monitor;
SELECT outbox.grant_emit('regress_app'), outbox.grant_operate('regress_oncall');
SET ROLE regress_app;
SELECT count(*) FROM outbox.events_of('regress_of', '1');
SET ROLE regress_oncall;
SELECT count(*) FROM outbox.events_of('regress_of', '1');
SET ROLE regress_watcher;
SELECT count(*) FROM outbox.events_of('regress_of', '1');
RESET ROLE;
SELECT outbox.revoke_emit('regress_app'), outbox.revoke_operate('regress_oncall');
DROP ROLE regress_app, regress_oncall, regress_watcher;
