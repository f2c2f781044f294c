-- ---------------------------------------------------------------------------------------------------------------------
-- A subscription to another server's outbox (FOR ALL TABLES includes it): its routes, positions, parked events and
-- identity are not ours, and rows of ours are not his to change. Only the log's rows are kept, see 24_log_guard.sql.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox_internal.ignore_replicated() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_ignore_replicated';
COMMENT ON FUNCTION outbox_internal.ignore_replicated() IS 'drops what a subscription would write into the tables of outbox';

DO $ignore$
DECLARE
  name pg_catalog.regclass;
BEGIN
  FOR name IN
    SELECT c.oid FROM pg_catalog.pg_class c
    WHERE c.relnamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[])
      AND (c.relkind OPERATOR(pg_catalog.=) 'r' OR c.relkind OPERATOR(pg_catalog.=) 'p')
      AND c.relname OPERATOR(pg_catalog.<>) ALL (ARRAY['log', 'log_spare']::pg_catalog.name[]) AND c.relname OPERATOR(pg_catalog.<>) 'foreign_event'
  LOOP
    EXECUTE pg_catalog.format('CREATE TRIGGER ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON %s '
      'FOR EACH ROW EXECUTE FUNCTION outbox_internal.ignore_replicated()', name);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE REPLICA TRIGGER ignore_replicated', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER ignore_replicated ON %s IS %L', name,
      'drops what a subscription brings; fires for nothing else');
  END LOOP;
END
$ignore$;
