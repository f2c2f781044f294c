-- ---------------------------------------------------------------------------------------------------------------------
-- Parked events: refused, waiting behind a refused one, or not due yet. Written by lanes and by the functions of
-- 36_parked.sql. Unlike the log these tables live by UPDATE and DELETE: what is here is the exception.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE outbox_internal.parked (
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
  xid            xid8,
  due_since      timestamptz,
  deliver_at     timestamptz,
  PRIMARY KEY (route_id, created_at, id, replay),
  CONSTRAINT parked_state CHECK (state IN ('retrying', 'blocked', 'scheduled', 'dead')),
  CONSTRAINT parked_due CHECK ((due_at IS NOT NULL) = (state IN ('retrying', 'scheduled')))
) USING heap WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
-- What is due, by the workers that may send it; what waits behind what, and which keys are held; dead letters; single
-- events. A state is only in the index that is searched for it: a million blocked or dead rows slow nothing.
CREATE INDEX parked_due_idx ON outbox_internal.parked (route_id, lane, due_at, created_at) WHERE due_at IS NOT NULL AND order_key IS NOT NULL;
CREATE INDEX parked_shared_idx ON outbox_internal.parked (route_id, due_at, created_at) WHERE due_at IS NOT NULL AND order_key IS NULL;
CREATE INDEX parked_key_idx ON outbox_internal.parked (route_id, order_key, created_at, replay, id) WHERE order_key IS NOT NULL AND state IN ('retrying', 'blocked');
CREATE INDEX parked_dead_idx ON outbox_internal.parked (route_id, order_key, created_at, replay, id) WHERE state = 'dead';
CREATE INDEX parked_id_idx ON outbox_internal.parked (id);
-- State first: a claim, which asks by route and lane, must not take it for an index of what is due.
CREATE INDEX parked_count_idx ON outbox_internal.parked (state, route_id, lane);
CREATE INDEX parked_replay_idx ON outbox_internal.parked (replay) WHERE replay <> 0;
COMMENT ON TABLE outbox_internal.parked IS 'events that a destination refused, that wait behind such a one, or that are not due yet; with a full copy';
COMMENT ON INDEX outbox_internal.parked_due_idx IS 'what is tried next: events with a key, by their lane''s owner';
COMMENT ON INDEX outbox_internal.parked_shared_idx IS 'what is tried next: events without a key, by any worker that owns a lane of the route';
COMMENT ON INDEX outbox_internal.parked_key_idx IS 'who waits behind whom';
COMMENT ON INDEX outbox_internal.parked_dead_idx IS 'dead letters, by key';
COMMENT ON INDEX outbox_internal.parked_id_idx IS 'for status(), retry(), skip()';
COMMENT ON INDEX outbox_internal.parked_count_idx IS 'for counting: outbox.lag, doctor()';
COMMENT ON INDEX outbox_internal.parked_replay_idx IS 'what is left of a replay';
COMMENT ON COLUMN outbox_internal.parked.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.parked.lane IS 'lane that owns it; of an event without a key: the lane that parked it or sent it last';
COMMENT ON COLUMN outbox_internal.parked.created_at IS 'of the event';
COMMENT ON COLUMN outbox_internal.parked.id IS 'event id';
COMMENT ON COLUMN outbox_internal.parked.replay IS '0: the event itself; else the number of the replay that brought it here';
COMMENT ON COLUMN outbox_internal.parked.state IS 'retrying: tried again at due_at; blocked: behind an event of its key, or its key is paused; scheduled: delivered at due_at; dead: not tried again until somebody says so';
COMMENT ON COLUMN outbox_internal.parked.order_key IS 'hash of topic, aggregate type and id: events of one key go in order; NULL: no key';
COMMENT ON COLUMN outbox_internal.parked.due_at IS 'next try of a retrying, time of a scheduled event';
COMMENT ON COLUMN outbox_internal.parked.sender IS 'incarnation of the relay worker that is sending it just now; one that is not alive does not count';
COMMENT ON COLUMN outbox_internal.parked.aggregate_type IS 'of the event';
COMMENT ON COLUMN outbox_internal.parked.aggregate_id IS 'of the event';
COMMENT ON COLUMN outbox_internal.parked.event_type IS 'of the event';
COMMENT ON COLUMN outbox_internal.parked.payload IS 'of the event';
COMMENT ON COLUMN outbox_internal.parked.content_type IS 'of the event';
COMMENT ON COLUMN outbox_internal.parked.headers IS 'of the event';
COMMENT ON COLUMN outbox_internal.parked.own_topic IS 'explicit topic of the event; NULL: the route''s template, as it is when the event is tried';
COMMENT ON COLUMN outbox_internal.parked.topic IS 'resolved topic when it was parked';
COMMENT ON COLUMN outbox_internal.parked.attempts IS 'how often it was refused; trouble of topic or destination does not count';
COMMENT ON COLUMN outbox_internal.parked.error_class IS 'of the last failure: message, solo-retry, topic, ...; NULL: none';
COMMENT ON COLUMN outbox_internal.parked.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox_internal.parked.error_message IS 'for people';
COMMENT ON COLUMN outbox_internal.parked.failed_at IS 'when it failed last';
COMMENT ON COLUMN outbox_internal.parked.parked_at IS 'when it came here';
COMMENT ON COLUMN outbox_internal.parked.xid IS 'as in outbox_internal.log; NULL: it came here under an older version, or with a dump';
COMMENT ON COLUMN outbox_internal.parked.due_since IS 'of one that was blocked when it fell due: its time then; NULL: it may go since it was emitted, or since its deliver_at, for all that is its own';
COMMENT ON COLUMN outbox_internal.parked.deliver_at IS 'of the event, as in outbox_internal.log; NULL: it has none, or came here under an older version or with a dump of one';

