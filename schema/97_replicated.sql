-- ---------------------------------------------------------------------------------------------------------------------
-- A subscription to another server's outbox (FOR ALL TABLES includes it): its routes, positions, parked events, marks and
-- identity are not ours, and rows of ours are not his to change. Only the log's rows are kept, see 24_log_guard.sql. Behind
-- all parts that make tables, in a fresh install and in a step from one version to the next, so that none is left out; day
-- tables have it of their parents. (Run again in such a step.)
-- ---------------------------------------------------------------------------------------------------------------------
DO $ignore$
DECLARE
  name pg_catalog.regclass;
BEGIN
  FOR name IN
    SELECT c.oid FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
      AND d.objid OPERATOR(pg_catalog.=) c.oid AND d.objsubid OPERATOR(pg_catalog.=) 0 AND d.deptype OPERATOR(pg_catalog.=) 'e'
    JOIN pg_catalog.pg_extension e ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
      AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox'
    WHERE c.relnamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[])
      AND (c.relkind OPERATOR(pg_catalog.=) 'r' OR c.relkind OPERATOR(pg_catalog.=) 'p') AND NOT c.relispartition
      AND c.relname OPERATOR(pg_catalog.<>) ALL (ARRAY['log', 'log_spare', 'foreign_event']::pg_catalog.name[])
      AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_trigger t
        WHERE t.tgrelid OPERATOR(pg_catalog.=) c.oid AND t.tgname OPERATOR(pg_catalog.=) 'ignore_replicated')
  LOOP
    EXECUTE pg_catalog.format('CREATE TRIGGER ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON %s '
      'FOR EACH ROW EXECUTE FUNCTION outbox_internal.ignore_replicated()', name);
    EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE REPLICA TRIGGER ignore_replicated', name);
    EXECUTE pg_catalog.format('COMMENT ON TRIGGER ignore_replicated ON %s IS %L', name,
      'drops what a subscription brings; fires for nothing else');
  END LOOP;
END
$ignore$;
