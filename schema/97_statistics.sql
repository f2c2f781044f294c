-- ---------------------------------------------------------------------------------------------------------------------
-- What forget() erases is in no statistics: ANALYZE would keep values of it in pg_statistic, and keeps them when the rows are
-- gone. (Day tables do the like when they are made.) The step from one version to the next removes what there is.
-- ---------------------------------------------------------------------------------------------------------------------
DO $statistics$
DECLARE
  kept pg_catalog.regclass;
BEGIN
  FOREACH kept IN ARRAY '{outbox_internal.log,outbox_internal.log_spare,outbox_internal.parked,outbox_internal.foreign_event}'::pg_catalog.regclass[] LOOP
    EXECUTE pg_catalog.format('ALTER TABLE %s ALTER COLUMN payload SET STATISTICS 0, ALTER COLUMN headers SET STATISTICS 0', kept);
  END LOOP;
  DELETE FROM pg_catalog.pg_statistic s USING pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid
  WHERE c.relnamespace OPERATOR(pg_catalog.=) 'outbox_internal'::pg_catalog.regnamespace AND a.attname OPERATOR(pg_catalog.=) ANY ('{payload,headers}'::pg_catalog.name[])
    AND s.starelid OPERATOR(pg_catalog.=) a.attrelid AND s.staattnum OPERATOR(pg_catalog.=) a.attnum;
END
$statistics$;
