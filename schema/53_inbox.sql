-- ---------------------------------------------------------------------------------------------------------------------
-- The inbox: which consumer has handled which event, in the consumer's database. It needs no preload and no workers; see
-- src/inbox/README.md. (Run again in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
-- The tables of the ring are made here and never again: a day is one of them for a month, and is emptied as a whole. So
-- nothing has to be made at midnight, and a dump has them like any other table of the extension.
DO $tables$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY(SELECT pg_catalog.format('inbox_day_%s', pg_catalog.lpad(d::text, 2, '0')) FROM pg_catalog.generate_series(0, 31) d)
                        OPERATOR(pg_catalog.||) ARRAY['inbox_undated_a', 'inbox_undated_b'] LOOP
    EXECUTE pg_catalog.format('CREATE TABLE IF NOT EXISTS outbox_internal.%I (event_id uuid NOT NULL, consumer text COLLATE "C" NOT NULL, '
      'CONSTRAINT %I PRIMARY KEY (consumer, event_id)) USING heap WITH (fillfactor = 100, autovacuum_enabled = %s)',
      name, name OPERATOR(pg_catalog.||) '_pkey', CASE WHEN name OPERATOR(pg_catalog.~) 'day' THEN 'false' ELSE 'true' END);
    EXECUTE pg_catalog.format('COMMENT ON TABLE outbox_internal.%I IS %L', name,
      CASE WHEN name OPERATOR(pg_catalog.~) 'day' THEN 'inbox: events handled, of one UTC day in 32, that of the time in their id; emptied as a whole when outbox.inbox_retention is over'
           ELSE 'inbox: events handled whose id has no time; in both of these tables, which are emptied in turn' END);
    EXECUTE pg_catalog.format('COMMENT ON COLUMN outbox_internal.%I.event_id IS %L', name, 'the event''s id');
    EXECUTE pg_catalog.format('COMMENT ON COLUMN outbox_internal.%I.consumer IS %L', name, 'who has handled it');
    PERFORM pg_catalog.pg_extension_config_dump(pg_catalog.format('outbox_internal.%I', name)::pg_catalog.regclass, '');
  END LOOP;
END
$tables$;

CREATE TABLE IF NOT EXISTS outbox_internal.inbox_kept (
  kept_from    date        NOT NULL,
  turned_at    timestamptz NOT NULL,
  last_emptied integer     NOT NULL,
  emptied_to   date
) USING heap;
COMMENT ON TABLE outbox_internal.inbox_kept IS 'inbox: one row, made with the first mark: from which day on marks are kept. It only goes forward';
COMMENT ON COLUMN outbox_internal.inbox_kept.kept_from IS 'UTC day: marks of earlier ones may be gone';
COMMENT ON COLUMN outbox_internal.inbox_kept.turned_at IS 'when one of the two undated tables was last emptied';
COMMENT ON COLUMN outbox_internal.inbox_kept.last_emptied IS 'which one: 0 or 1';
COMMENT ON COLUMN outbox_internal.inbox_kept.emptied_to IS 'UTC day: marks of the days from here to kept_from are to go, when no snapshot sees an earlier kept_from; NULL: none are';
CREATE UNIQUE INDEX IF NOT EXISTS inbox_kept_one_idx ON outbox_internal.inbox_kept ((true));
COMMENT ON INDEX outbox_internal.inbox_kept_one_idx IS 'there is one row at most: a dump that is restored over an inbox in use brings no second day';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.inbox_kept', '');

CREATE TABLE IF NOT EXISTS outbox_internal.inbox_key (
  consumer   text COLLATE "C" NOT NULL,
  source     text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  created_at bigint           NOT NULL,
  CONSTRAINT inbox_key_pkey PRIMARY KEY (consumer, source, key)
) USING heap WITH (fillfactor = 80);
COMMENT ON TABLE outbox_internal.inbox_key IS 'inbox: of each key the newest event that was handled';
COMMENT ON COLUMN outbox_internal.inbox_key.consumer IS 'who has handled it';
COMMENT ON COLUMN outbox_internal.inbox_key.source IS 'where keys are unique: a topic, for instance';
COMMENT ON COLUMN outbox_internal.inbox_key.key IS 'the record''s key';
COMMENT ON COLUMN outbox_internal.inbox_key.created_at IS 'header created_at of the newest event: Unix microseconds';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.inbox_key', '');

CREATE TABLE IF NOT EXISTS outbox_internal.inbox_stream (
  consumer text COLLATE "C" NOT NULL,
  stream   text COLLATE "C" NOT NULL,
  reached  bigint           NOT NULL,
  CONSTRAINT inbox_stream_pkey PRIMARY KEY (consumer, stream)
) USING heap WITH (fillfactor = 50);
COMMENT ON TABLE outbox_internal.inbox_stream IS 'inbox: of each stream the last position that was handled';
COMMENT ON COLUMN outbox_internal.inbox_stream.consumer IS 'who has handled it';
COMMENT ON COLUMN outbox_internal.inbox_stream.stream IS 'what is numbered: a topic''s partition, for instance';
COMMENT ON COLUMN outbox_internal.inbox_stream.reached IS 'the last position that was handled; -1: none';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.inbox_stream', '');

-- Who may receive, and as which consumers: see 24_rights.sql.
CREATE TABLE IF NOT EXISTS outbox_internal.receive_right (
  role              name PRIMARY KEY,
  role_id           oid,
  consumers         text[],
  system_identifier bigint
) USING heap;
COMMENT ON TABLE outbox_internal.receive_right IS 'roles that grant_receive() let receive, and as which consumers; change through grant_receive and revoke_receive';
COMMENT ON COLUMN outbox_internal.receive_right.role IS 'role; its name counts where role_id does not';
COMMENT ON COLUMN outbox_internal.receive_right.role_id IS 'its oid, which counts where system_identifier is this server''s and there is such a role; NULL: there was none of that name when the row came';
COMMENT ON COLUMN outbox_internal.receive_right.consumers IS 'patterns with * for any run of characters; NULL: all consumers';
COMMENT ON COLUMN outbox_internal.receive_right.system_identifier IS 'of the server that role_id is an oid of: a dump may bring another one''s';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.receive_right', '');

CREATE OR REPLACE TRIGGER find_role BEFORE INSERT ON outbox_internal.receive_right FOR EACH ROW EXECUTE FUNCTION outbox_internal.find_role();
ALTER TABLE outbox_internal.receive_right ENABLE ALWAYS TRIGGER find_role;
COMMENT ON TRIGGER find_role ON outbox_internal.receive_right IS 'fills role_id';

-- Marks do not go by hand.
CREATE OR REPLACE FUNCTION outbox_internal.refuse_forgetting() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_refuse_forgetting';
COMMENT ON FUNCTION outbox_internal.refuse_forgetting() IS 'refuses DELETE and TRUNCATE of what consumers have handled, unless outbox.allow_loss says so';
DO $guard$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY(SELECT pg_catalog.format('inbox_day_%s', pg_catalog.lpad(d::text, 2, '0')) FROM pg_catalog.generate_series(0, 31) d)
                        OPERATOR(pg_catalog.||) ARRAY['inbox_undated_a', 'inbox_undated_b', 'inbox_key', 'inbox_stream', 'inbox_kept'] LOOP
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER no_forgetting BEFORE DELETE OR TRUNCATE ON outbox_internal.%I '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.refuse_forgetting()', name);
    EXECUTE pg_catalog.format('ALTER TABLE outbox_internal.%I ENABLE ALWAYS TRIGGER no_forgetting', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER no_forgetting ON outbox_internal.%I IS %L', name, 'marks do not go by hand: events would be handled twice');
  END LOOP;
END
$guard$;

-- The cost has the planner ask it last: a condition beside it in a WHERE clause is to choose what is marked. (Of one table that nobody changes:
-- in a join it is asked before, and at READ COMMITTED again of a row that has just been changed. Its place is a statement of its own.)
CREATE OR REPLACE FUNCTION outbox.receive(consumer text, event_id uuid) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000 AS 'MODULE_PATHNAME', 'outbox_receive';
COMMENT ON FUNCTION outbox.receive(text, uuid) IS 'is the event new to this consumer? Marks it as handled, in the transaction that handles it; waits where another transaction has just marked it, and says true if that was rolled back. Ask in a statement of its own: in the WHERE of another, or beside FOR UPDATE, it may be asked twice, and says false';

CREATE OR REPLACE FUNCTION outbox.receive_many(consumer text, event_ids uuid[]) RETURNS SETOF uuid
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_receive_many';
COMMENT ON FUNCTION outbox.receive_many(text, uuid[]) IS 'marks many events as handled, and returns those that are new to this consumer, each once, in the order given';

CREATE OR REPLACE FUNCTION outbox.receive(consumer text, source text, key text, created_at bigint) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000 AS 'MODULE_PATHNAME', 'outbox_receive_newest';
COMMENT ON FUNCTION outbox.receive(text, text, text, bigint) IS 'for consumers that keep the newest value of a key: is the event newer than all that were handled of this key? One row for each key; created_at as in the header, in microseconds';

CREATE OR REPLACE FUNCTION outbox.receive_next(consumer text, stream text, stream_position bigint, allow_gaps boolean DEFAULT false) RETURNS text
  LANGUAGE c VOLATILE PARALLEL UNSAFE COST 10000 AS 'MODULE_PATHNAME', 'outbox_receive_next';
COMMENT ON FUNCTION outbox.receive_next(text, text, bigint, boolean) IS 'for consumers of a numbered stream: next: handle it, it is marked; repeat: it was handled; gap: some before it were not, and nothing is marked. One row for each stream; the first position ever is next. allow_gaps: what is further on is next as well, as Kafka''s offsets have holes';

CREATE OR REPLACE FUNCTION outbox.received_to(consumer text, stream text) RETURNS bigint
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_received_to';
COMMENT ON FUNCTION outbox.received_to(text, text) IS 'the last position of a stream that receive_next() has marked: begin behind it. NULL: none';

CREATE OR REPLACE FUNCTION outbox.forget_received(consumer text, event_id uuid) RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_forget_received';
COMMENT ON FUNCTION outbox.forget_received(text, uuid) IS 'takes one mark back, so that the consumer handles the event when it comes again; was there one? (Of a transaction that is open there is none yet.)';

CREATE OR REPLACE FUNCTION outbox.reprocess(consumer text, since timestamptz, until timestamptz DEFAULT 'infinity') RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_reprocess';
COMMENT ON FUNCTION outbox.reprocess(text, timestamptz, timestamptz) IS 'takes back the marks of all events created in that time, by their ids, and the keys whose newest value was, of which the next event is taken, whatever its time; returns how many. Positions of streams are seek_stream()''s. Stop the consumer before: what is not committed is passed over, and stays. Then send them again: outbox.replay(), or the consumer group''s offsets';

CREATE OR REPLACE FUNCTION outbox.forget_consumer(consumer text) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_forget_consumer';
COMMENT ON FUNCTION outbox.forget_consumer(text) IS 'takes back all that the inbox has of a consumer, keys and streams too, but for what is not committed; returns how many rows';

CREATE OR REPLACE FUNCTION outbox.seek_stream(consumer text, stream text, next_position bigint) RETURNS bigint
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_seek_stream';
COMMENT ON FUNCTION outbox.seek_stream(text, text, bigint) IS 'says which position receive_next() takes for the next one; NULL: whatever comes first. Returns the one that was expected before';

CREATE OR REPLACE FUNCTION outbox_internal.day_of_id(event_id uuid) RETURNS date
  LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_day_of_id';
COMMENT ON FUNCTION outbox_internal.day_of_id(uuid) IS 'the UTC day of the time in an id; NULL: it has none';

CREATE OR REPLACE FUNCTION outbox_internal.received(OUT consumer text, OUT what text, OUT day date, OUT rows bigint, OUT bytes bigint) RETURNS SETOF record
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_received';
GRANT EXECUTE ON FUNCTION outbox_internal.received() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.received() IS 'behind the view outbox.received';

CREATE OR REPLACE VIEW outbox.received AS SELECT r.consumer, r.what, r.day, r.rows, r.bytes FROM outbox_internal.received() r;
GRANT SELECT ON outbox.received TO pg_monitor;
COMMENT ON VIEW outbox.received IS 'what the inbox holds, by consumer';
COMMENT ON COLUMN outbox.received.consumer IS 'consumer';
COMMENT ON COLUMN outbox.received.what IS 'event: marks of events; undated: of those whose id has no time; undated, second table: the same once more, as each of them is in two tables; key: newest values; stream: positions';
COMMENT ON COLUMN outbox.received.day IS 'UTC day of the time in the events'' ids; it goes as a whole';
COMMENT ON COLUMN outbox.received.rows IS 'how many; of who has more than 1,000 in a table above 32 MB an estimate from as much of it';
COMMENT ON COLUMN outbox.received.bytes IS 'on disk with indexes, its share of the table by rows';

CREATE OR REPLACE FUNCTION outbox_internal.receive_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname IN ('receive', 'receive_many', 'receive_next', 'received_to');
END;
COMMENT ON FUNCTION outbox_internal.receive_routines() IS 'functions that a role calls to receive';

CREATE OR REPLACE FUNCTION outbox_internal.receive_grants() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT format('EXECUTE ON ROUTINE %s', r) FROM outbox_internal.receive_routines() r;
END;
COMMENT ON FUNCTION outbox_internal.receive_grants() IS 'what grant_receive() grants';

CREATE OR REPLACE FUNCTION outbox.grant_receive(role regrole, consumers text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $grant$
BEGIN
  PERFORM outbox_internal.check_role(role, 'receive', true);
  PERFORM outbox_internal.check_patterns('receive', consumers);
  PERFORM outbox_internal.grant_by_pattern(role, 'receive', consumers);
END
$grant$;
COMMENT ON FUNCTION outbox.grant_receive(regrole, text[]) IS 'lets a role receive; with consumers (patterns) in their name only. The last call counts. It gives no way to take marks back, of whomever: that is grant_operate()';

CREATE OR REPLACE FUNCTION outbox.revoke_receive(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $revoke$
BEGIN
  PERFORM outbox_internal.revoke_by_pattern(role, 'receive');
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_receive(regrole) IS 'takes back what grant_receive() granted; USAGE on the schema unless the role has another right there';
