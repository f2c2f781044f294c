-- ---------------------------------------------------------------------------------------------------------------------
-- A tablespace that somebody set as default takes our tables as any. PostgreSQL refuses partitioned tables where that is the
-- database's own by name, which is what it takes without.
-- ---------------------------------------------------------------------------------------------------------------------
DO $tablespace$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_database d JOIN pg_catalog.pg_tablespace t ON t.oid OPERATOR(pg_catalog.=) d.dattablespace
             WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
               AND t.spcname::text OPERATOR(pg_catalog.=) pg_catalog.current_setting('default_tablespace')) THEN
    PERFORM pg_catalog.set_config('default_tablespace', '', true);
  END IF;
END
$tablespace$;
