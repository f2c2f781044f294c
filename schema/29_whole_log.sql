-- ---------------------------------------------------------------------------------------------------------------------
-- The whole log: its day tables and the spare one. created_at in a WHERE clause still picks the day tables: the planner
-- pulls the view up.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE VIEW outbox_internal.whole_log AS
  SELECT d.created_at, d.id, d.xid, d.aggregate_type, d.aggregate_id, d.event_type, d.payload, d.content_type, d.headers,
         d.topic, d.tableoid AS source, d.ctid AS place, d.deliver_at
  FROM outbox_internal.log d
  UNION ALL
  SELECT s.created_at, s.id, s.xid, s.aggregate_type, s.aggregate_id, s.event_type, s.payload, s.content_type, s.headers,
         s.topic, s.tableoid, s.ctid, s.deliver_at
  FROM outbox_internal.log_spare s;
COMMENT ON VIEW outbox_internal.whole_log IS 'all events: outbox_internal.log and outbox_internal.log_spare';
COMMENT ON COLUMN outbox_internal.whole_log.created_at IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.id IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.xid IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.aggregate_type IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.aggregate_id IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.event_type IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.payload IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.content_type IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.headers IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.topic IS 'as in outbox_internal.log';
COMMENT ON COLUMN outbox_internal.whole_log.source IS 'table that the row is in';
COMMENT ON COLUMN outbox_internal.whole_log.place IS 'where in that table';
COMMENT ON COLUMN outbox_internal.whole_log.deliver_at IS 'as in outbox_internal.log';

-- Its tables, of which there is always one that has no day: who asks for those of the log must not forget it.
CREATE OR REPLACE VIEW outbox_internal.log_table AS
  SELECT c.oid AS relation, c.relname AS name,
         CASE WHEN c.relname OPERATOR(pg_catalog.~) '^log_[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$'
              THEN pg_catalog.to_date(pg_catalog.right(c.relname, 8), 'YYYYMMDD') END AS day
  FROM (SELECT i.inhrelid FROM pg_catalog.pg_inherits i
        WHERE i.inhparent OPERATOR(pg_catalog.=) 'outbox_internal.log'::pg_catalog.regclass
        UNION ALL SELECT 'outbox_internal.log_spare'::pg_catalog.regclass) t (relation)
  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.relation;
COMMENT ON VIEW outbox_internal.log_table IS 'the tables that events are in: the day tables and outbox_internal.log_spare';
COMMENT ON COLUMN outbox_internal.log_table.relation IS 'oid';
COMMENT ON COLUMN outbox_internal.log_table.name IS 'without its schema, which is outbox_internal';
COMMENT ON COLUMN outbox_internal.log_table.day IS 'UTC; NULL: outbox_internal.log_spare, or a table whose name is no day';

-- The same rule in C++: log::RowForgotten(). No event that emit() takes looks like that: without a content type it is JSON
-- and has a byte at least; with one, the content type is not empty.
CREATE OR REPLACE FUNCTION outbox_internal.forgotten(payload bytea, headers jsonb, content_type text)
  RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN $1 IS NULL THEN $2 IS NOT NULL AND $2 OPERATOR(pg_catalog.=) '{}'::pg_catalog.jsonb
            ELSE pg_catalog.octet_length($1) OPERATOR(pg_catalog.=) 0 AND coalesce($3, '') OPERATOR(pg_catalog.=) '' END;
COMMENT ON FUNCTION outbox_internal.forgotten(bytea, jsonb, text) IS
  'the row was emptied by outbox.forget(): nobody sends it any more';
