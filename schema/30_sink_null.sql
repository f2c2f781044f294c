
-- ---------------------------------------------------------------------------------------------------------------------
-- The foreign-data wrapper outbox_null: a destination is a server of it. No handler: there is nothing to query. USAGE is not
-- granted to anybody: the owner of a server decides where events go. All of this may be run again, as an update does.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox_internal.null_validator(options text[], catalog oid) RETURNS void
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_validator';
COMMENT ON FUNCTION outbox_internal.null_validator(text[], oid) IS 'checks the options of servers and user mappings of outbox_null';

DO $wrapper$
BEGIN
  -- One of that name that is not the extension's is in the way, and CREATE says so.
  IF NOT EXISTS (
    SELECT FROM pg_catalog.pg_foreign_data_wrapper w
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_foreign_data_wrapper'::pg_catalog.regclass AND d.objid = w.oid
    JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid
    WHERE w.fdwname = 'outbox_null' AND d.deptype = 'e' AND e.extname = 'outbox')
  THEN
    CREATE FOREIGN DATA WRAPPER outbox_null NO HANDLER VALIDATOR outbox_internal.null_validator;
  END IF;
END
$wrapper$;
COMMENT ON FOREIGN DATA WRAPPER outbox_null IS 'nothing as a destination of outbox: throws events away and counts them as delivered, for benchmarks';
