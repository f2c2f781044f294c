-- ---------------------------------------------------------------------------------------------------------------------
-- dedupe_key: tables of the keys, an argument more of each emit function, columns of the view.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE TABLE outbox_internal.emit_key (
  at     timestamptz NOT NULL,
  digest bytea       NOT NULL,
  id     uuid        NOT NULL
) PARTITION BY RANGE (at);
COMMENT ON TABLE outbox_internal.emit_key IS 'what dedupe_key of emit() has emitted, by days, for outbox.dedupe_retention; to free a key, delete its row';
COMMENT ON COLUMN outbox_internal.emit_key.at IS 'created_at of the event';
COMMENT ON COLUMN outbox_internal.emit_key.digest IS 'SHA-256 of topic (as outbox.grant_emit() counts it), a zero byte and key, in UTF-8: nobody reads a key here';
COMMENT ON COLUMN outbox_internal.emit_key.id IS 'id of the event';
CREATE TABLE outbox_internal.emit_key_spare (LIKE outbox_internal.emit_key INCLUDING COMMENTS) USING heap WITH (fillfactor = 100, autovacuum_enabled = false);
CREATE INDEX emit_key_spare_digest ON outbox_internal.emit_key_spare USING btree (digest);
CREATE INDEX emit_key_spare_at ON outbox_internal.emit_key_spare USING btree (at);
COMMENT ON TABLE outbox_internal.emit_key_spare IS 'keys whose day had no table; emptied as a whole when all of them have expired';
COMMENT ON INDEX outbox_internal.emit_key_spare_digest IS 'how emit() finds a key';
COMMENT ON INDEX outbox_internal.emit_key_spare_at IS 'how the keeper finds the newest';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.emit_key', '');
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.emit_key_spare', '');

-- The functions stay the same objects, with what was granted on them, and with the views and SQL functions of users that call
-- them: those hold the arguments that they gave, and the planner adds the others. No command adds an argument to a function;
-- contrib's own updates do it so, too.
DO $arguments$
DECLARE
  f record;
BEGIN
  FOR f IN
    SELECT p.oid AS id, pg_catalog.pg_get_function_arguments(p.oid) AS arguments, pg_catalog.pg_get_function_result(p.oid) AS result, p.prosrc AS symbol,
      CASE p.proname WHEN 'emit_many' THEN 'dedupe_keys text[]' ELSE 'dedupe_key text' END AS argument
    FROM pg_catalog.pg_proc p
    WHERE p.pronamespace OPERATOR(pg_catalog.=) 'outbox'::pg_catalog.regnamespace AND p.pronargdefaults OPERATOR(pg_catalog.>) 0
      AND p.proname OPERATOR(pg_catalog.~) '^emit(_text|_bytes|_tombstone|_many)?$'
      AND p.proargnames[p.pronargs] OPERATOR(pg_catalog.=) 'deliver_at' AND outbox_internal.is_ours('pg_catalog.pg_proc', p.oid)
  LOOP
    EXECUTE pg_catalog.format('CREATE FUNCTION outbox_internal.with_dedupe_key(%s, %s DEFAULT NULL) RETURNS %s LANGUAGE c AS %L, %L',
      f.arguments, f.argument, f.result, 'MODULE_PATHNAME', f.symbol);
    UPDATE pg_catalog.pg_proc p SET pronargs = m.pronargs, pronargdefaults = m.pronargdefaults, proargtypes = m.proargtypes,
      proargnames = m.proargnames, proargdefaults = m.proargdefaults
    FROM pg_catalog.pg_proc m
    WHERE p.oid OPERATOR(pg_catalog.=) f.id AND m.oid OPERATOR(pg_catalog.=) pg_catalog.to_regproc('outbox_internal.with_dedupe_key')::pg_catalog.oid;
    DROP FUNCTION outbox_internal.with_dedupe_key;
  END LOOP;
END
$arguments$;

CREATE OR REPLACE VIEW outbox.event AS
  SELECT e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.headers, e.topic, e.created_at,
         e.content_type, e.payload_text, e.payload_bytes, e.deliver_at, e.dedupe_key, e.schema_version, e.dataschema
  FROM outbox_internal.own_event e;
COMMENT ON COLUMN outbox.event.dedupe_key IS 'emits once: an insert with a key that has emitted within outbox.dedupe_retention writes nothing, and RETURNING has the id of that event; reads NULL';
COMMENT ON COLUMN outbox.event.schema_version IS 'version of the payload''s schema: header schema_version';
COMMENT ON COLUMN outbox.event.dataschema IS 'URI of the payload''s schema: header dataschema';
