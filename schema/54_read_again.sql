-- ---------------------------------------------------------------------------------------------------------------------
-- Tables that sessions remember (src/pg/cached_table.h): who may emit and receive, schemas of payloads, topics that routes know,
-- what the inbox keeps. (Run again in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.read_again() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_read_again';
COMMENT ON FUNCTION outbox_internal.read_again() IS 'has every session read the table again that it remembers';

DO $changed$
DECLARE
  name pg_catalog.regclass;
  trigger text;
BEGIN
  FOREACH name IN ARRAY ARRAY['outbox_internal.emit_right', 'outbox_internal.receive_right', 'outbox_internal.event_schema', 'outbox.route',
                              'outbox_internal.inbox_kept'] LOOP
    -- For each row: a statement that changes none has nobody read anything again.
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER read_again AFTER INSERT OR UPDATE OR DELETE ON %s '
      'FOR EACH ROW EXECUTE FUNCTION outbox_internal.read_again()', name);
    EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER read_again_emptied AFTER TRUNCATE ON %s '
      'FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.read_again()', name);
    FOREACH trigger IN ARRAY ARRAY['read_again', 'read_again_emptied'] LOOP
      EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', name, trigger);
      EXECUTE pg_catalog.format('COMMENT ON TRIGGER %I ON %s IS %L', trigger, name, 'has every session read it again');
    END LOOP;
  END LOOP;
END
$changed$;
