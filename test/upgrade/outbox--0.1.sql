-- outbox: transactional outbox inside PostgreSQL. This file is built from schema/*.sql; edit those.
-- Every object is schema-qualified, nothing is replaced, PUBLIC gets nothing, every object has a COMMENT.
\echo Use "CREATE EXTENSION outbox" to load this file. \quit
-- ---------------------------------------------------------------------------------------------------------------------
-- Before anything is made: the server's version, and a schema that is ours alone. (If schema outbox exists already,
-- CREATE EXTENSION takes it as it is, whoever owns it and whatever is in it.)
-- ---------------------------------------------------------------------------------------------------------------------
DO $check$
DECLARE
  ours oid;
  what text;
BEGIN
  IF pg_catalog.current_setting('server_version_num')::int OPERATOR(pg_catalog.<) 150000 THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'outbox needs PostgreSQL 15 or newer',
      DETAIL = pg_catalog.format('This is %s.', pg_catalog.current_setting('server_version'));
  END IF;
  SELECT n.oid INTO ours FROM pg_catalog.pg_namespace n
  WHERE n.nspname OPERATOR(pg_catalog.=) 'outbox';
  SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) INTO what
  FROM pg_catalog.pg_depend d
  WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
    AND d.refobjid OPERATOR(pg_catalog.=) ours
    AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass
  ORDER BY 1
  LIMIT 1;
  IF what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = 'schema "outbox" exists already and is not empty',
      DETAIL = pg_catalog.format('It holds %s, for instance.', what),
      HINT = 'Drop or rename that schema: the extension makes its own.';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n
                 WHERE n.oid OPERATOR(pg_catalog.=) ours
                   AND n.nspowner OPERATOR(pg_catalog.=) (SELECT r.oid FROM pg_catalog.pg_roles r
                                                          WHERE r.rolname OPERATOR(pg_catalog.=) CURRENT_USER)) THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = 'schema "outbox" exists already and belongs to another role',
      DETAIL = 'Its owner could put objects into it or drop it.',
      HINT = 'Drop or rename that schema: the extension makes its own.';
  END IF;
END
$check$;
-- ---------------------------------------------------------------------------------------------------------------------
-- Tables. Day tables (outbox.log_YYYYMMDD, outbox.progress_YYYYMMDD, outbox.tick_YYYYMMDD) are made by the keeper or at
-- first use, never here: a day table made by this script would be a member of the extension and could not be dropped.
-- No index and no key on a partitioned parent: they break dump and restore.
-- ---------------------------------------------------------------------------------------------------------------------

REVOKE ALL ON SCHEMA outbox FROM PUBLIC;
COMMENT ON SCHEMA outbox IS 'transactional outbox: events written in a transaction, published by background workers';

CREATE TABLE outbox.log (
  created_at     timestamptz NOT NULL,
  id             uuid        NOT NULL,
  xid            xid8        NOT NULL,
  aggregate_type text        NOT NULL,
  aggregate_id   text,
  event_type     text        NOT NULL,
  payload        bytea,
  content_type   text,
  headers        jsonb,
  topic          text,
  deliver_at     timestamptz
) PARTITION BY RANGE (created_at);
COMMENT ON TABLE outbox.log IS 'append-only log of events, one day table per UTC day; written by outbox.emit() only';
COMMENT ON COLUMN outbox.log.created_at IS 'reading of the shared hybrid clock: strictly increasing over all sessions of the server';
COMMENT ON COLUMN outbox.log.id IS 'event id on the wire: UUIDv7 made from created_at, or the id that the client gave';
COMMENT ON COLUMN outbox.log.xid IS 'top-level transaction id of the emitting transaction';
COMMENT ON COLUMN outbox.log.aggregate_type IS 'kind of thing the event is about';
COMMENT ON COLUMN outbox.log.aggregate_id IS 'ordering and partition key; NULL: no key, no order';
COMMENT ON COLUMN outbox.log.event_type IS 'what happened';
COMMENT ON COLUMN outbox.log.payload IS 'exact bytes to publish (UTF-8 for JSON); NULL is a tombstone';
COMMENT ON COLUMN outbox.log.content_type IS 'media type of the payload; NULL for JSON';
COMMENT ON COLUMN outbox.log.headers IS 'flat object of strings; NULL for none';
COMMENT ON COLUMN outbox.log.topic IS 'explicit topic; NULL for the route''s own template';
COMMENT ON COLUMN outbox.log.deliver_at IS 'not to be delivered before this time; NULL: at once';

CREATE TABLE outbox.route (
  id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name            text        NOT NULL UNIQUE,
  server          name        NOT NULL,
  aggregate_types text[]      NOT NULL DEFAULT '{*}',
  event_types     text[]      NOT NULL DEFAULT '{*}',
  topic           text        NOT NULL DEFAULT 'outbox.event.{aggregate_type}',
  key             text        NOT NULL DEFAULT '{aggregate_id}',
  lanes           integer     NOT NULL DEFAULT 1,
  lanes_wanted    integer,
  lanes_begun     timestamptz,
  common_snapshot pg_snapshot,
  options         jsonb       NOT NULL DEFAULT '{}',
  start_snapshot  pg_snapshot NOT NULL,
  start_time      timestamptz NOT NULL,
  on_failure      text        NOT NULL DEFAULT 'skip',
  max_attempts    integer     NOT NULL DEFAULT 10,
  backoff_base    interval    NOT NULL DEFAULT '1 second',
  backoff_cap     interval    NOT NULL DEFAULT '10 minutes',
  created_at      timestamptz NOT NULL DEFAULT pg_catalog.now(),
  created_by      name        NOT NULL DEFAULT CURRENT_USER,
  CONSTRAINT route_on_failure CHECK (on_failure IN ('skip', 'block'))
);
COMMENT ON TABLE outbox.route IS 'which events go to which destination, under which topic; change through create_route, alter_route, drop_route';
COMMENT ON COLUMN outbox.route.id IS 'a route made later under the same name is a new one, with a new id';
COMMENT ON COLUMN outbox.route.name IS 'name for people';
COMMENT ON COLUMN outbox.route.server IS 'foreign server of a wrapper outbox_kafka, outbox_redis or outbox_log';
COMMENT ON COLUMN outbox.route.aggregate_types IS 'patterns with * for any run of characters; an event matches if one of them does';
COMMENT ON COLUMN outbox.route.event_types IS 'patterns, likewise';
COMMENT ON COLUMN outbox.route.topic IS 'topic template: {aggregate_type}, {event_type}, modifiers :kebab and :lower';
COMMENT ON COLUMN outbox.route.key IS 'key template';
COMMENT ON COLUMN outbox.route.lanes IS 'number of lanes that keys are hashed over';
COMMENT ON COLUMN outbox.route.lanes_wanted IS 'number of lanes it will have; NULL: it has them';
COMMENT ON COLUMN outbox.route.lanes_begun IS 'since when its lanes come to rest for that; NULL: they work as ever';
COMMENT ON COLUMN outbox.route.common_snapshot IS 'where all its lanes come to rest before their number changes; NULL: they do not, or have to be given back first';
COMMENT ON COLUMN outbox.route.options IS 'options of the destination kind, for Redis: mode (stream, list, publish)';
COMMENT ON COLUMN outbox.route.start_snapshot IS 'where it started: an event that is visible here and created before start_time is none of this route''s';
COMMENT ON COLUMN outbox.route.start_time IS 'infinity: it started at now; -infinity: at the earliest event';
COMMENT ON COLUMN outbox.route.on_failure IS 'skip: a dead letter lets its key go on; block: later events of the key wait behind it until somebody acts';
COMMENT ON COLUMN outbox.route.max_attempts IS 'how often an event is tried that is refused, and not for good';
COMMENT ON COLUMN outbox.route.backoff_base IS 'the first pause between two tries is random in 0 .. this, and doubles';
COMMENT ON COLUMN outbox.route.backoff_cap IS 'longest pause between two tries';
COMMENT ON COLUMN outbox.route.created_at IS 'when the route was made';
COMMENT ON COLUMN outbox.route.created_by IS 'who made it';

CREATE TABLE outbox.lane (
  route_id    bigint  NOT NULL REFERENCES outbox.route (id) ON DELETE CASCADE,
  lane        integer NOT NULL,
  since       timestamptz NOT NULL DEFAULT '-infinity',
  owner       bigint,
  claimed_at  timestamptz,
  window_from pg_snapshot NOT NULL,
  window_to   pg_snapshot,
  done_to     timestamptz,
  PRIMARY KEY (route_id, lane)
);
COMMENT ON TABLE outbox.lane IS 'ordered reading positions of routes, and which relay worker owns each; claimed with FOR UPDATE SKIP LOCKED';
COMMENT ON COLUMN outbox.lane.route_id IS 'route';
COMMENT ON COLUMN outbox.lane.lane IS 'number within the route, from 0';
COMMENT ON COLUMN outbox.lane.since IS 'reading of the shared clock when the number of lanes last changed: older rows of outbox.progress are another lane''s';
COMMENT ON COLUMN outbox.lane.owner IS 'incarnation of the owning relay worker (the bits of an unsigned number); an owner that is not alive owns nothing';
COMMENT ON COLUMN outbox.lane.claimed_at IS 'when it was claimed';
COMMENT ON COLUMN outbox.lane.window_from IS 'position where outbox.progress has no newer row: where the lane started, or what the keeper carried forward before it dropped a day of progress';
COMMENT ON COLUMN outbox.lane.window_to IS 'likewise';
COMMENT ON COLUMN outbox.lane.done_to IS 'likewise';

CREATE TABLE outbox.progress (
  at            timestamptz NOT NULL,
  route_id      bigint      NOT NULL,
  lane          integer     NOT NULL,
  window_from   pg_snapshot NOT NULL,
  window_to     pg_snapshot,
  done_to       timestamptz,
  side          integer     NOT NULL DEFAULT 0,
  places        jsonb,
  run           text,
  survived      text
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox.progress IS 'insert-only history of how far each lane has come; the newest row since the lane was made counts';
COMMENT ON COLUMN outbox.progress.at IS 'when it was written: a reading of the shared clock, unique';
COMMENT ON COLUMN outbox.progress.route_id IS 'route';
COMMENT ON COLUMN outbox.progress.lane IS 'lane';
COMMENT ON COLUMN outbox.progress.side IS '0: of the lane itself; else of its side lane of that number';
COMMENT ON COLUMN outbox.progress.places IS 'where the events went that were acknowledged since the row before: first and last offset or stream id, by "topic/partition" or stream';
COMMENT ON COLUMN outbox.progress.run IS 'which life of the Redis server acknowledged them, see outbox.server_run; NULL: the destination does not tell';
COMMENT ON COLUMN outbox.progress.survived IS 'only where the lane was put back, because the server had lost what it had acknowledged: the last stream id that was still there';
COMMENT ON COLUMN outbox.progress.window_from IS 'all events visible in this snapshot are done';
COMMENT ON COLUMN outbox.progress.window_to IS 'end of the window that is under way; NULL: none';
COMMENT ON COLUMN outbox.progress.done_to IS 'events of that window up to this created_at are done; NULL: none';

CREATE TABLE outbox.tick (
  at       timestamptz NOT NULL,
  snapshot pg_snapshot NOT NULL
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox.tick IS 'snapshots recorded while a lane lags, so that a backlog is read as many small windows';
COMMENT ON COLUMN outbox.tick.at IS 'when: a reading of the shared clock';
COMMENT ON COLUMN outbox.tick.snapshot IS 'the snapshot';

CREATE TABLE outbox.server_run (
  server   name        NOT NULL,
  run      text        NOT NULL,
  survived text        NOT NULL,
  resend   boolean     NOT NULL,
  met_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  PRIMARY KEY (server, run)
);
COMMENT ON TABLE outbox.server_run IS 'lives of Redis servers, and what each still had when a worker first met it, before anything new was written';
COMMENT ON COLUMN outbox.server_run.server IS 'destination';
COMMENT ON COLUMN outbox.server_run.run IS 'hash of the configured address, run id and replication id of the server (the first 16 characters of each)';
COMMENT ON COLUMN outbox.server_run.survived IS 'the last id of all streams asked about: what was acknowledged under a later one is lost';
COMMENT ON COLUMN outbox.server_run.resend IS 'option on_lost_writes of the destination then: lanes that have lost something are put back';
COMMENT ON COLUMN outbox.server_run.met_at IS 'when';

CREATE TABLE outbox.foreign_event (
  received_at    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  created_at     timestamptz,
  id             uuid,
  aggregate_type text,
  aggregate_id   text,
  event_type     text,
  payload        bytea,
  content_type   text,
  headers        jsonb,
  topic          text,
  deliver_at     timestamptz
);
COMMENT ON TABLE outbox.foreign_event IS 'rows that reached outbox.log by another way than emit() (restore, logical replication, hands): kept here, published by outbox.adopt() only';
COMMENT ON COLUMN outbox.foreign_event.received_at IS 'when the row was diverted';
COMMENT ON COLUMN outbox.foreign_event.created_at IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.id IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.aggregate_type IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.aggregate_id IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.event_type IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.payload IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.content_type IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.headers IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.topic IS 'as it came';
COMMENT ON COLUMN outbox.foreign_event.deliver_at IS 'as it came';

CREATE TABLE outbox.identity (
  system_identifier bigint      NOT NULL,
  database          oid         NOT NULL,
  instance          text        NOT NULL,
  adopted_at        timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE outbox.identity IS 'which server and database this outbox belongs to; a copy differs and stays silent until outbox.adopt()';
COMMENT ON COLUMN outbox.identity.system_identifier IS 'of the server, from pg_control_system()';
COMMENT ON COLUMN outbox.identity.database IS 'oid of the database';
COMMENT ON COLUMN outbox.identity.instance IS 'outbox.instance at that time';
COMMENT ON COLUMN outbox.identity.adopted_at IS 'when';
-- No row at first: the first create_route() or emit() here writes it. A restore runs neither, so that nothing is started
-- between the moment when it creates the extension and the one when it brings the original's row.

-- Not in a dump, other than identity: where its row is still beside the identity's, the files came with the copy (base
-- backup, template, pg_upgrade), and with them the transaction ids that the positions of lanes are made of.
CREATE TABLE outbox.origin (
  system_identifier bigint NOT NULL,
  database          oid    NOT NULL
);
COMMENT ON TABLE outbox.origin IS 'server and database whose transaction ids the log and the positions of lanes hold; a dump does not bring it, a copy of the files does';
COMMENT ON COLUMN outbox.origin.system_identifier IS 'as in outbox.identity';
COMMENT ON COLUMN outbox.origin.database IS 'as in outbox.identity';

-- adopt() deletes from these, which a publication FOR ALL TABLES would refuse of a table without a key.
ALTER TABLE outbox.foreign_event REPLICA IDENTITY FULL;
ALTER TABLE outbox.identity REPLICA IDENTITY FULL;
ALTER TABLE outbox.origin REPLICA IDENTITY FULL;

CREATE SEQUENCE outbox.clock_ceiling AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE outbox.clock_ceiling IS 'register, not a sequence: Unix microseconds that the shared clock starts above after a restart; kept ahead of the clock by the keeper and, where that is late, by emitters';

SELECT pg_catalog.pg_extension_config_dump('outbox.log', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.route', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.route_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.lane', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.foreign_event', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.identity', '');
-- ---------------------------------------------------------------------------------------------------------------------
-- Parked events: refused, waiting behind a refused one, or not due yet. Written by lanes and by the functions of
-- 36_parked.sql. Unlike the log these tables live by UPDATE and DELETE: what is here is the exception.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE outbox.parked (
  route_id       bigint      NOT NULL REFERENCES outbox.route (id) ON DELETE CASCADE,
  lane           integer     NOT NULL,
  created_at     timestamptz NOT NULL,
  id             uuid        NOT NULL,
  replay         bigint      NOT NULL DEFAULT 0,
  state          text        NOT NULL DEFAULT 'dead',
  order_key      bigint,
  due_at         timestamptz,
  sender         bigint,
  aggregate_type text        NOT NULL,
  aggregate_id   text,
  event_type     text        NOT NULL,
  payload        bytea,
  content_type   text,
  headers        jsonb,
  own_topic      text,
  topic          text        NOT NULL,
  attempts       integer     NOT NULL DEFAULT 0,
  error_class    text,
  error_code     text,
  error_message  text,
  failed_at      timestamptz,
  parked_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  PRIMARY KEY (route_id, created_at, id, replay),
  CONSTRAINT parked_state CHECK (state IN ('retrying', 'blocked', 'scheduled', 'dead')),
  CONSTRAINT parked_due CHECK ((due_at IS NOT NULL) = (state IN ('retrying', 'scheduled')))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
-- What is due, by who may send it; who waits behind whom, and which keys are held; dead letters; single events. A state is
-- in the index of those who look for it only: a million blocked or dead rows are in nobody's way.
CREATE INDEX parked_due_idx ON outbox.parked (route_id, lane, due_at, created_at) WHERE due_at IS NOT NULL AND order_key IS NOT NULL;
CREATE INDEX parked_shared_idx ON outbox.parked (route_id, due_at, created_at) WHERE due_at IS NOT NULL AND order_key IS NULL;
CREATE INDEX parked_key_idx ON outbox.parked (route_id, order_key, created_at, replay, id) WHERE order_key IS NOT NULL AND state IN ('retrying', 'blocked');
CREATE INDEX parked_dead_idx ON outbox.parked (route_id, order_key, created_at, replay, id) WHERE state = 'dead';
CREATE INDEX parked_id_idx ON outbox.parked (id);
-- State first: a claim, which asks by route and lane, must not take it for an index of what is due.
CREATE INDEX parked_count_idx ON outbox.parked (state, route_id, lane);
CREATE INDEX parked_replay_idx ON outbox.parked (replay) WHERE replay <> 0;
COMMENT ON TABLE outbox.parked IS 'events that a destination refused, that wait behind such a one, or that are not due yet; with a full copy';
COMMENT ON INDEX outbox.parked_due_idx IS 'what is tried next: events with a key, by their lane''s owner';
COMMENT ON INDEX outbox.parked_shared_idx IS 'what is tried next: events without a key, by any worker that owns a lane of the route';
COMMENT ON INDEX outbox.parked_key_idx IS 'who waits behind whom';
COMMENT ON INDEX outbox.parked_dead_idx IS 'dead letters, by key';
COMMENT ON INDEX outbox.parked_id_idx IS 'for status(), retry(), skip()';
COMMENT ON INDEX outbox.parked_count_idx IS 'for counting: outbox.lag, doctor()';
COMMENT ON INDEX outbox.parked_replay_idx IS 'what is left of a replay';
COMMENT ON COLUMN outbox.parked.route_id IS 'route';
COMMENT ON COLUMN outbox.parked.lane IS 'lane that owns it; of an event without a key: the lane that parked it or sent it last';
COMMENT ON COLUMN outbox.parked.created_at IS 'of the event';
COMMENT ON COLUMN outbox.parked.id IS 'event id';
COMMENT ON COLUMN outbox.parked.replay IS '0: the event itself; else the number of the replay that brought it here';
COMMENT ON COLUMN outbox.parked.state IS 'retrying: tried again at due_at; blocked: behind an event of its key, or its key is paused; scheduled: delivered at due_at; dead: not tried again until somebody says so';
COMMENT ON COLUMN outbox.parked.order_key IS 'hash of topic, aggregate type and id: events of one key go in order; NULL: no key';
COMMENT ON COLUMN outbox.parked.due_at IS 'next try of a retrying, time of a scheduled event';
COMMENT ON COLUMN outbox.parked.sender IS 'incarnation of the relay worker that is sending it just now; one that is not alive does not count';
COMMENT ON COLUMN outbox.parked.aggregate_type IS 'of the event';
COMMENT ON COLUMN outbox.parked.aggregate_id IS 'of the event';
COMMENT ON COLUMN outbox.parked.event_type IS 'of the event';
COMMENT ON COLUMN outbox.parked.payload IS 'of the event';
COMMENT ON COLUMN outbox.parked.content_type IS 'of the event';
COMMENT ON COLUMN outbox.parked.headers IS 'of the event';
COMMENT ON COLUMN outbox.parked.own_topic IS 'explicit topic of the event; NULL: the route''s template, as it is when the event is tried';
COMMENT ON COLUMN outbox.parked.topic IS 'resolved topic when it was parked';
COMMENT ON COLUMN outbox.parked.attempts IS 'how often it was refused; trouble of topic or destination does not count';
COMMENT ON COLUMN outbox.parked.error_class IS 'of the last failure: message, solo-retry, topic, ...; NULL: none';
COMMENT ON COLUMN outbox.parked.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.parked.error_message IS 'for people';
COMMENT ON COLUMN outbox.parked.failed_at IS 'when it failed last';
COMMENT ON COLUMN outbox.parked.parked_at IS 'when it came here';

CREATE TABLE outbox.outcome (
  at         timestamptz NOT NULL,
  route_id   bigint      NOT NULL,
  created_at timestamptz NOT NULL,
  id         uuid        NOT NULL,
  replay     bigint      NOT NULL,
  outcome    text        NOT NULL,
  attempts   integer     NOT NULL,
  topic      text        NOT NULL,
  place      text,
  error_class   text,
  error_code    text,
  error_message text
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox.outcome IS 'insert-only history of what became of parked events; one table a day, dropped with the log';
COMMENT ON COLUMN outbox.outcome.at IS 'when: a reading of the shared clock';
COMMENT ON COLUMN outbox.outcome.route_id IS 'route';
COMMENT ON COLUMN outbox.outcome.created_at IS 'of the event';
COMMENT ON COLUMN outbox.outcome.id IS 'event id';
COMMENT ON COLUMN outbox.outcome.replay IS 'as in outbox.parked';
COMMENT ON COLUMN outbox.outcome.outcome IS 'delivered, skipped or discarded';
COMMENT ON COLUMN outbox.outcome.attempts IS 'how often it was refused before';
COMMENT ON COLUMN outbox.outcome.topic IS 'resolved topic';
COMMENT ON COLUMN outbox.outcome.error_class IS 'of the last failure before that; NULL: none';
COMMENT ON COLUMN outbox.outcome.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.outcome.error_message IS 'for people';
COMMENT ON COLUMN outbox.outcome.place IS 'partition and offset, or stream id; NULL: not delivered, or the destination did not say';

-- A topic in trouble leaves its lane: a side lane with a position of its own reads it from the same log.
CREATE TABLE outbox.side_lane (
  route_id    bigint  NOT NULL,
  lane        integer NOT NULL,
  side        integer NOT NULL,
  since       timestamptz NOT NULL,
  window_from pg_snapshot NOT NULL,
  window_to   pg_snapshot,
  done_to     timestamptz,
  topic_template text NOT NULL,
  PRIMARY KEY (route_id, lane, side),
  FOREIGN KEY (route_id, lane) REFERENCES outbox.lane (route_id, lane) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT side_lane_number CHECK (side > 0)
);
COMMENT ON TABLE outbox.side_lane IS 'reading positions of topics that are in trouble or paused; they belong to their lane''s owner';
COMMENT ON COLUMN outbox.side_lane.route_id IS 'route';
COMMENT ON COLUMN outbox.side_lane.lane IS 'lane that it left';
COMMENT ON COLUMN outbox.side_lane.side IS 'number, from 1';
COMMENT ON COLUMN outbox.side_lane.since IS 'reading of the shared clock at the fork: older rows of outbox.progress are another one''s';
COMMENT ON COLUMN outbox.side_lane.window_from IS 'position where outbox.progress has no newer row';
COMMENT ON COLUMN outbox.side_lane.window_to IS 'likewise';
COMMENT ON COLUMN outbox.side_lane.done_to IS 'likewise';
COMMENT ON COLUMN outbox.side_lane.topic_template IS 'the route''s when the first topic left: it decides which events are whose until all are back';

CREATE TABLE outbox.side_topic (
  route_id      bigint  NOT NULL,
  lane          integer NOT NULL,
  topic         text    NOT NULL,
  side          integer NOT NULL,
  start_from    pg_snapshot NOT NULL,
  start_to      pg_snapshot,
  start_done_to timestamptz,
  error_class   text NOT NULL,
  error_code    text NOT NULL,
  error_message text NOT NULL,
  forked_at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  PRIMARY KEY (route_id, lane, topic),
  FOREIGN KEY (route_id, lane, side) REFERENCES outbox.side_lane (route_id, lane, side) ON DELETE CASCADE ON UPDATE CASCADE
);
COMMENT ON TABLE outbox.side_topic IS 'topics that side lanes serve; nearly always one to a side lane';
COMMENT ON COLUMN outbox.side_topic.route_id IS 'route';
COMMENT ON COLUMN outbox.side_topic.lane IS 'lane';
COMMENT ON COLUMN outbox.side_topic.topic IS 'resolved topic';
COMMENT ON COLUMN outbox.side_topic.side IS 'side lane that serves it';
COMMENT ON COLUMN outbox.side_topic.start_from IS 'events up to this position are not the side lane''s';
COMMENT ON COLUMN outbox.side_topic.start_to IS 'likewise';
COMMENT ON COLUMN outbox.side_topic.start_done_to IS 'likewise';
COMMENT ON COLUMN outbox.side_topic.error_class IS 'why it left its lane: topic, or paused';
COMMENT ON COLUMN outbox.side_topic.error_code IS 'the destination''s own code, or PAUSED';
COMMENT ON COLUMN outbox.side_topic.error_message IS 'for people';
COMMENT ON COLUMN outbox.side_topic.forked_at IS 'since when';

CREATE TABLE outbox.pause (
  id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  route_id       bigint REFERENCES outbox.route (id) ON DELETE CASCADE,
  server         name,
  topic          text,
  aggregate_type text,
  aggregate_id   text,
  reason         text        NOT NULL,
  paused_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  paused_by      name        NOT NULL,
  CONSTRAINT pause_of_what CHECK ((route_id IS NULL) <> (server IS NULL)
    AND (topic IS NULL OR (route_id IS NOT NULL AND aggregate_type IS NULL))
    AND (aggregate_type IS NULL) = (aggregate_id IS NULL) AND (aggregate_type IS NULL OR route_id IS NOT NULL))
);
CREATE UNIQUE INDEX pause_what_idx ON outbox.pause (coalesce(route_id, 0), coalesce(server, ''::name), coalesce(topic, ''), coalesce(aggregate_type, ''), coalesce(aggregate_id, ''));
COMMENT ON TABLE outbox.pause IS 'what people have stopped: a route, a destination, a topic or a key of a route; see outbox.pause() and outbox.resume()';
COMMENT ON INDEX outbox.pause_what_idx IS 'once each';
COMMENT ON SEQUENCE outbox.pause_id_seq IS 'ids of pauses';
COMMENT ON COLUMN outbox.pause.id IS 'number';
COMMENT ON COLUMN outbox.pause.route_id IS 'route; NULL: a destination is paused';
COMMENT ON COLUMN outbox.pause.server IS 'destination; NULL: a route or part of one';
COMMENT ON COLUMN outbox.pause.topic IS 'only this resolved topic of the route';
COMMENT ON COLUMN outbox.pause.aggregate_type IS 'only this key of the route, with aggregate_id';
COMMENT ON COLUMN outbox.pause.aggregate_id IS 'likewise';
COMMENT ON COLUMN outbox.pause.reason IS 'why';
COMMENT ON COLUMN outbox.pause.paused_at IS 'since when';
COMMENT ON COLUMN outbox.pause.paused_by IS 'who';

CREATE TABLE outbox.audit (
  at       timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  who      name        NOT NULL,
  action   text        NOT NULL,
  route    text,
  event_id uuid,
  detail   jsonb       NOT NULL DEFAULT '{}',
  reason   text
);
CREATE INDEX audit_at_idx ON outbox.audit (at);
CREATE INDEX audit_event_idx ON outbox.audit (event_id) WHERE event_id IS NOT NULL;
ALTER TABLE outbox.audit REPLICA IDENTITY FULL;  -- rows of it are deleted by people, see 10_tables.sql
COMMENT ON TABLE outbox.audit IS 'what people did, and where a worker put a lane back: one row per action, never changed';
COMMENT ON INDEX outbox.audit_at_idx IS 'by time';
COMMENT ON INDEX outbox.audit_event_idx IS 'by event';
COMMENT ON COLUMN outbox.audit.at IS 'when';
COMMENT ON COLUMN outbox.audit.who IS 'role that called; of a worker: the owner of the extension';
COMMENT ON COLUMN outbox.audit.action IS 'retry, redrive, skip, discard, replay, seek, pause, resume; rewind and lost writes by a worker';
COMMENT ON COLUMN outbox.audit.route IS 'name of the route then';
COMMENT ON COLUMN outbox.audit.event_id IS 'event, where it was one';
COMMENT ON COLUMN outbox.audit.detail IS 'what exactly: filters, counts, what was changed';
COMMENT ON COLUMN outbox.audit.reason IS 'why, as given';

SELECT pg_catalog.pg_extension_config_dump('outbox.parked', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.side_lane', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.side_topic', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.pause', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.pause_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.audit', '');
-- ---------------------------------------------------------------------------------------------------------------------
-- Emitting. Not STRICT: a NULL argument is an error with a hint, not a call that does nothing. VOLATILE and PARALLEL
-- UNSAFE: poolers, balancers and the planner must take them for writes. Nothing here is for PUBLIC but the input and
-- output of json_arg, which casts run with the caller's rights: see outbox.grant_emit().
-- ---------------------------------------------------------------------------------------------------------------------

-- A type of our own for JSON that comes as text, varchar or json (drivers that declare their strings, json_build_object).
-- Its category is jsonb's, so that it never wins over jsonb or text where an argument is untyped. A twin on text,
-- varchar or json itself would silently capture or break untyped calls.
CREATE TYPE outbox.json_arg;
CREATE FUNCTION outbox.json_arg_in(cstring) RETURNS outbox.json_arg
  LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_json_arg_in';
CREATE FUNCTION outbox.json_arg_out(outbox.json_arg) RETURNS cstring
  LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'json_out';
CREATE FUNCTION outbox.json_arg_recv(internal) RETURNS outbox.json_arg
  LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_json_arg_recv';
CREATE FUNCTION outbox.json_arg_send(outbox.json_arg) RETURNS bytea
  LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'json_send';
CREATE TYPE outbox.json_arg (
  INPUT = outbox.json_arg_in, OUTPUT = outbox.json_arg_out, RECEIVE = outbox.json_arg_recv, SEND = outbox.json_arg_send,
  INTERNALLENGTH = VARIABLE, ALIGNMENT = int4, STORAGE = extended, CATEGORY = 'U', PREFERRED = false
);
COMMENT ON TYPE outbox.json_arg IS 'JSON argument: text, varchar, json and jsonb become it by themselves; published byte for byte';
COMMENT ON FUNCTION outbox.json_arg_in(cstring) IS 'input of json_arg: checks that it is JSON';
COMMENT ON FUNCTION outbox.json_arg_out(outbox.json_arg) IS 'output of json_arg';
COMMENT ON FUNCTION outbox.json_arg_recv(internal) IS 'binary input of json_arg';
COMMENT ON FUNCTION outbox.json_arg_send(outbox.json_arg) IS 'binary output of json_arg';

CREATE CAST (text AS outbox.json_arg) WITH INOUT AS IMPLICIT;
CREATE CAST (varchar AS outbox.json_arg) WITH INOUT AS IMPLICIT;
CREATE CAST (json AS outbox.json_arg) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (jsonb AS outbox.json_arg) WITH INOUT AS IMPLICIT;
CREATE CAST (outbox.json_arg AS text) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (outbox.json_arg AS jsonb) WITH INOUT AS ASSIGNMENT;
COMMENT ON CAST (text AS outbox.json_arg) IS 'checks that the text is JSON';
COMMENT ON CAST (varchar AS outbox.json_arg) IS 'checks that the text is JSON';
COMMENT ON CAST (json AS outbox.json_arg) IS 'the same bytes';
COMMENT ON CAST (jsonb AS outbox.json_arg) IS 'jsonb in its own spelling';
COMMENT ON CAST (outbox.json_arg AS text) IS 'the same bytes';
COMMENT ON CAST (outbox.json_arg AS jsonb) IS 'the document as jsonb';

-- emit: the body is jsonb. Result of each function here: the event's id. deliver_at is the last argument of each and
-- has one type in all twins, so that it decides nothing about which of them is called.
CREATE FUNCTION outbox.emit(aggregate_type text, aggregate_id text, event_type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_key_text';
CREATE FUNCTION outbox.emit(aggregate_type text, aggregate_id bigint, event_type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_key_bigint';
CREATE FUNCTION outbox.emit(aggregate_type text, aggregate_id uuid, event_type text, payload jsonb, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_key_uuid';
COMMENT ON FUNCTION outbox.emit(text, text, text, jsonb, jsonb, text, timestamptz) IS 'emits an event with a JSON payload: it is published if and only if this transaction commits';
COMMENT ON FUNCTION outbox.emit(text, bigint, text, jsonb, jsonb, text, timestamptz) IS 'emits an event with a JSON payload: it is published if and only if this transaction commits';
COMMENT ON FUNCTION outbox.emit(text, uuid, text, jsonb, jsonb, text, timestamptz) IS 'emits an event with a JSON payload: it is published if and only if this transaction commits';

-- Its twin for clients that declare their strings (JDBC) or hold json.
CREATE FUNCTION outbox.emit(aggregate_type varchar, aggregate_id varchar, event_type varchar, payload outbox.json_arg, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_json_key_text';
CREATE FUNCTION outbox.emit(aggregate_type varchar, aggregate_id bigint, event_type varchar, payload outbox.json_arg, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_json_key_bigint';
CREATE FUNCTION outbox.emit(aggregate_type varchar, aggregate_id uuid, event_type varchar, payload outbox.json_arg, headers outbox.json_arg DEFAULT NULL, topic varchar DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_json_key_uuid';
COMMENT ON FUNCTION outbox.emit(varchar, varchar, varchar, outbox.json_arg, outbox.json_arg, varchar, timestamptz) IS 'emit() for typed strings and json: the payload is published byte for byte';
COMMENT ON FUNCTION outbox.emit(varchar, bigint, varchar, outbox.json_arg, outbox.json_arg, varchar, timestamptz) IS 'emit() for typed strings and json: the payload is published byte for byte';
COMMENT ON FUNCTION outbox.emit(varchar, uuid, varchar, outbox.json_arg, outbox.json_arg, varchar, timestamptz) IS 'emit() for typed strings and json: the payload is published byte for byte';

CREATE FUNCTION outbox.emit_text(aggregate_type text, aggregate_id text, event_type text, payload text, content_type text DEFAULT 'text/plain', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_key_text';
CREATE FUNCTION outbox.emit_text(aggregate_type text, aggregate_id bigint, event_type text, payload text, content_type text DEFAULT 'text/plain', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_key_bigint';
CREATE FUNCTION outbox.emit_text(aggregate_type text, aggregate_id uuid, event_type text, payload text, content_type text DEFAULT 'text/plain', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_text_key_uuid';
COMMENT ON FUNCTION outbox.emit_text(text, text, text, text, text, jsonb, text, timestamptz) IS 'emits an event whose payload is text, published in UTF-8';
COMMENT ON FUNCTION outbox.emit_text(text, bigint, text, text, text, jsonb, text, timestamptz) IS 'emits an event whose payload is text, published in UTF-8';
COMMENT ON FUNCTION outbox.emit_text(text, uuid, text, text, text, jsonb, text, timestamptz) IS 'emits an event whose payload is text, published in UTF-8';

CREATE FUNCTION outbox.emit_bytes(aggregate_type text, aggregate_id text, event_type text, payload bytea, content_type text DEFAULT 'application/octet-stream', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_key_text';
CREATE FUNCTION outbox.emit_bytes(aggregate_type text, aggregate_id bigint, event_type text, payload bytea, content_type text DEFAULT 'application/octet-stream', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_key_bigint';
CREATE FUNCTION outbox.emit_bytes(aggregate_type text, aggregate_id uuid, event_type text, payload bytea, content_type text DEFAULT 'application/octet-stream', headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_bytes_key_uuid';
COMMENT ON FUNCTION outbox.emit_bytes(text, text, text, bytea, text, jsonb, text, timestamptz) IS 'emits an event whose payload is bytes, published as they are';
COMMENT ON FUNCTION outbox.emit_bytes(text, bigint, text, bytea, text, jsonb, text, timestamptz) IS 'emits an event whose payload is bytes, published as they are';
COMMENT ON FUNCTION outbox.emit_bytes(text, uuid, text, bytea, text, jsonb, text, timestamptz) IS 'emits an event whose payload is bytes, published as they are';

CREATE FUNCTION outbox.emit_tombstone(aggregate_type text, aggregate_id text, event_type text, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_key_text';
CREATE FUNCTION outbox.emit_tombstone(aggregate_type text, aggregate_id bigint, event_type text, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_key_bigint';
CREATE FUNCTION outbox.emit_tombstone(aggregate_type text, aggregate_id uuid, event_type text, headers jsonb DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_tombstone_key_uuid';
COMMENT ON FUNCTION outbox.emit_tombstone(text, text, text, jsonb, text, timestamptz) IS 'emits an event without a payload: consumers of compacted topics take it as a deletion of the key';
COMMENT ON FUNCTION outbox.emit_tombstone(text, bigint, text, jsonb, text, timestamptz) IS 'emits an event without a payload: consumers of compacted topics take it as a deletion of the key';
COMMENT ON FUNCTION outbox.emit_tombstone(text, uuid, text, jsonb, text, timestamptz) IS 'emits an event without a payload: consumers of compacted topics take it as a deletion of the key';
-- ---------------------------------------------------------------------------------------------------------------------
-- Many events in one call: one round trip and fewer WAL records. Both forms keep the order and hand back ids in it.
-- ---------------------------------------------------------------------------------------------------------------------

-- For comfort: '[{"aggregate_type": "order", "aggregate_id": 42, "event_type": "order.created", "payload": {...}}, ...]'
CREATE FUNCTION outbox.emit_many(events jsonb)
  RETURNS SETOF uuid LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'outbox_emit_many_objects';
COMMENT ON FUNCTION outbox.emit_many(jsonb) IS 'emits an event for each object of a JSON array; the objects have the argument names of emit()';

-- For speed: element i of each array belongs to event i.
CREATE FUNCTION outbox.emit_many(aggregate_type text, aggregate_ids text[], event_type text, payloads jsonb[], headers jsonb[] DEFAULT NULL, topic text DEFAULT NULL, deliver_at timestamptz DEFAULT NULL)
  RETURNS uuid[] LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_many_arrays';
COMMENT ON FUNCTION outbox.emit_many(text, text[], text, jsonb[], jsonb[], text, timestamptz) IS 'emits an event for each payload of an array, all of one aggregate type and event type, all due at the same time; a NULL array of ids means no keys';
-- ---------------------------------------------------------------------------------------------------------------------
-- The view outbox.event, for ORMs: INSERT emits. It shows what the current transaction emitted and nothing else, so that
-- RETURNING, refresh and merge work and granting SELECT leaks nothing. No column defaults: they would run with the
-- caller's rights. The functions need no SECURITY DEFINER: they are C and reach the log by themselves.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox._own_events()
  RETURNS TABLE (id uuid, aggregate_type text, aggregate_id text, event_type text, payload jsonb, headers jsonb,
                 topic text, created_at timestamptz, content_type text, payload_text text, payload_bytes bytea,
                 deliver_at timestamptz)
  LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'outbox_own_events';
COMMENT ON FUNCTION outbox._own_events() IS 'events of the current transaction, for the view outbox.event';

CREATE VIEW outbox.event AS
  SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.headers, e.topic, e.created_at,
         e.content_type, e.payload_text, e.payload_bytes, e.deliver_at
  FROM outbox._own_events() e;
COMMENT ON VIEW outbox.event IS 'INSERT emits an event; shows the events of the current transaction only';
COMMENT ON COLUMN outbox.event.id IS 'event id; the client''s own if given, else made';
COMMENT ON COLUMN outbox.event.aggregate_type IS 'kind of thing the event is about';
COMMENT ON COLUMN outbox.event.aggregate_id IS 'ordering and partition key; NULL: no key, no order';
COMMENT ON COLUMN outbox.event.event_type IS 'what happened';
COMMENT ON COLUMN outbox.event.payload IS 'JSON payload; give exactly one of payload, payload_text and payload_bytes';
COMMENT ON COLUMN outbox.event.headers IS 'flat object of strings; NULL for none';
COMMENT ON COLUMN outbox.event.topic IS 'explicit topic; NULL for the route''s own template';
COMMENT ON COLUMN outbox.event.created_at IS 'given by outbox; what a client sends is ignored';
COMMENT ON COLUMN outbox.event.content_type IS 'media type; NULL for JSON, text/plain for payload_text, application/octet-stream for payload_bytes';
COMMENT ON COLUMN outbox.event.payload_text IS 'text payload; reads the body of text/*, *json and *xml';
COMMENT ON COLUMN outbox.event.payload_bytes IS 'payload of bytes; reads the body of all other content types';
COMMENT ON COLUMN outbox.event.deliver_at IS 'not to be delivered before this time; NULL: at once';

CREATE FUNCTION outbox._event_insert() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_event_insert';
COMMENT ON FUNCTION outbox._event_insert() IS 'emits what is inserted into outbox.event';
CREATE FUNCTION outbox._event_refuse() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_event_refuse';
COMMENT ON FUNCTION outbox._event_refuse() IS 'refuses UPDATE and DELETE on outbox.event';

CREATE TRIGGER event_insert INSTEAD OF INSERT ON outbox.event
  FOR EACH ROW EXECUTE FUNCTION outbox._event_insert();
COMMENT ON TRIGGER event_insert ON outbox.event IS 'INSERT emits';
-- Once per statement, so that one that finds no row is refused too; the INSTEAD OF trigger is what lets a statement on
-- this view get as far as that.
CREATE TRIGGER event_refuse BEFORE UPDATE OR DELETE ON outbox.event
  FOR EACH STATEMENT EXECUTE FUNCTION outbox._event_refuse();
COMMENT ON TRIGGER event_refuse ON outbox.event IS 'the log is append-only';
CREATE TRIGGER event_refuse_row INSTEAD OF UPDATE OR DELETE ON outbox.event
  FOR EACH ROW EXECUTE FUNCTION outbox._event_refuse();
COMMENT ON TRIGGER event_refuse_row ON outbox.event IS 'the log is append-only';
-- ---------------------------------------------------------------------------------------------------------------------
-- Row changes as events without code:
--   CREATE TRIGGER orders_events AFTER INSERT OR UPDATE OR DELETE ON orders
--     FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
-- Arguments: aggregate type, key column, prefix of the event type (default: the aggregate type), columns to leave out.
-- Events are <prefix>.created, .updated and .deleted. The payload is the row as JSON: the new one, or the old one for
-- .deleted. An UPDATE that changes the key is .deleted under the old key and .created under the new one.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox.emit_row() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emit_row';
COMMENT ON FUNCTION outbox.emit_row() IS 'trigger function emit_row(aggregate_type, key_column [, event_type_prefix [, left_out_column ...]]): emits each row change; who writes to the table needs no grant';
-- ---------------------------------------------------------------------------------------------------------------------
-- Nobody but emit writes the log: emit passes triggers by, everything else (a restore, logical replication, hands) ends
-- up in outbox.foreign_event. Transaction ids of another cluster in the log would be published at the wrong time or never.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._divert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $divert$
BEGIN
  INSERT INTO outbox.foreign_event (created_at, id, aggregate_type, aggregate_id, event_type, payload, content_type,
                                    headers, topic, deliver_at)
  VALUES (NEW.created_at, NEW.id, NEW.aggregate_type, NEW.aggregate_id, NEW.event_type, NEW.payload, NEW.content_type,
          NEW.headers, NEW.topic, NEW.deliver_at);
  RETURN NULL;
END
$divert$;
COMMENT ON FUNCTION outbox._divert() IS 'keeps rows that reach outbox.log by another way than emit() in outbox.foreign_event';

CREATE TRIGGER log_guard BEFORE INSERT ON outbox.log FOR EACH ROW EXECUTE FUNCTION outbox._divert();
ALTER TABLE outbox.log ENABLE ALWAYS TRIGGER log_guard;
COMMENT ON TRIGGER log_guard ON outbox.log IS 'diverts every insert but emit''s own into outbox.foreign_event';
-- ---------------------------------------------------------------------------------------------------------------------
-- Who may emit. One line instead of a page of grants.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._emit_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = 'outbox'::regnamespace
    AND p.proname IN ('emit', 'emit_text', 'emit_bytes', 'emit_tombstone', 'emit_many', 'emit_row', '_own_events');
END;
COMMENT ON FUNCTION outbox._emit_routines() IS 'what grant_emit() grants EXECUTE on';

CREATE FUNCTION outbox.grant_emit(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  routine regprocedure;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to grant to.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
  FOR routine IN SELECT * FROM outbox._emit_routines() LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', routine, role);
  END LOOP;
  EXECUTE format('GRANT INSERT, SELECT ON outbox.event TO %s', role);
END
$grant$;
COMMENT ON FUNCTION outbox.grant_emit(regrole) IS 'lets a role emit: the emit functions, the trigger function emit_row, and the view outbox.event';

CREATE FUNCTION outbox.revoke_emit(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
  routine regprocedure;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to revoke from.', HINT = 'Pass a role name, such as ''app''.';
  END IF;
  FOR routine IN SELECT * FROM outbox._emit_routines() LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %s', routine, role);
  END LOOP;
  EXECUTE format('REVOKE INSERT, SELECT ON outbox.event FROM %s', role);
  -- Not USAGE on the schema: the role may have been given more than emitting.
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_emit(regrole) IS 'takes back what grant_emit() granted, except USAGE on the schema';
CREATE FUNCTION outbox._preloaded() RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_preloaded';
COMMENT ON FUNCTION outbox._preloaded() IS 'is outbox in shared_preload_libraries, so that background workers can run';
-- ---------------------------------------------------------------------------------------------------------------------
-- Destinations are foreign servers of these wrappers. No handler: there is nothing to query. USAGE is not granted to
-- anybody: the owner of a server decides where events go.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.kafka_validator(options text[], catalog oid) RETURNS void
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_kafka_validator';
REVOKE ALL ON FUNCTION outbox.kafka_validator(text[], oid) FROM PUBLIC;
COMMENT ON FUNCTION outbox.kafka_validator(text[], oid) IS 'checks the options of servers and user mappings of outbox_kafka';

CREATE FUNCTION outbox.redis_validator(options text[], catalog oid) RETURNS void
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_redis_validator';
REVOKE ALL ON FUNCTION outbox.redis_validator(text[], oid) FROM PUBLIC;
COMMENT ON FUNCTION outbox.redis_validator(text[], oid) IS 'checks the options of servers and user mappings of outbox_redis';

CREATE FUNCTION outbox.log_validator(options text[], catalog oid) RETURNS void
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_log_validator';
REVOKE ALL ON FUNCTION outbox.log_validator(text[], oid) FROM PUBLIC;
COMMENT ON FUNCTION outbox.log_validator(text[], oid) IS 'checks the options of servers and user mappings of outbox_log';

CREATE FOREIGN DATA WRAPPER outbox_kafka NO HANDLER VALIDATOR outbox.kafka_validator;
COMMENT ON FOREIGN DATA WRAPPER outbox_kafka IS 'Apache Kafka as a destination of outbox; server options are those of librdkafka, secrets go into a user mapping';

CREATE FOREIGN DATA WRAPPER outbox_redis NO HANDLER VALIDATOR outbox.redis_validator;
COMMENT ON FOREIGN DATA WRAPPER outbox_redis IS 'Redis or Valkey as a destination of outbox: streams, lists or channels';

CREATE FOREIGN DATA WRAPPER outbox_log NO HANDLER VALIDATOR outbox.log_validator;
COMMENT ON FOREIGN DATA WRAPPER outbox_log IS 'the server log as a destination of outbox: first steps with no broker';
-- ---------------------------------------------------------------------------------------------------------------------
-- Routes. The functions check everything that can be wrong and tell the workers at commit; the table is not for hands.
-- EXECUTE may be granted: the functions then work with the owner's rights on the tables, and ask for the caller's USAGE
-- on the server.
-- ---------------------------------------------------------------------------------------------------------------------

COMMENT ON SEQUENCE outbox.route_id_seq IS 'ids of routes';

CREATE FUNCTION outbox.create_route(
  name            text,
  server          text,
  aggregate_types text[]  DEFAULT '{*}',
  event_types     text[]  DEFAULT '{*}',
  topic           text    DEFAULT NULL,
  key             text    DEFAULT NULL,
  lanes           integer DEFAULT 1,
  start           text    DEFAULT 'now',
  options         jsonb   DEFAULT '{}',
  on_failure      text    DEFAULT 'skip',
  max_attempts    integer DEFAULT 10,
  backoff_base    interval DEFAULT '1 second',
  backoff_cap     interval DEFAULT '10 minutes'
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_create_route';
REVOKE ALL ON FUNCTION outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval) IS
  'sends matching events to a foreign server, starting at now, earliest or a timestamp; returns the id of the route';

CREATE FUNCTION outbox.alter_route(
  name            text,
  server          text    DEFAULT NULL,
  aggregate_types text[]  DEFAULT NULL,
  event_types     text[]  DEFAULT NULL,
  topic           text    DEFAULT NULL,
  key             text    DEFAULT NULL,
  lanes           integer DEFAULT NULL,
  options         jsonb   DEFAULT NULL,
  on_failure      text    DEFAULT NULL,
  max_attempts    integer DEFAULT NULL,
  backoff_base    interval DEFAULT NULL,
  backoff_cap     interval DEFAULT NULL
) RETURNS void
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_alter_route';
REVOKE ALL ON FUNCTION outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval) FROM PUBLIC;
COMMENT ON FUNCTION outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval) IS
  'changes a route, for events not sent yet; what is NULL stays as it is';

CREATE FUNCTION outbox.drop_route(name text) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_drop_route';
REVOKE ALL ON FUNCTION outbox.drop_route(text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.drop_route(text) IS 'ends a route; returns the number of its events that were never delivered';
-- ---------------------------------------------------------------------------------------------------------------------
-- Stopping and letting go: a route, a destination, a topic or a key of a route. What is paused loses nothing: it waits.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.pause(
  route          text DEFAULT NULL,
  server         text DEFAULT NULL,
  topic          text DEFAULT NULL,
  aggregate_type text DEFAULT NULL,
  aggregate_id   text DEFAULT NULL,
  reason         text DEFAULT NULL
) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_pause';
REVOKE ALL ON FUNCTION outbox.pause(text, text, text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.pause(text, text, text, text, text, text) IS
  'stops a route, a destination (server), a topic of a route, or a key of a route (aggregate_type and aggregate_id); false: it was paused already';

CREATE FUNCTION outbox.resume(
  route          text DEFAULT NULL,
  server         text DEFAULT NULL,
  topic          text DEFAULT NULL,
  aggregate_type text DEFAULT NULL,
  aggregate_id   text DEFAULT NULL,
  reason         text DEFAULT NULL
) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_resume';
REVOKE ALL ON FUNCTION outbox.resume(text, text, text, text, text, text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.resume(text, text, text, text, text, text) IS
  'lets go what pause() stopped under the same arguments; false: it was not paused';

GRANT SELECT ON outbox.pause TO pg_monitor;
-- ---------------------------------------------------------------------------------------------------------------------
-- What would go next. Reads with the relay workers' own reader; moves no position and takes nothing away.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.peek(
  route text,
  "limit" bigint DEFAULT 10
) RETURNS TABLE (
  lane           integer,
  created_at     timestamptz,
  id             uuid,
  aggregate_type text,
  aggregate_id   text,
  event_type     text,
  payload        bytea,
  content_type   text,
  headers        jsonb,
  topic          text,
  deliver_at     timestamptz
)
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_peek';
REVOKE ALL ON FUNCTION outbox.peek(text, bigint) FROM PUBLIC;
COMMENT ON FUNCTION outbox.peek(text, bigint) IS
  'the events that each lane of a route would send next, from what it last recorded as done, in its order; up to limit per lane, NULL for all';
-- ---------------------------------------------------------------------------------------------------------------------
-- Parked events and dead letters: looking at them, and acting on them. Every action leaves a row in outbox.audit.
-- Nobody but the owner and operators sees payloads and headers.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE VIEW outbox.dead_letter AS
  SELECT r.name AS route, p.id, p.created_at, p.aggregate_type, p.aggregate_id, p.event_type, p.topic, p.attempts,
         p.error_class, p.error_code, p.error_message, p.failed_at, p.parked_at, p.replay,
         pg_catalog.octet_length(p.payload) AS payload_bytes
  FROM outbox.parked p JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) p.route_id
  WHERE p.state OPERATOR(pg_catalog.=) 'dead';
GRANT SELECT ON outbox.dead_letter TO pg_monitor;
COMMENT ON VIEW outbox.dead_letter IS 'events that a destination would not take and that are not tried again until somebody says so';
COMMENT ON COLUMN outbox.dead_letter.route IS 'route';
COMMENT ON COLUMN outbox.dead_letter.id IS 'event id; what retry(), skip(), discard() and status() take';
COMMENT ON COLUMN outbox.dead_letter.created_at IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.aggregate_type IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.aggregate_id IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.event_type IS 'of the event';
COMMENT ON COLUMN outbox.dead_letter.topic IS 'where it was to go';
COMMENT ON COLUMN outbox.dead_letter.attempts IS 'how often it was refused';
COMMENT ON COLUMN outbox.dead_letter.error_class IS 'message: refused for good; solo-retry: refused alone, until the attempts were used up';
COMMENT ON COLUMN outbox.dead_letter.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.dead_letter.error_message IS 'for people';
COMMENT ON COLUMN outbox.dead_letter.failed_at IS 'when it failed last';
COMMENT ON COLUMN outbox.dead_letter.parked_at IS 'when it was first parked';
COMMENT ON COLUMN outbox.dead_letter.replay IS '0: the event itself; else the number of the replay';
COMMENT ON COLUMN outbox.dead_letter.payload_bytes IS 'size of its payload; NULL: a tombstone';

CREATE VIEW outbox.dead_letter_summary AS
  SELECT d.route, d.topic, d.error_class, d.error_code, pg_catalog.count(*) AS count,
         pg_catalog.min(coalesce(d.failed_at, d.parked_at)) AS oldest, pg_catalog.max(coalesce(d.failed_at, d.parked_at)) AS newest,
         (pg_catalog.array_agg(d.error_message ORDER BY d.created_at DESC))[1] AS sample_message,
         (pg_catalog.array_agg(d.id ORDER BY d.created_at DESC))[1] AS sample_id
  FROM outbox.dead_letter d
  GROUP BY d.route, d.topic, d.error_class, d.error_code;
GRANT SELECT ON outbox.dead_letter_summary TO pg_monitor;
COMMENT ON VIEW outbox.dead_letter_summary IS 'dead letters by route, topic and reason';
COMMENT ON COLUMN outbox.dead_letter_summary.route IS 'route';
COMMENT ON COLUMN outbox.dead_letter_summary.topic IS 'where they were to go';
COMMENT ON COLUMN outbox.dead_letter_summary.error_class IS 'message or solo-retry';
COMMENT ON COLUMN outbox.dead_letter_summary.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.dead_letter_summary.count IS 'how many';
COMMENT ON COLUMN outbox.dead_letter_summary.oldest IS 'when the first of them failed';
COMMENT ON COLUMN outbox.dead_letter_summary.newest IS 'when the last of them failed';
COMMENT ON COLUMN outbox.dead_letter_summary.sample_message IS 'what the destination said of the newest event';
COMMENT ON COLUMN outbox.dead_letter_summary.sample_id IS 'id of that event';

CREATE VIEW outbox.blocked_key AS
  SELECT r.name AS route, b.topic, b.aggregate_type, b.aggregate_id, b.waiting, b.oldest, h.id AS behind,
         h.state AS behind_state, h.attempts, h.error_class, h.error_code, h.error_message, h.due_at AS next_try,
         z.reason AS paused
  FROM (SELECT p.route_id, p.order_key, p.topic, p.aggregate_type, p.aggregate_id, pg_catalog.count(*) AS waiting,
               pg_catalog.min(p.created_at) AS oldest
        FROM outbox.parked p WHERE p.state OPERATOR(pg_catalog.=) 'blocked'
        GROUP BY p.route_id, p.order_key, p.topic, p.aggregate_type, p.aggregate_id) b
  JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) b.route_id
  LEFT JOIN LATERAL (
    SELECT q.* FROM outbox.parked q
    WHERE q.route_id OPERATOR(pg_catalog.=) b.route_id AND q.order_key OPERATOR(pg_catalog.=) b.order_key
      AND q.state OPERATOR(pg_catalog.=) 'retrying'
    UNION ALL
    SELECT q.* FROM outbox.parked q
    WHERE q.route_id OPERATOR(pg_catalog.=) b.route_id AND q.order_key OPERATOR(pg_catalog.=) b.order_key
      AND q.state OPERATOR(pg_catalog.=) 'dead' AND r.on_failure OPERATOR(pg_catalog.=) 'block'
    ORDER BY created_at, replay LIMIT 1) h ON true
  LEFT JOIN outbox.pause z ON z.route_id OPERATOR(pg_catalog.=) b.route_id
    AND z.aggregate_type OPERATOR(pg_catalog.=) b.aggregate_type AND z.aggregate_id OPERATOR(pg_catalog.=) b.aggregate_id;
GRANT SELECT ON outbox.blocked_key TO pg_monitor;
COMMENT ON VIEW outbox.blocked_key IS 'keys whose events wait, what they wait behind, and why';
COMMENT ON COLUMN outbox.blocked_key.route IS 'route';
COMMENT ON COLUMN outbox.blocked_key.topic IS 'resolved topic';
COMMENT ON COLUMN outbox.blocked_key.aggregate_type IS 'of the key';
COMMENT ON COLUMN outbox.blocked_key.aggregate_id IS 'of the key';
COMMENT ON COLUMN outbox.blocked_key.waiting IS 'how many events wait';
COMMENT ON COLUMN outbox.blocked_key.oldest IS 'created_at of the first of them';
COMMENT ON COLUMN outbox.blocked_key.behind IS 'id of the event that they wait behind; retry() or skip() it';
COMMENT ON COLUMN outbox.blocked_key.behind_state IS 'retrying, or dead on a route with on_failure => block';
COMMENT ON COLUMN outbox.blocked_key.attempts IS 'how often that event was refused';
COMMENT ON COLUMN outbox.blocked_key.error_class IS 'of its last failure';
COMMENT ON COLUMN outbox.blocked_key.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.blocked_key.error_message IS 'for people';
COMMENT ON COLUMN outbox.blocked_key.next_try IS 'when it is tried again; NULL: when somebody says so';
COMMENT ON COLUMN outbox.blocked_key.paused IS 'why the key is paused; NULL: it is not';

-- Everything of a parked event but what only its reader should see.
GRANT SELECT (route_id, lane, created_at, id, replay, state, order_key, due_at, sender, aggregate_type, aggregate_id,
  event_type, content_type, own_topic, topic, attempts, error_class, error_code, error_message, failed_at, parked_at)
  ON outbox.parked TO pg_monitor;
GRANT SELECT ON outbox.audit TO pg_monitor;

CREATE FUNCTION outbox.parked_content(
  id    uuid,
  route text DEFAULT NULL
) RETURNS TABLE (route text, created_at timestamptz, replay bigint, state text, payload bytea, payload_text text, content_type text, headers jsonb)
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_parked_content';
REVOKE ALL ON FUNCTION outbox.parked_content(uuid, text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.parked_content(uuid, text) IS
  'payload and headers of a parked event, one row per route; payload_text where the payload is UTF-8';

CREATE FUNCTION outbox.retry(
  id            uuid,
  route         text  DEFAULT NULL,
  reason        text  DEFAULT NULL,
  payload       jsonb DEFAULT NULL,
  headers       jsonb DEFAULT NULL,
  topic         text  DEFAULT NULL,
  payload_bytes bytea DEFAULT NULL
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_retry';
REVOKE ALL ON FUNCTION outbox.retry(uuid, text, text, jsonb, jsonb, text, bytea) FROM PUBLIC;
COMMENT ON FUNCTION outbox.retry(uuid, text, text, jsonb, jsonb, text, bytea) IS
  'has a parked event tried at once, on one route or on all where it is parked, with what is given here in place of its own; returns on how many';

CREATE FUNCTION outbox.skip(
  id     uuid,
  reason text,
  route  text DEFAULT NULL
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_skip';
REVOKE ALL ON FUNCTION outbox.skip(uuid, text, text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.skip(uuid, text, text) IS
  'gives a parked event up, whatever its state, and lets its key go on; returns on how many routes';

CREATE FUNCTION outbox.discard(
  id     uuid,
  reason text,
  route  text DEFAULT NULL
) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_discard';
REVOKE ALL ON FUNCTION outbox.discard(uuid, text, text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.discard(uuid, text, text) IS
  'gives a dead letter up; returns on how many routes';

-- Procedures: they commit after each batch. A filter that is NULL takes everything; aggregate_type, event_type, topic
-- and error may hold * for any run of characters.
CREATE PROCEDURE outbox.redrive(
  route          text        DEFAULT NULL,
  topic          text        DEFAULT NULL,
  aggregate_type text        DEFAULT NULL,
  aggregate_id   text        DEFAULT NULL,
  event_type     text        DEFAULT NULL,
  since          timestamptz DEFAULT NULL,
  until          timestamptz DEFAULT NULL,
  error          text        DEFAULT NULL,
  dry_run        boolean     DEFAULT false,
  batch          bigint      DEFAULT 1000,
  per_second     numeric     DEFAULT NULL,
  reason         text        DEFAULT NULL,
  INOUT events   bigint      DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_redrive';
REVOKE ALL ON PROCEDURE outbox.redrive(text, text, text, text, text, timestamptz, timestamptz, text, boolean, bigint, numeric, text, bigint) FROM PUBLIC;
COMMENT ON PROCEDURE outbox.redrive(text, text, text, text, text, timestamptz, timestamptz, text, boolean, bigint, numeric, text, bigint) IS
  'has dead letters tried again, oldest first, in batches that it commits; since and until: when they failed; error: class, code or message';

CREATE PROCEDURE outbox.discard_dead_letters(
  route          text        DEFAULT NULL,
  topic          text        DEFAULT NULL,
  aggregate_type text        DEFAULT NULL,
  aggregate_id   text        DEFAULT NULL,
  event_type     text        DEFAULT NULL,
  since          timestamptz DEFAULT NULL,
  until          timestamptz DEFAULT NULL,
  error          text        DEFAULT NULL,
  dry_run        boolean     DEFAULT true,
  batch          bigint      DEFAULT 1000,
  reason         text        DEFAULT NULL,
  INOUT events   bigint      DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_discard_dead_letters';
REVOKE ALL ON PROCEDURE outbox.discard_dead_letters(text, text, text, text, text, timestamptz, timestamptz, text, boolean, bigint, text, bigint) FROM PUBLIC;
COMMENT ON PROCEDURE outbox.discard_dead_letters(text, text, text, text, text, timestamptz, timestamptz, text, boolean, bigint, text, bigint) IS
  'gives dead letters up, in batches that it commits; the filters of redrive(); a dry run unless told otherwise';
-- ---------------------------------------------------------------------------------------------------------------------
-- Sending delivered events again, from the days that are still in the log.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE outbox.replay (
  number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  who        name        NOT NULL,
  route      text        NOT NULL,
  to_route   text        NOT NULL,
  filter     jsonb       NOT NULL,
  from_time  timestamptz NOT NULL,
  to_time    timestamptz NOT NULL,
  per_second numeric,
  matched    bigint      NOT NULL,
  copied     bigint      NOT NULL DEFAULT 0,
  copied_to  timestamptz,
  state      text        NOT NULL DEFAULT 'copying',
  reason     text,
  CONSTRAINT replay_state CHECK (state IN ('copying', 'interrupted', 'scheduled', 'cancelled'))
);
COMMENT ON TABLE outbox.replay IS 'replays: delivered events that people have had sent again; what of a replay is still to be sent is in outbox.parked under its number';
COMMENT ON SEQUENCE outbox.replay_number_seq IS 'numbers of replays';
COMMENT ON COLUMN outbox.replay.number IS 'what cancel_replay() takes, what the header outbox-replay says, and outbox.parked.replay';
COMMENT ON COLUMN outbox.replay.at IS 'when';
COMMENT ON COLUMN outbox.replay.who IS 'role that called';
COMMENT ON COLUMN outbox.replay.route IS 'route that had delivered the events';
COMMENT ON COLUMN outbox.replay.to_route IS 'route that sends them again';
COMMENT ON COLUMN outbox.replay.filter IS 'which of them, as given';
COMMENT ON COLUMN outbox.replay.from_time IS 'created_at of the first event that it may be';
COMMENT ON COLUMN outbox.replay.to_time IS 'and before which its last one was created';
COMMENT ON COLUMN outbox.replay.per_second IS 'how fast; NULL: as fast as it goes';
COMMENT ON COLUMN outbox.replay.matched IS 'how many';
COMMENT ON COLUMN outbox.replay.copied IS 'how many of them have been scheduled so far';
COMMENT ON COLUMN outbox.replay.copied_to IS 'created_at of the last of these: where it goes on after an interruption';
COMMENT ON COLUMN outbox.replay.state IS 'copying: a session is at it; interrupted: the call ended early, CALL outbox.replay(number => ..., dry_run => false) goes on; scheduled: all is copied; cancelled';
COMMENT ON COLUMN outbox.replay.reason IS 'why, as given';
GRANT SELECT ON outbox.replay TO pg_monitor;
SELECT pg_catalog.pg_extension_config_dump('outbox.replay', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.replay_number_seq', '');

CREATE PROCEDURE outbox.replay(
  since          timestamptz DEFAULT NULL,
  until          timestamptz DEFAULT NULL,
  aggregate_type text        DEFAULT NULL,
  aggregate_id   text        DEFAULT NULL,
  event_type     text        DEFAULT NULL,
  ids            uuid[]      DEFAULT NULL,
  route          text        DEFAULT NULL,
  to_route       text        DEFAULT NULL,
  dry_run        boolean     DEFAULT true,
  per_second     numeric     DEFAULT 100,
  reason         text        DEFAULT NULL,
  INOUT number   bigint      DEFAULT NULL,
  INOUT events   bigint      DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_replay';
REVOKE ALL ON PROCEDURE outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint) FROM PUBLIC;
COMMENT ON PROCEDURE outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint) IS
  'sends events that a route has delivered once more, to it or to another route, under their own ids and with the header outbox-replay; a dry run unless told otherwise. since and until are compared with created_at, whose clock may be some seconds ahead of the wall clock after a restart. Interrupted, it goes on when it is called with nothing but its number and dry_run => false';

CREATE FUNCTION outbox.cancel_replay(number bigint, reason text DEFAULT NULL) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_cancel_replay';
REVOKE ALL ON FUNCTION outbox.cancel_replay(bigint, text) FROM PUBLIC;
COMMENT ON FUNCTION outbox.cancel_replay(bigint, text) IS
  'ends a replay, also one that is being copied or was interrupted; what has not been sent yet will not be, but its dead letters stay; returns how many events that are';
-- ---------------------------------------------------------------------------------------------------------------------
-- Moving a route.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE PROCEDURE outbox.seek(
  route             text,
  at                timestamptz,
  reason            text    DEFAULT NULL,
  dry_run           boolean DEFAULT false,
  INOUT again       bigint  DEFAULT NULL,
  INOUT passed_over bigint  DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_seek';
REVOKE ALL ON PROCEDURE outbox.seek(text, timestamptz, text, boolean, bigint, bigint) FROM PUBLIC;
COMMENT ON PROCEDURE outbox.seek(text, timestamptz, text, boolean, bigint, bigint) IS
  'moves a route to a moment (infinity: behind the newest event): it sends again what it has delivered since, and passes over what it has not delivered of before; returns how many of each. Parked events stay parked: they are tried, wait or are dead as before. The moment is compared with created_at, whose clock may be some seconds ahead of the wall clock after a restart';
-- ---------------------------------------------------------------------------------------------------------------------
-- Looking: what waits, who works, what became of one event. pg_monitor may look; nothing here shows a payload.
-- Functions whose names begin with _ are for the views.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox._lag(
  OUT route text, OUT lane integer, OUT side integer, OUT topic text, OUT server text, OUT state text,
  OUT pending bigint, OUT pending_capped boolean,
  OUT oldest_pending timestamptz, OUT delay interval, OUT delivered_to timestamptz, OUT inflight bigint,
  OUT parked bigint, OUT parked_capped boolean, OUT next_try timestamptz, OUT error_class text, OUT error_code text, OUT error_message text,
  OUT error_since timestamptz
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_lag';
REVOKE ALL ON FUNCTION outbox._lag() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox._lag() TO pg_monitor;
COMMENT ON FUNCTION outbox._lag() IS 'behind the view outbox.lag';

CREATE VIEW outbox.lag AS
  SELECT l.route, l.lane, l.side, l.topic, l.server, l.state, l.pending, l.pending_capped, l.oldest_pending, l.delay, l.delivered_to,
         l.inflight, l.parked, l.parked_capped, l.next_try, l.error_class, l.error_code, l.error_message, l.error_since
  FROM outbox._lag() l;
GRANT SELECT ON outbox.lag TO pg_monitor;
COMMENT ON VIEW outbox.lag IS 'every lane of every route: how much waits, since when, and what is in the way; topics that have left their lane have rows of their own';
COMMENT ON COLUMN outbox.lag.route IS 'route';
COMMENT ON COLUMN outbox.lag.lane IS 'number within the route, from 0';
COMMENT ON COLUMN outbox.lag.side IS 'number of a side lane, which serves topics that have left the lane; NULL: the lane itself';
COMMENT ON COLUMN outbox.lag.topic IS 'the topics of a side lane';
COMMENT ON COLUMN outbox.lag.server IS 'destination';
COMMENT ON COLUMN outbox.lag.state IS 'what its relay worker is doing; unowned: no worker has it';
COMMENT ON COLUMN outbox.lag.pending IS 'committed events that were not read yet or are under way, counted in the log; parked ones are not among them';
COMMENT ON COLUMN outbox.lag.pending_capped IS 'counting stopped after 300,000 events of the route: there are at least as many as pending says';
COMMENT ON COLUMN outbox.lag.oldest_pending IS 'created_at of the oldest of them';
COMMENT ON COLUMN outbox.lag.delay IS 'age of the oldest of them; NULL: nothing waits';
COMMENT ON COLUMN outbox.lag.delivered_to IS 'created_at of the last event delivered without a gap, since the worker took the lane';
COMMENT ON COLUMN outbox.lag.inflight IS 'read from the log and not yet acknowledged';
COMMENT ON COLUMN outbox.lag.parked IS 'events of this lane in outbox.parked';
COMMENT ON COLUMN outbox.lag.parked_capped IS 'counting stopped after 10,000 events of a lane and state: there are at least as many as parked says';
COMMENT ON COLUMN outbox.lag.next_try IS 'while backing off: when it tries again';
COMMENT ON COLUMN outbox.lag.error_class IS 'what is in the way: topic, destination, config, ...; NULL: nothing';
COMMENT ON COLUMN outbox.lag.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.lag.error_message IS 'for people';
COMMENT ON COLUMN outbox.lag.error_since IS 'since when';

CREATE FUNCTION outbox._destination(
  OUT server text, OUT wrapper text, OUT state text, OUT since timestamptz, OUT next_try timestamptz, OUT workers bigint,
  OUT trips bigint, OUT deaths bigint, OUT error_class text, OUT error_code text, OUT error_message text,
  OUT paused_by text, OUT pause_reason text
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_destination';
REVOKE ALL ON FUNCTION outbox._destination() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox._destination() TO pg_monitor;
COMMENT ON FUNCTION outbox._destination() IS 'behind the view outbox.destination';

CREATE VIEW outbox.destination AS
  SELECT d.server, d.wrapper, d.state, d.since, d.next_try, d.workers, d.trips, d.deaths, d.error_class, d.error_code,
         d.error_message, d.paused_by, d.pause_reason
  FROM outbox._destination() d;
GRANT SELECT ON outbox.destination TO pg_monitor;
COMMENT ON VIEW outbox.destination IS 'every destination, and its circuit breaker; of several relay workers the one that is worst off';
COMMENT ON COLUMN outbox.destination.server IS 'foreign server';
COMMENT ON COLUMN outbox.destination.wrapper IS 'foreign-data wrapper: outbox_kafka, outbox_redis or outbox_log';
COMMENT ON COLUMN outbox.destination.state IS 'closed: events go there; open: nothing is sent until next_try; half-open: a small batch is being tried, for seconds at most while the destination is down; paused: by outbox.pause(); unused: no relay worker has events for it';
COMMENT ON COLUMN outbox.destination.since IS 'in this state since';
COMMENT ON COLUMN outbox.destination.next_try IS 'while open: when it is tried again; sooner where the destination comes back before';
COMMENT ON COLUMN outbox.destination.workers IS 'relay workers that use it';
COMMENT ON COLUMN outbox.destination.trips IS 'how often it opened since these workers use it';
COMMENT ON COLUMN outbox.destination.deaths IS 'how often a sink process ended unasked since then';
COMMENT ON COLUMN outbox.destination.error_class IS 'why it is not closed, or of a warning; NULL: all is well';
COMMENT ON COLUMN outbox.destination.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox.destination.error_message IS 'for people';
COMMENT ON COLUMN outbox.destination.paused_by IS 'role that paused it; NULL: nobody';
COMMENT ON COLUMN outbox.destination.pause_reason IS 'as given';

CREATE FUNCTION outbox._worker(
  OUT kind text, OUT pid integer, OUT database text, OUT ordinal integer, OUT since timestamptz, OUT lanes bigint,
  OUT state text
) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_worker';
REVOKE ALL ON FUNCTION outbox._worker() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox._worker() TO pg_monitor;
COMMENT ON FUNCTION outbox._worker() IS 'behind the view outbox.worker';

CREATE VIEW outbox.worker AS
  SELECT w.kind, w.pid, w.database, w.ordinal, w.since, w.lanes, w.state, a.wait_event_type, a.wait_event
  FROM outbox._worker() w LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) w.pid;
GRANT SELECT ON outbox.worker TO pg_monitor;
COMMENT ON VIEW outbox.worker IS 'background processes of the extension, of all databases of the server';
COMMENT ON COLUMN outbox.worker.kind IS 'launcher, keeper or relay';
COMMENT ON COLUMN outbox.worker.pid IS 'process id; NULL while it starts';
COMMENT ON COLUMN outbox.worker.database IS 'NULL for the launcher';
COMMENT ON COLUMN outbox.worker.ordinal IS 'number among the relay workers of one database, from 0';
COMMENT ON COLUMN outbox.worker.since IS 'when it was started';
COMMENT ON COLUMN outbox.worker.lanes IS 'lanes that a relay worker owns';
COMMENT ON COLUMN outbox.worker.state IS 'starting, running or stopping';
COMMENT ON COLUMN outbox.worker.wait_event_type IS 'as in pg_stat_activity';
COMMENT ON COLUMN outbox.worker.wait_event IS 'as in pg_stat_activity';

CREATE FUNCTION outbox.status(
  id uuid, OUT route text, OUT lane integer, OUT state text, OUT created_at timestamptz, OUT topic text,
  OUT attempts integer, OUT error_class text, OUT error_code text, OUT error_message text, OUT error_since timestamptz,
  OUT next_try timestamptz, OUT delivered_at timestamptz, OUT place text, OUT places jsonb, OUT window_from pg_snapshot,
  OUT window_to pg_snapshot, OUT replay bigint, OUT reason text
) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_status';
REVOKE ALL ON FUNCTION outbox.status(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox.status(uuid) TO pg_monitor;
COMMENT ON FUNCTION outbox.status(uuid) IS
  'one row per route that the event matches, and per replay: uncommitted (by this transaction), pending, paused, delivered, retrying, blocked, scheduled, dead, skipped or discarded; not routed where it matches none; no row where there is no such event. Delivered: place is where exactly, places the first and last offset or stream id of its window (window_from, window_to). attempts counts refusals; error_* is the last of them, of an event that is pending what is in its lane''s way. reason: why it was paused, skipped or discarded, or whom it waits behind';

CREATE FUNCTION outbox.version() RETURNS text
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_version';
REVOKE ALL ON FUNCTION outbox.version() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox.version() TO pg_monitor;
COMMENT ON FUNCTION outbox.version() IS 'versions of the loaded library and of the installed extension; they should be equal';

GRANT USAGE ON SCHEMA outbox TO pg_monitor;
-- ---------------------------------------------------------------------------------------------------------------------
-- Waiting, for tests and scripts: not for the path of a request, where a broker's trouble would become the caller's.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.wait_for(id uuid, timeout interval DEFAULT '10 s') RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_wait_for';
REVOKE ALL ON FUNCTION outbox.wait_for(uuid, interval) FROM PUBLIC;
COMMENT ON FUNCTION outbox.wait_for(uuid, interval) IS
  'waits until a committed event is delivered or dead on every route that it matches; false: not within the timeout';

CREATE FUNCTION outbox.wait_until_idle(timeout interval DEFAULT '30 s') RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_wait_until_idle';
REVOKE ALL ON FUNCTION outbox.wait_until_idle(interval) FROM PUBLIC;
COMMENT ON FUNCTION outbox.wait_until_idle(interval) IS
  'waits until every event committed before the call is delivered to each route, or dead; false: not within the timeout';
-- ---------------------------------------------------------------------------------------------------------------------
-- What is wrong, and what to do about it.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.doctor(OUT "check" text, OUT status text, OUT detail text, OUT hint text) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_doctor';
REVOKE ALL ON FUNCTION outbox.doctor() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox.doctor() TO pg_monitor;
COMMENT ON FUNCTION outbox.doctor() IS
  'looks at settings, workers, day tables, routes and lanes; status is ok, warning, or problem where events are not published';
-- ---------------------------------------------------------------------------------------------------------------------
-- Who may act on parked events, pause, replay and move routes. One line instead of a page of grants. An operator also
-- sees what pg_monitor sees here, and the content of parked events; the functions work with the owner's rights on the
-- tables, and outbox.audit keeps who called.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._operate_grants() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT format('EXECUTE ON ROUTINE %s', p.oid::regprocedure) FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = 'outbox'::regnamespace
    AND p.proname IN ('pause', 'resume', 'retry', 'skip', 'discard', 'redrive', 'discard_dead_letters', 'parked_content',
                      'replay', 'cancel_replay', 'seek')
  UNION ALL
  SELECT format('EXECUTE ON ROUTINE %s', p.oid::regprocedure)
  FROM pg_catalog.pg_proc p, LATERAL aclexplode(p.proacl) x
  WHERE p.pronamespace = 'outbox'::regnamespace AND x.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = 'pg_monitor')
  UNION ALL
  SELECT format('SELECT ON %s', c.oid::regclass) FROM pg_catalog.pg_class c, LATERAL aclexplode(c.relacl) x
  WHERE c.relnamespace = 'outbox'::regnamespace AND x.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = 'pg_monitor')
  UNION ALL
  SELECT format('SELECT (%s) ON %s', string_agg(a.attname, ', ' ORDER BY a.attnum), a.attrelid::regclass)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid, LATERAL aclexplode(a.attacl) x
  WHERE c.relnamespace = 'outbox'::regnamespace AND x.grantee = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = 'pg_monitor')
  GROUP BY a.attrelid;
END;
COMMENT ON FUNCTION outbox._operate_grants() IS 'what grant_operate() grants';

CREATE FUNCTION outbox.grant_operate(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $grant$
DECLARE
  what text;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to grant to.', HINT = 'Pass a role name, such as ''oncall''.';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA outbox TO %s', role);
  FOR what IN SELECT * FROM outbox._operate_grants() LOOP
    EXECUTE format('GRANT %s TO %s', what, role);
  END LOOP;
END
$grant$;
COMMENT ON FUNCTION outbox.grant_operate(regrole) IS 'lets a role look, read and act on parked events, pause and resume, replay and seek';

CREATE FUNCTION outbox.revoke_operate(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
  what text;
BEGIN
  IF role IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'role must not be null',
      DETAIL = 'Without a role there is nobody to revoke from.', HINT = 'Pass a role name, such as ''oncall''.';
  END IF;
  FOR what IN SELECT * FROM outbox._operate_grants() LOOP
    EXECUTE format('REVOKE %s FROM %s', what, role);
  END LOOP;
  -- Not USAGE on the schema: the role may have been given more than operating.
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_operate(regrole) IS 'takes back what grant_operate() granted, except USAGE on the schema';
-- ---------------------------------------------------------------------------------------------------------------------
-- A subscription to somebody else's outbox (FOR ALL TABLES takes it along): his routes, positions, parked events and
-- identity are not ours, and rows of ours are not his to change. Only the log's rows are kept, see 24_log_guard.sql.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox._ignore_replicated() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_ignore_replicated';
COMMENT ON FUNCTION outbox._ignore_replicated() IS 'drops what a subscription would write into the tables of outbox';

DO $ignore$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT c.relname FROM pg_catalog.pg_class c
    WHERE c.relnamespace OPERATOR(pg_catalog.=) 'outbox'::pg_catalog.regnamespace
      AND (c.relkind OPERATOR(pg_catalog.=) 'r' OR c.relkind OPERATOR(pg_catalog.=) 'p')
      AND c.relname OPERATOR(pg_catalog.<>) 'log' AND c.relname OPERATOR(pg_catalog.<>) 'foreign_event'
  LOOP
    EXECUTE pg_catalog.format('CREATE TRIGGER ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON outbox.%I '
      'FOR EACH ROW EXECUTE FUNCTION outbox._ignore_replicated()', name);
    EXECUTE pg_catalog.format('ALTER TABLE outbox.%I ENABLE REPLICA TRIGGER ignore_replicated', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER ignore_replicated ON outbox.%I IS %L', name,
      'drops what a subscription brings; fires for nothing else');
  END LOOP;
END
$ignore$;
-- ---------------------------------------------------------------------------------------------------------------------
-- Background workers.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.look_again() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_look_again';
COMMENT ON FUNCTION outbox.look_again() IS 'has the launcher look at this database when the transaction commits';

-- search_path is pinned here and names are qualified inside all the same.
CREATE FUNCTION outbox.adopt(keep_positions boolean DEFAULT false) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'outbox_adopt';
COMMENT ON FUNCTION outbox.adopt(boolean) IS 'makes a copied or restored outbox publish from here: lanes start from now or, with keep_positions (after pg_upgrade, or where a copy of the files takes the original''s place), go on where they were; events that came through a restore or replication are emitted anew under their own ids; returns how many';

-- A new extension is found at commit.
SELECT outbox.look_again();
-- ---------------------------------------------------------------------------------------------------------------------
-- Last: PUBLIC gets nothing, whatever the sections above made. The input and output of json_arg stay open, because casts
-- run them with the caller's rights; they do nothing but check JSON.
-- ---------------------------------------------------------------------------------------------------------------------
REVOKE ALL ON ALL TABLES IN SCHEMA outbox FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA outbox FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA outbox FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox.json_arg_in(cstring), outbox.json_arg_out(outbox.json_arg),
  outbox.json_arg_recv(internal), outbox.json_arg_send(outbox.json_arg) TO PUBLIC;

DO $tell$
BEGIN
  IF NOT outbox._preloaded() THEN
    RAISE WARNING USING MESSAGE = 'outbox is installed, but not preloaded: events are stored, and nothing publishes them',
      ERRCODE = 'object_not_in_prerequisite_state',
      HINT = 'Add outbox to shared_preload_libraries in postgresql.conf and restart: shared_preload_libraries = ''outbox''';
  END IF;
END
$tell$;
