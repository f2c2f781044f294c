-- ---------------------------------------------------------------------------------------------------------------------
-- What triggers the tables and views of outbox have, as they have just been made: doctor() compares. Behind all parts that make
-- some. (Run again in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
-- By what a trigger is, not by its text: that is another version's when the server is upgraded. And by plain names, which none
-- of ours needs quotes for: what is quoted follows quote_all_identifiers, in the session that made it and in the one that asks.
DO $made$
DECLARE
  made text;
  quoting text := pg_catalog.current_setting('quote_all_identifiers');
BEGIN
  PERFORM pg_catalog.set_config('quote_all_identifiers', 'off', true);
  SELECT pg_catalog.string_agg(pg_catalog.format('(%L, %L, %s, %L, %L, %L, %L, %L)', n.nspname OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) c.relname, t.tgname,
      t.tgtype, f.nspname OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) p.proname,
      (SELECT pg_catalog.string_agg(a.attname, ' ' ORDER BY a.attname) FROM pg_catalog.pg_attribute a
       WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.=) ANY (t.tgattr)),
      t.tgqual IS NOT NULL, t.tgenabled, pg_catalog.pg_get_triggerdef(t.oid)), E',\n'
      ORDER BY n.nspname, c.relname, t.tgname) INTO STRICT made
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
  JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.tgfoid
  JOIN pg_catalog.pg_namespace f ON f.oid OPERATOR(pg_catalog.=) p.pronamespace
  WHERE (n.nspname OPERATOR(pg_catalog.=) 'outbox' OR n.nspname OPERATOR(pg_catalog.=) 'outbox_internal')
    AND f.nspname OPERATOR(pg_catalog.=) 'outbox_internal'
    AND NOT c.relispartition AND NOT t.tgisinternal AND t.tgparentid OPERATOR(pg_catalog.=) 0;
  PERFORM pg_catalog.set_config('quote_all_identifiers', quoting, true);
  EXECUTE pg_catalog.format('CREATE OR REPLACE FUNCTION outbox_internal.own_triggers() '
    'RETURNS TABLE (relation text, trigger_name name, type int, function text, columns text, conditional boolean, enabled text, definition text) '
    'LANGUAGE sql STABLE AS %L',
    'SELECT v.relation, v.trigger_name::pg_catalog.name, v.type, v.function, v.columns, v.conditional::pg_catalog.bool, v.enabled, v.definition FROM (VALUES' OPERATOR(pg_catalog.||) E'\n' OPERATOR(pg_catalog.||) made OPERATOR(pg_catalog.||)
    E'\n) v (relation, trigger_name, type, function, columns, conditional, enabled, definition)');
END
$made$;
COMMENT ON FUNCTION outbox_internal.own_triggers() IS 'triggers of tables and views of outbox as this version makes them';

-- Day tables of the log have the triggers of statements each; those of rows they have of their parents.
CREATE OR REPLACE VIEW outbox_internal.missing_trigger AS
  SELECT x.relation, o.trigger_name, t.oid IS NOT NULL AS changed, o.enabled,
         pg_catalog.replace(o.definition, ' ON ' OPERATOR(pg_catalog.||) o.relation OPERATOR(pg_catalog.||) ' ',
                            ' ON ' OPERATOR(pg_catalog.||) x.relation::text OPERATOR(pg_catalog.||) ' ') AS definition
  FROM outbox_internal.own_triggers() o
  JOIN LATERAL (
    SELECT pg_catalog.to_regclass(o.relation) AS relation
    UNION ALL
    SELECT i.inhrelid::pg_catalog.regclass FROM pg_catalog.pg_inherits i
    WHERE o.relation OPERATOR(pg_catalog.=) 'outbox_internal.log' AND (o.type OPERATOR(pg_catalog.&) 1) OPERATOR(pg_catalog.=) 0
      AND i.inhparent OPERATOR(pg_catalog.=) pg_catalog.to_regclass(o.relation)::pg_catalog.oid AND NOT i.inhdetachpending
  ) x ON x.relation IS NOT NULL
  LEFT JOIN pg_catalog.pg_trigger t ON t.tgrelid OPERATOR(pg_catalog.=) x.relation::pg_catalog.oid
    AND t.tgname OPERATOR(pg_catalog.=) o.trigger_name AND NOT t.tgisinternal
  LEFT JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.tgfoid
  LEFT JOIN pg_catalog.pg_namespace f ON f.oid OPERATOR(pg_catalog.=) p.pronamespace
  WHERE t.oid IS NULL OR t.tgtype OPERATOR(pg_catalog.<>) o.type OR (t.tgqual IS NOT NULL) IS DISTINCT FROM o.conditional
    OR f.nspname OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) p.proname IS DISTINCT FROM o.function
    OR (SELECT pg_catalog.string_agg(a.attname, ' ' ORDER BY a.attname) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid OPERATOR(pg_catalog.=) t.tgrelid AND a.attnum OPERATOR(pg_catalog.=) ANY (t.tgattr)) IS DISTINCT FROM o.columns;
COMMENT ON VIEW outbox_internal.missing_trigger IS 'triggers of outbox that are not there any more, or are something else than was made';
COMMENT ON COLUMN outbox_internal.missing_trigger.relation IS 'table, or view';
COMMENT ON COLUMN outbox_internal.missing_trigger.trigger_name IS 'trigger';
COMMENT ON COLUMN outbox_internal.missing_trigger.changed IS 'one of that name is there';
COMMENT ON COLUMN outbox_internal.missing_trigger.enabled IS 'when it is to fire, as in pg_trigger.tgenabled';
COMMENT ON COLUMN outbox_internal.missing_trigger.definition IS 'the command that makes it';
