-- ---------------------------------------------------------------------------------------------------------------------
-- The right to act on parked events, pause, replay and move routes. One line instead of a page of grants. An operator
-- also sees what pg_monitor sees here, and the content of parked events; the functions work with the owner's rights on
-- the tables, and outbox.audit has the role that called.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.operate_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
    AND p.proname IN ('pause', 'resume', 'retry', 'skip', 'discard', 'redrive', 'discard_dead_letters', 'parked_content',
                      'replay', 'cancel_replay', 'seek', 'drop_expired', 'test_server',
                      'forget_received', 'reprocess', 'forget_consumer', 'seek_stream');
END;
COMMENT ON FUNCTION outbox_internal.operate_routines() IS 'functions that an operator calls to act';

-- What the other sections grant to pg_monitor, as a list that stays whatever somebody revokes. (sql/587 compares the two.) Members of
-- the extension only: what users keep in its schemas is theirs.
CREATE OR REPLACE FUNCTION outbox_internal.monitor_grants() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  WITH member AS (
    SELECT d.classid, d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
    WHERE e.extname = 'outbox' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  ), relation AS (
    SELECT c.oid, n.nspname, c.relname FROM member m JOIN pg_catalog.pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  )
  SELECT format('EXECUTE ON ROUTINE %s', p.oid::regprocedure)
  FROM member m JOIN pg_catalog.pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
    AND p.proname IN ('status', 'events_of', 'version', 'doctor', 'doctor_ok', 'metrics', 'metrics_text',
                      'lanes', 'lone_emit', 'destination', 'worker', 'process', 'day', 'key_dead', 'key_head', 'key_pause', 'latency', 'progress_view', 'received')
  UNION ALL
  SELECT format('SELECT ON %s', r.oid::regclass) FROM relation r
  WHERE (r.nspname = 'outbox' AND r.relname IN (
      'route', 'pause', 'audit', 'replay',
      'blocked_key', 'day', 'dead_letter', 'dead_letter_summary', 'destination', 'event_schemas', 'lag', 'latency', 'lone_emit', 'parked_event', 'process', 'received', 'worker',
      'pg_stat_progress_outbox'))
    OR (r.nspname = 'outbox_internal' AND r.relname = 'waiting')
  UNION ALL
  -- Everything of a parked event but what only its reader should see.
  SELECT format('SELECT (%s) ON %s', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), a.attrelid::regclass)
  FROM relation r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
  WHERE r.nspname = 'outbox_internal' AND r.relname = 'parked' AND a.attname IN (
    'route_id', 'lane', 'created_at', 'id', 'replay', 'state', 'order_key', 'due_at', 'sender', 'aggregate_type', 'aggregate_id',
    'event_type', 'content_type', 'own_topic', 'topic', 'attempts', 'error_class', 'error_code', 'error_message', 'failed_at', 'parked_at')
  GROUP BY a.attrelid;
END;
COMMENT ON FUNCTION outbox_internal.monitor_grants() IS 'what members of pg_monitor may look at';

CREATE OR REPLACE FUNCTION outbox_internal.operate_grants() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT format('EXECUTE ON ROUTINE %s', r) FROM outbox_internal.operate_routines() r
  UNION ALL
  SELECT outbox_internal.monitor_grants();
END;
COMMENT ON FUNCTION outbox_internal.operate_grants() IS 'what grant_operate() grants';

CREATE OR REPLACE FUNCTION outbox.grant_operate(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $grant$
BEGIN
  PERFORM outbox_internal.check_role(role, 'operate', true);
  PERFORM outbox_internal.grant_to(role, 'operate');
END
$grant$;
COMMENT ON FUNCTION outbox.grant_operate(regrole) IS 'lets a role look, read and act on parked events, pause and resume, replay and seek';

CREATE OR REPLACE FUNCTION outbox.revoke_operate(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $revoke$
BEGIN
  PERFORM outbox_internal.check_role(role, 'operate', false);
  IF NOT outbox_internal.revoke_from(role, 'operate') THEN
    RAISE NOTICE 'role % had no right to operate of its own', role;
  END IF;
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_operate(regrole) IS 'takes back what grant_operate() granted; USAGE on the schema unless the role has another right there. pg_monitor goes on looking';
