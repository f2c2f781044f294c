-- ---------------------------------------------------------------------------------------------------------------------
-- Tables. Day tables (outbox_internal.log_YYYYMMDD, progress_YYYYMMDD, tick_YYYYMMDD) are made by the keeper or at
-- first use, never here: a day table made by this script would be a member of the extension and could not be dropped.
-- No index and no key on a partitioned parent: they break dump and restore.
-- ---------------------------------------------------------------------------------------------------------------------

REVOKE ALL ON SCHEMA outbox FROM PUBLIC;
COMMENT ON SCHEMA outbox IS 'transactional outbox: events written in a transaction, published by background workers';

CREATE TABLE outbox_internal.log (
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
COMMENT ON TABLE outbox_internal.log IS 'append-only log of events, one day table per UTC day; written by outbox.emit() only';
COMMENT ON COLUMN outbox_internal.log.created_at IS 'reading of the hybrid clock: strictly increasing over all sessions of the database';
COMMENT ON COLUMN outbox_internal.log.id IS 'event id on the wire: UUIDv7 made from created_at, or the id that the client gave';
COMMENT ON COLUMN outbox_internal.log.xid IS 'top-level transaction id of the emitting transaction';
COMMENT ON COLUMN outbox_internal.log.aggregate_type IS 'kind of thing the event is about';
COMMENT ON COLUMN outbox_internal.log.aggregate_id IS 'ordering and partition key; NULL: no key, no order';
COMMENT ON COLUMN outbox_internal.log.event_type IS 'what happened';
COMMENT ON COLUMN outbox_internal.log.payload IS 'exact bytes to publish (UTF-8 for JSON); NULL is a tombstone';
COMMENT ON COLUMN outbox_internal.log.content_type IS 'media type of the payload; NULL for JSON';
COMMENT ON COLUMN outbox_internal.log.headers IS 'flat object of strings; NULL for none';
COMMENT ON COLUMN outbox_internal.log.topic IS 'explicit topic; NULL for the route''s own template';
COMMENT ON COLUMN outbox_internal.log.deliver_at IS 'not to be delivered before this time; NULL: at once';

-- Takes an event when the table of its day is not there and cannot be made at once. No partition: a session that
-- attaches one holds a lock until his transaction ends, a default partition is locked by each that is attached, and any
-- other bounds would be untrue.
CREATE TABLE outbox_internal.log_spare (LIKE outbox_internal.log INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING COMMENTS) USING heap
  WITH (fillfactor = 100, autovacuum_enabled = false, toast.autovacuum_enabled = false);
CREATE INDEX log_spare_xid ON outbox_internal.log_spare USING btree (xid);
COMMENT ON TABLE outbox_internal.log_spare IS 'a part of the log beside its day tables: events whose day had no table, and no background worker was free to make it; read like the log, and emptied as a whole when all of it has expired';

-- Keys that emit once. No unique index: a key is one over all days, and emit() sees to that.
CREATE TABLE outbox_internal.emit_key (
  at     timestamptz NOT NULL,
  digest bytea       NOT NULL,
  id     uuid        NOT NULL
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox_internal.emit_key IS 'what dedupe_key of emit() has emitted, by days, for outbox.dedupe_retention; to free a key, delete its row';
COMMENT ON COLUMN outbox_internal.emit_key.at IS 'created_at of the event';
COMMENT ON COLUMN outbox_internal.emit_key.digest IS 'SHA-256 of topic (as outbox.grant_emit() counts it), a zero byte and key, in UTF-8: nobody reads a key here';
COMMENT ON COLUMN outbox_internal.emit_key.id IS 'id of the event';
CREATE TABLE outbox_internal.emit_key_spare (LIKE outbox_internal.emit_key INCLUDING COMMENTS) USING heap WITH (fillfactor = 100, autovacuum_enabled = false);
CREATE INDEX emit_key_spare_digest ON outbox_internal.emit_key_spare USING btree (digest);
CREATE INDEX emit_key_spare_at ON outbox_internal.emit_key_spare USING btree (at);
COMMENT ON TABLE outbox_internal.emit_key_spare IS 'keys whose day had no table; emptied as a whole when all of them have expired';
COMMENT ON INDEX outbox_internal.emit_key_spare_digest IS 'how emit() finds a key';
COMMENT ON INDEX outbox_internal.emit_key_spare_at IS 'how the keeper finds the newest';

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
  format          text        NOT NULL DEFAULT 'outbox',
  CONSTRAINT route_on_failure CHECK (on_failure IN ('skip', 'block'))
) USING heap;
COMMENT ON TABLE outbox.route IS 'which events go to which destination, under which topic; change through create_route, alter_route, drop_route';
COMMENT ON COLUMN outbox.route.id IS 'a route made later under the same name is a new one, with a new id';
COMMENT ON COLUMN outbox.route.name IS 'name for people';
COMMENT ON COLUMN outbox.route.server IS 'foreign server of one of the wrappers of outbox: outbox_kafka, for example';
COMMENT ON COLUMN outbox.route.aggregate_types IS 'patterns with * for any run of characters; an event matches if one of them does';
COMMENT ON COLUMN outbox.route.event_types IS 'patterns, likewise';
COMMENT ON COLUMN outbox.route.topic IS 'topic template: {aggregate_type}, {event_type}, modifiers :kebab and :lower';
COMMENT ON COLUMN outbox.route.key IS 'key template';
COMMENT ON COLUMN outbox.route.lanes IS 'number of lanes that keys are hashed over';
COMMENT ON COLUMN outbox.route.lanes_wanted IS 'number of lanes it will have; NULL: it has them';
COMMENT ON COLUMN outbox.route.lanes_begun IS 'since when its lanes come to rest for that; NULL: they work as ever';
COMMENT ON COLUMN outbox.route.common_snapshot IS 'where all its lanes come to rest before their number changes; NULL: they do not, or have to be given back first';
COMMENT ON COLUMN outbox.route.options IS 'topics_known; options of the destination kind, for Redis: mode (stream, list, publish); options of the format';
COMMENT ON COLUMN outbox.route.start_snapshot IS 'where it started: an event that is visible here and created before start_time is none of this route''s';
COMMENT ON COLUMN outbox.route.start_time IS 'infinity: it started at now; -infinity: at the earliest event';
COMMENT ON COLUMN outbox.route.on_failure IS 'skip: a dead letter lets its key go on; block: later events of the key wait behind it until somebody acts';
COMMENT ON COLUMN outbox.route.max_attempts IS 'how often an event is tried that is refused, and not for good';
COMMENT ON COLUMN outbox.route.backoff_base IS 'the first pause between two tries is random in 0 .. this, and doubles';
COMMENT ON COLUMN outbox.route.backoff_cap IS 'longest pause between two tries';
COMMENT ON COLUMN outbox.route.created_at IS 'when the route was made';
COMMENT ON COLUMN outbox.route.created_by IS 'who made it';
COMMENT ON COLUMN outbox.route.format IS 'how events become records: outbox, or one that consumers read already';

CREATE TABLE outbox_internal.lane (
  route_id    bigint  NOT NULL REFERENCES outbox.route (id) ON DELETE CASCADE,
  lane        integer NOT NULL,
  since       timestamptz NOT NULL DEFAULT '-infinity',
  owner       bigint,
  claimed_at  timestamptz,
  window_from pg_snapshot NOT NULL,
  window_to   pg_snapshot,
  done_to     timestamptz,
  home        text,
  repeats_to  pg_snapshot,
  PRIMARY KEY (route_id, lane)
) USING heap;
COMMENT ON TABLE outbox_internal.lane IS 'ordered reading positions of routes, and which relay worker owns each; claimed with FOR UPDATE SKIP LOCKED';
COMMENT ON COLUMN outbox_internal.lane.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.lane.lane IS 'number within the route, from 0';
COMMENT ON COLUMN outbox_internal.lane.since IS 'reading of the shared clock when the number of lanes last changed: older rows of outbox_internal.progress are another lane''s';
COMMENT ON COLUMN outbox_internal.lane.owner IS 'incarnation of the owning relay worker (the bits of an unsigned number); an owner that is not alive owns nothing';
COMMENT ON COLUMN outbox_internal.lane.claimed_at IS 'when it was claimed; without an owner: it was let go with events in flight, of which nobody knows';
COMMENT ON COLUMN outbox_internal.lane.window_from IS 'position where outbox_internal.progress has no newer row: where the lane started, or what the keeper carried forward before it dropped a day of progress';
COMMENT ON COLUMN outbox_internal.lane.window_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane.done_to IS 'likewise';
COMMENT ON COLUMN outbox_internal.lane.home IS 'system identifier and oid of the database whose transaction ids the position is made of; another than this one, or NULL: a dump brought the lane, and nobody claims it before outbox.adopt()';
COMMENT ON COLUMN outbox_internal.lane.repeats_to IS 'the lane was put back, by a destination''s loss or by outbox.seek(), and reads again up to here: what is parked, was given up, or was delivered from where it was parked since the last seek, is not its own; NULL: never';

CREATE TABLE outbox_internal.progress (
  at            timestamptz NOT NULL,
  route_id      bigint      NOT NULL,
  lane          integer     NOT NULL,
  window_from   pg_snapshot NOT NULL,
  window_to     pg_snapshot,
  done_to       timestamptz,
  side          integer     NOT NULL DEFAULT 0,
  places        jsonb,
  run           text,
  survived      text,
  acknowledged  bigint[],
  run_after     timestamptz
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox_internal.progress IS 'insert-only history of how far each lane has come; the newest row since the lane was made counts';
COMMENT ON COLUMN outbox_internal.progress.at IS 'when it was written: a reading of the shared clock, unique';
COMMENT ON COLUMN outbox_internal.progress.route_id IS 'route';
COMMENT ON COLUMN outbox_internal.progress.lane IS 'lane';
COMMENT ON COLUMN outbox_internal.progress.side IS '0: of the lane itself; else of its side lane of that number';
COMMENT ON COLUMN outbox_internal.progress.places IS 'where the events went that were acknowledged since the row before: first and last offset or stream id, by "topic/partition" or stream; of 64 of them at most; {}: the side lane was over';
COMMENT ON COLUMN outbox_internal.progress.run IS 'which life of the Redis server, see outbox_internal.server_run, or which Kafka cluster acknowledged them; NULL: the destination does not tell';
COMMENT ON COLUMN outbox_internal.progress.survived IS 'only where the lane was put back, because the server had lost what it had acknowledged: the last stream id that was still there';
COMMENT ON COLUMN outbox_internal.progress.acknowledged IS 'both numbers of the highest stream id that was acknowledged since the row before, over all streams, also those that places has no room for; NULL: run is, or nothing was';
COMMENT ON COLUMN outbox_internal.progress.run_after IS 'the newest row of this lane (or side lane) before, under another run; NULL: there is none';
COMMENT ON COLUMN outbox_internal.progress.window_from IS 'all events visible in this snapshot are done';
COMMENT ON COLUMN outbox_internal.progress.window_to IS 'end of the window that is under way; NULL: none';
COMMENT ON COLUMN outbox_internal.progress.done_to IS 'events of that window up to this created_at are done; NULL: none';

CREATE TABLE outbox_internal.tick (
  at       timestamptz NOT NULL,
  snapshot pg_snapshot NOT NULL
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox_internal.tick IS 'snapshots recorded while a lane lags, so that a backlog is read as many small windows';
COMMENT ON COLUMN outbox_internal.tick.at IS 'when: a reading of the shared clock';
COMMENT ON COLUMN outbox_internal.tick.snapshot IS 'the snapshot';

CREATE TABLE outbox_internal.server_run (
  server   name        NOT NULL,
  run      text        NOT NULL PRIMARY KEY,
  survived text,
  met_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  number   bigint      NOT NULL,
  there_to timestamptz,
  noted_to timestamptz
) USING heap;
COMMENT ON TABLE outbox_internal.server_run IS 'lives of Redis servers, and what each still had when a worker met it, before anything new was written';
COMMENT ON COLUMN outbox_internal.server_run.server IS 'destination that met it first; another with the same address asks only about what was noted since';
COMMENT ON COLUMN outbox_internal.server_run.run IS 'hash of the configured address, run id of the server and history of its data (the first 16 characters of each; history: how much it has received as a replica, zeros: nothing, or a replication id where it does not tell); with a ? behind it: it would not tell what it had';
COMMENT ON COLUMN outbox_internal.server_run.survived IS 'the last id of all streams asked about, or an earlier one after which one of them has lost something, or the highest that was noted then: what other runs at that address had acknowledged before, under a later one, is lost; NULL: there was nothing to ask, or it would not tell';
COMMENT ON COLUMN outbox_internal.server_run.met_at IS 'when';
COMMENT ON COLUMN outbox_internal.server_run.there_to IS 'ids of some streams are ahead of others, and do not tell: what was noted no later than this is there, whatever its id; NULL: ids tell';
COMMENT ON COLUMN outbox_internal.server_run.number IS 'order of the meetings; a run that is met again after another one at its address comes last';
COMMENT ON COLUMN outbox_internal.server_run.noted_to IS 'when the newest was noted of what the run was asked about, where nothing of that was lost: survived is no higher than the highest id of it then, and both rise when a worker has noted more and asks again; NULL: something was lost, or it would not tell';

CREATE TABLE outbox_internal.foreign_event (
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
  deliver_at     timestamptz,
  xid            xid8,
  home           text,
  subscribed     boolean
) USING heap;
-- adopt() goes through them in this order, in batches.
CREATE INDEX foreign_event_created_at_idx ON outbox_internal.foreign_event (created_at);
COMMENT ON INDEX outbox_internal.foreign_event_created_at_idx IS 'the order in which outbox.adopt() goes through them';
COMMENT ON TABLE outbox_internal.foreign_event IS 'rows that reached outbox_internal.log by another way than emit() (restore, logical replication, hands): kept here, published by outbox.adopt() only';
COMMENT ON COLUMN outbox_internal.foreign_event.received_at IS 'when the row was diverted';
COMMENT ON COLUMN outbox_internal.foreign_event.created_at IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.id IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.aggregate_type IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.aggregate_id IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.event_type IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.payload IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.content_type IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.headers IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.topic IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.deliver_at IS 'as it came';
COMMENT ON COLUMN outbox_internal.foreign_event.xid IS 'as it came: a transaction of the server that emitted it';
COMMENT ON COLUMN outbox_internal.foreign_event.home IS 'where the row was diverted, as in outbox_internal.lane; another than this database: a dump brought it as it stands here';
COMMENT ON COLUMN outbox_internal.foreign_event.subscribed IS 'it came by logical replication';

CREATE TABLE outbox_internal.identity (
  system_identifier bigint      NOT NULL,
  database          oid         NOT NULL,
  instance          text        NOT NULL,
  adopted_at        timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  restored_in       text
) USING heap;
COMMENT ON TABLE outbox_internal.identity IS 'which server and database this outbox belongs to; a copy differs and stays silent until outbox.adopt()';
COMMENT ON COLUMN outbox_internal.identity.system_identifier IS 'of the server, from pg_control_system()';
COMMENT ON COLUMN outbox_internal.identity.database IS 'oid of the database';
COMMENT ON COLUMN outbox_internal.identity.instance IS 'outbox.instance at that time';
COMMENT ON COLUMN outbox_internal.identity.adopted_at IS 'when';
COMMENT ON COLUMN outbox_internal.identity.restored_in IS 'of a copy that was not adopted yet: the database, as in outbox_internal.lane.home, that a dump first brought this row into, where the rows of the log that came with it were diverted; NULL: no dump did';
-- One row: what is restored over a database that is in use does not take it over.
CREATE UNIQUE INDEX identity_one_idx ON outbox_internal.identity ((true));
COMMENT ON INDEX outbox_internal.identity_one_idx IS 'there is one identity at most';
-- No row at first: the first create_route() or emit() here writes it. A restore runs neither, so that nothing is started
-- between the moment when it creates the extension and the one when it brings the original's row.

-- Not in a dump, other than identity: where its row is still beside the identity's, the files came with the copy (base
-- backup, template, pg_upgrade), and with them the transaction ids that the positions of lanes are made of.
CREATE TABLE outbox_internal.origin (
  system_identifier bigint NOT NULL,
  database          oid    NOT NULL
) USING heap;
COMMENT ON TABLE outbox_internal.origin IS 'server and database whose transaction ids the log and the positions of lanes hold; a dump does not bring it, a copy of the files does';
COMMENT ON COLUMN outbox_internal.origin.system_identifier IS 'as in outbox_internal.identity';
COMMENT ON COLUMN outbox_internal.origin.database IS 'as in outbox_internal.identity';

-- What adopt() is at; nothing in a dump. Positions that a dump brought are made of transaction ids of the original, and so
-- are the rows' own: adopt() asks both which event which route has still to get, and gives all events that the same routes
-- have to get one number below all transaction ids of this server. Lanes then start where the numbers that are not theirs
-- are past, and everything that was ever emitted here is still to come: first what the dump brought, then what is new.
CREATE TABLE outbox_internal.adoption (
  begun_at timestamptz NOT NULL,
  home     text        NOT NULL,
  phase    text        NOT NULL,
  done_to  timestamptz NOT NULL DEFAULT '-infinity',
  first    bigint      NOT NULL,
  starts   jsonb       NOT NULL,
  sent     bigint      NOT NULL DEFAULT 0,
  kept     bigint      NOT NULL DEFAULT 0,
  nothing  boolean     NOT NULL DEFAULT false,
  later    text[]      NOT NULL DEFAULT '{}',
  CONSTRAINT adoption_phase CHECK (phase IN ('pending', 'history'))
) USING heap;
CREATE UNIQUE INDEX adoption_one_idx ON outbox_internal.adoption ((true));
COMMENT ON TABLE outbox_internal.adoption IS 'a restored dump whose events are being moved into the log: one row while that lasts, none else';
COMMENT ON INDEX outbox_internal.adoption_one_idx IS 'one at a time';
COMMENT ON COLUMN outbox_internal.adoption.begun_at IS 'rows of outbox_internal.foreign_event that came later are not meant';
COMMENT ON COLUMN outbox_internal.adoption.home IS 'outbox_internal.foreign_event.home of the rows whose transaction ids are those of the positions: another than this database where a copy was copied again before it was adopted';
COMMENT ON COLUMN outbox_internal.adoption.phase IS 'pending: what routes have still to get, before any of their lanes reads; history: what they have had, beside their work';
COMMENT ON COLUMN outbox_internal.adoption.done_to IS 'created_at up to which this phase has come';
COMMENT ON COLUMN outbox_internal.adoption.first IS 'outbox_internal.adopted.xid from here on is of this dump';
COMMENT ON COLUMN outbox_internal.adoption.starts IS 'where its routes had started, as they came: by id, start_snapshot and start_time in Unix microseconds';
COMMENT ON COLUMN outbox_internal.adoption.sent IS 'events that some route has still to get';
COMMENT ON COLUMN outbox_internal.adoption.kept IS 'events that were moved for outbox.status() and outbox.replay() only';
COMMENT ON COLUMN outbox_internal.adoption.nothing IS 'keep_positions was false: no route gets anything of the dump';
COMMENT ON COLUMN outbox_internal.adoption.later IS 'likewise of rows that are meant, too, and that no position knows: copies on the way here emitted them';

CREATE TABLE outbox_internal.adopted (
  xid    bigint   NOT NULL PRIMARY KEY,
  wanted bigint[] NOT NULL,
  before bigint[] NOT NULL,
  passed bigint[] NOT NULL DEFAULT '{}'
) USING heap;
COMMENT ON TABLE outbox_internal.adopted IS 'numbers below all transaction ids of a server that events of restored dumps have in outbox_internal.log.xid';
COMMENT ON COLUMN outbox_internal.adopted.xid IS 'the number';
COMMENT ON COLUMN outbox_internal.adopted.wanted IS 'routes that had these events still to get, by id';
COMMENT ON COLUMN outbox_internal.adopted.before IS 'routes that began after these events, by id';
COMMENT ON COLUMN outbox_internal.adopted.passed IS 'routes that had been moved behind these events without having delivered them, by id';

CREATE SEQUENCE outbox_internal.clock_ceiling AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE outbox_internal.clock_ceiling IS 'register, not a sequence: Unix microseconds that this database''s clock of events starts above after a restart; kept ahead of the clock by the keeper and, where that is late, by emitters, and put where the clock is by a stop in good order';

SELECT pg_catalog.pg_extension_config_dump('outbox_internal.log', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.log_spare', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.emit_key', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.emit_key_spare', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.route', '');
SELECT pg_catalog.pg_extension_config_dump('outbox.route_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.lane', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.foreign_event', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.identity', '');
