-- ---------------------------------------------------------------------------------------------------------------------
-- A publication (FOR ALL TABLES includes ours): UPDATE and DELETE of a table that has no key are refused where it is
-- published, those of our own functions, too, unless the whole row stands for one. Behind all parts that make tables; day
-- tables that are made later have it of their parents. (Run again in a step from one version to the next, at its end and,
-- for what is there already, before the first statement that changes rows: see FIRST.)
-- ---------------------------------------------------------------------------------------------------------------------
DO $identity$
DECLARE
  name pg_catalog.regclass;
BEGIN
  FOR name IN
    WITH RECURSIVE ours AS (
      SELECT d.objid AS id FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_extension e ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox'
      WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.objsubid OPERATOR(pg_catalog.=) 0 AND d.deptype OPERATOR(pg_catalog.=) 'e'
      UNION
      SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN ours o ON i.inhparent OPERATOR(pg_catalog.=) o.id)
    SELECT c.oid FROM pg_catalog.pg_class c JOIN ours o ON o.id OPERATOR(pg_catalog.=) c.oid
    WHERE (c.relkind OPERATOR(pg_catalog.=) 'r' OR c.relkind OPERATOR(pg_catalog.=) 'p') AND c.relreplident OPERATOR(pg_catalog.=) 'd'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisprimary)
  LOOP
    EXECUTE pg_catalog.format('ALTER TABLE %s REPLICA IDENTITY FULL', name);
  END LOOP;
END
$identity$;
