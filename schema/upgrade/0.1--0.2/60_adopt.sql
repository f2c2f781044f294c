-- Restored dumps: what adopt() has to know of lanes, of rows that came by another way, and of how far it is.

ALTER TABLE outbox_internal.lane ADD COLUMN home text;
COMMENT ON COLUMN outbox_internal.lane.home IS 'system identifier and oid of the database whose transaction ids the position is made of; another than this one, or NULL: a dump brought the lane, and nobody claims it before outbox.adopt()';
-- In a copy that is not adopted yet they are the original's. There may be rows of two servers, if a dump was restored
-- over an outbox in use: then their origin is unknown.
UPDATE outbox_internal.lane SET home = (SELECT pg_catalog.min(pg_catalog.format('%s/%s', i.system_identifier, i.database))
  FROM outbox_internal.identity i HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) 1);

ALTER TABLE outbox_internal.foreign_event ADD COLUMN xid xid8;
ALTER TABLE outbox_internal.foreign_event ADD COLUMN home text;
ALTER TABLE outbox_internal.foreign_event ADD COLUMN subscribed boolean;
CREATE INDEX foreign_event_created_at_idx ON outbox_internal.foreign_event (created_at);
COMMENT ON INDEX outbox_internal.foreign_event_created_at_idx IS 'the order in which outbox.adopt() goes through them';
COMMENT ON COLUMN outbox_internal.foreign_event.xid IS 'as it came: a transaction of the server that emitted it';
COMMENT ON COLUMN outbox_internal.foreign_event.home IS 'where the row was diverted, as in outbox_internal.lane; another than this database: a dump brought it as it stands here';
COMMENT ON COLUMN outbox_internal.foreign_event.subscribed IS 'it came by logical replication';

-- One row: what is restored over a database that is in use does not take it over. Where that has happened already, the
-- other's row stays, and the outbox is a copy as before.
DELETE FROM outbox_internal.identity i USING outbox_internal.origin o
WHERE i.system_identifier OPERATOR(pg_catalog.=) o.system_identifier AND i.database OPERATOR(pg_catalog.=) o.database
  AND (SELECT pg_catalog.count(*) FROM outbox_internal.identity) OPERATOR(pg_catalog.>) 1;
DELETE FROM outbox_internal.identity i WHERE i.ctid OPERATOR(pg_catalog.<>) (SELECT pg_catalog.min(j.ctid) FROM outbox_internal.identity j);
ALTER TABLE outbox_internal.identity ADD COLUMN restored_in text;
COMMENT ON COLUMN outbox_internal.identity.restored_in IS 'of a copy that was not adopted yet: the database, as in outbox_internal.lane.home, that a dump first brought this row into, where the rows of the log that came with it were diverted; NULL: no dump did';
CREATE UNIQUE INDEX identity_one_idx ON outbox_internal.identity ((true));
COMMENT ON INDEX outbox_internal.identity_one_idx IS 'there is one identity at most';

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
REVOKE ALL ON outbox_internal.adoption, outbox_internal.adopted FROM PUBLIC;

CREATE FUNCTION outbox_internal.home() RETURNS text
  LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_home';
COMMENT ON FUNCTION outbox_internal.home() IS 'system identifier and oid of this database, as in outbox_internal.lane.home';

CREATE FUNCTION outbox_internal.in_subscription() RETURNS boolean
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_in_subscription';
COMMENT ON FUNCTION outbox_internal.in_subscription() IS 'is this process one that applies what a subscription brings?';
REVOKE ALL ON FUNCTION outbox_internal.home(), outbox_internal.in_subscription() FROM PUBLIC;

CREATE OR REPLACE FUNCTION outbox_internal.divert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $divert$
BEGIN
  INSERT INTO outbox_internal.foreign_event (created_at, id, aggregate_type, aggregate_id, event_type, payload, content_type,
                                    headers, topic, deliver_at, xid, home, subscribed)
  VALUES (NEW.created_at, NEW.id, NEW.aggregate_type, NEW.aggregate_id, NEW.event_type, NEW.payload, NEW.content_type,
          NEW.headers, NEW.topic, NEW.deliver_at, NEW.xid, outbox_internal.home(), outbox_internal.in_subscription());
  RETURN NULL;
END
$divert$;
COMMENT ON FUNCTION outbox_internal.divert() IS 'keeps rows that reach outbox_internal.log by another way than emit() in outbox_internal.foreign_event';

CREATE OR REPLACE FUNCTION outbox.adopt(keep_positions boolean DEFAULT true) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'outbox_adopt';
COMMENT ON FUNCTION outbox.adopt(boolean) IS 'has a copied or restored outbox publish from here. Its routes go on where the original was when the copy was made: what that had delivered is not sent again, what it had not is sent, and after it what was emitted here. With keep_positions => false they start from now, without what the copy brought. Events that came by logical replication or by hand are emitted anew, under their own ids. Returns how many events of a dump, of replication or of hands are now to be sent; the keeper does the rest of a large dump afterwards, see doctor()';
