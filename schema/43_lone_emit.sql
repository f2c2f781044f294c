-- ---------------------------------------------------------------------------------------------------------------------
-- Transactions that emitted and changed nothing else: see the setting outbox.lone_emit.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.lone_emit(OUT transactions bigint, OUT lone bigint) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_lone_emit';
GRANT EXECUTE ON FUNCTION outbox_internal.lone_emit() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.lone_emit() IS 'behind the view outbox.lone_emit';

CREATE OR REPLACE VIEW outbox.lone_emit AS
  SELECT l.transactions, l.lone FROM outbox_internal.lone_emit() l;
GRANT SELECT ON outbox.lone_emit TO pg_monitor;
COMMENT ON VIEW outbox.lone_emit IS 'how many transactions of this database have emitted an event and changed nothing else; see the setting outbox.lone_emit';
COMMENT ON COLUMN outbox.lone_emit.transactions IS 'that have emitted and committed since the server started; not those that were prepared (PREPARE TRANSACTION)';
COMMENT ON COLUMN outbox.lone_emit.lone IS 'of these, those that certainly changed no row of any table but outbox''s own, where outbox.lone_emit did not allow that; none where track_counts is off';