CREATE TABLE outbox_internal.outcome (
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
  error_message text,
  lane         integer,
  order_key    bigint,
  xid          xid8,
  run          text,
  acknowledged bigint[]
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox_internal.outcome IS 'history of what became of parked events; one table a day, dropped with the log; rows are inserted; outbox.forget() settles its own once, and outbox.reset_clock() dates those of the future anew, no more';
COMMENT ON COLUMN outbox_internal.outcome.at IS 'when: a reading of the shared clock';
COMMENT ON COLUMN outbox_internal.outcome.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.outcome.created_at IS 'of the event';
COMMENT ON COLUMN outbox_internal.outcome.id IS 'event id';
COMMENT ON COLUMN outbox_internal.outcome.replay IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.outcome.outcome IS 'delivered, skipped or discarded; lost: the destination no longer has what it was given before, and is sent it again';
COMMENT ON COLUMN outbox_internal.outcome.attempts IS 'how often it was refused before';
COMMENT ON COLUMN outbox_internal.outcome.topic IS 'resolved topic';
COMMENT ON COLUMN outbox_internal.outcome.error_class IS 'of the last failure before that; NULL: none';
COMMENT ON COLUMN outbox_internal.outcome.error_code IS 'the destination''s own code';
COMMENT ON COLUMN outbox_internal.outcome.error_message IS 'for people';
COMMENT ON COLUMN outbox_internal.outcome.place IS 'partition and offset, or stream id; NULL: not delivered, or the destination did not say, or told of several events of one key together';
COMMENT ON COLUMN outbox_internal.outcome.lane IS 'lane that delivered it';
COMMENT ON COLUMN outbox_internal.outcome.order_key IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.outcome.xid IS 'as in outbox_internal.parked';
COMMENT ON COLUMN outbox_internal.outcome.run IS 'which life of the Redis server acknowledged it, see outbox_internal.server_run; NULL: the destination does not tell';
COMMENT ON COLUMN outbox_internal.outcome.acknowledged IS 'both numbers of its stream id, or of the last one of those of its key that were sent together; NULL: run is';

-- A topic in trouble leaves its lane: a side lane with a position of its own reads it from the same log.
CREATE TABLE outbox_internal.side_lane (
  route_id    bigint  NOT NULL,
  lane        integer NOT NULL,
  side        integer NOT NULL,
  since       timestamptz NOT NULL,
  window_from pg_snapshot NOT NULL,
  window_to   pg_snapshot,
  done_to     timestamptz,
  topic_template text NOT NULL,
  PRIMARY KEY (route_id, lane, side),
  FOREIGN KEY (route_id, lane) REFERENCES outbox_internal.lane (route_id, lane) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT side_lane_number CHECK (side > 0)
) USING heap;
COMMENT ON TABLE outbox_internal.side_lane IS 'reading positions of topics that are in trouble or paused; they belong to their lane''s owner';
COMMENT ON COLUMN outbox_internal.side_lane.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.side_lane.lane IS 'lane that it left';
COMMENT ON COLUMN outbox_internal.side_lane.side IS 'number, from 1';
COMMENT ON COLUMN outbox_internal.side_lane.since IS 'reading of the shared clock at the fork: older rows of outbox_internal.progress are another one''s';
COMMENT ON COLUMN outbox_internal.side_lane.window_from IS 'position where outbox_internal.progress has no newer row';
COMMENT ON COLUMN outbox_internal.side_lane.window_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.side_lane.done_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.side_lane.topic_template IS 'the route''s when the first topic left: it decides which events are whose until all are back';

CREATE TABLE outbox_internal.side_topic (
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
  FOREIGN KEY (route_id, lane, side) REFERENCES outbox_internal.side_lane (route_id, lane, side) ON DELETE CASCADE ON UPDATE CASCADE
) USING heap;
COMMENT ON TABLE outbox_internal.side_topic IS 'topics that side lanes serve; nearly always one to a side lane';
COMMENT ON COLUMN outbox_internal.side_topic.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.side_topic.lane IS 'lane';
COMMENT ON COLUMN outbox_internal.side_topic.topic IS 'resolved topic';
COMMENT ON COLUMN outbox_internal.side_topic.side IS 'side lane that serves it';
COMMENT ON COLUMN outbox_internal.side_topic.start_from IS 'events up to this position are not the side lane''s';
COMMENT ON COLUMN outbox_internal.side_topic.start_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.side_topic.start_done_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.side_topic.error_class IS 'why it left its lane: topic, or paused';
COMMENT ON COLUMN outbox_internal.side_topic.error_code IS 'the destination''s own code, or PAUSED';
COMMENT ON COLUMN outbox_internal.side_topic.error_message IS 'for people';
COMMENT ON COLUMN outbox_internal.side_topic.forked_at IS 'since when';

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
) USING heap;
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
) USING heap;
CREATE INDEX audit_at_idx ON outbox.audit (at);
CREATE INDEX audit_event_idx ON outbox.audit (event_id) WHERE event_id IS NOT NULL;
COMMENT ON TABLE outbox.audit IS 'what people did, and where a worker put a lane back: one row per action, never changed';
COMMENT ON INDEX outbox.audit_at_idx IS 'by time';
COMMENT ON INDEX outbox.audit_event_idx IS 'by event';
COMMENT ON COLUMN outbox.audit.at IS 'when';
COMMENT ON COLUMN outbox.audit.who IS 'role that called; of a worker: the owner of the extension';
COMMENT ON COLUMN outbox.audit.action IS 'create_route, alter_route, drop_route; alter server, create, alter or drop user mapping, of a server that a route uses; retry, redrive, skip, discard, replay, cancel_replay, seek, drop_expired, pause, resume, forget; adopt, reset_clock, allow_loss (something was let go, or changed by hand); grant_emit, revoke_emit, grant_operate, revoke_operate; rewind and lost writes by a worker';
COMMENT ON COLUMN outbox.audit.route IS 'name of the route then';
COMMENT ON COLUMN outbox.audit.event_id IS 'event, where it was one';
COMMENT ON COLUMN outbox.audit.detail IS 'what exactly: filters, counts, what was changed from what to what, what was left unsent; role: whose rights were used, where it is not the role that called; never a secret';
COMMENT ON COLUMN outbox.audit.reason IS 'why, as given';

SELECT pg_catalog.pg_extension_config_dump('outbox_internal.parked', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.side_lane', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.side_topic', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.pause', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.pause_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.audit', '');
