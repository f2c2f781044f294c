-- Which function a call of emit() and its kin finds, by the types of what it is given: literals, and parameters that drivers
-- declare as unknown, text, varchar, json, jsonb, bytea, bigint, uuid. What untyped parameters are described as decides how
-- strict drivers encode them. No call is ambiguous, and none that found nothing finds something.
CREATE TEMP TABLE calls (n int GENERATED ALWAYS AS IDENTITY, call text);
-- The payload as each type, all else the same: as one type declares all its strings, or as literals.
INSERT INTO calls (call) SELECT format('emit(%s, %s, %s, %s)', a, k, e, p)
FROM (VALUES ($$'order'$$, $$'created'$$), ($$'order'::text$$, $$'created'::text$$), ($$'order'::varchar$$, $$'created'::varchar$$), ($$'order'::varchar$$, $$'created'$$), ($$'order'::text$$, $$'created'::varchar$$)) AS s (a, e),
  (VALUES (1, $$'1'$$), (2, 'NULL'), (3, '1'), (4, '1::bigint'), (5, $$'1'::text$$), (6, $$'1'::varchar$$), (7, $$'7a3d5bd0-9b1e-4d53-a1e5-d9a5a6a3e7d0'::uuid$$)) AS kk (o, k),
  (VALUES (1, $$'{"a":  1}'$$), (2, $$'{"a":  1}'::text$$), (3, $$'{"a":  1}'::varchar$$), (4, $$'{"a":  1}'::json$$), (5, $$'{"a":  1}'::jsonb$$), (6, $$'{"a":  1}'::outbox.json_arg$$), (7, $$'\x00'::bytea$$)) AS pp (o, p);
-- The arguments that may be left out: by place, by name, alone, as NULL of each kind.
INSERT INTO calls (call) SELECT format('emit(%s, %s, %s, %s%s)', s.a, k, s.e, s.p, more)
FROM (VALUES ($$'order'$$, $$'created'$$, $$'{"a":  1}'$$), ($$'order'::text$$, $$'created'::text$$, $$'{"a":  1}'::text$$), ($$'order'::varchar$$, $$'created'::varchar$$, $$'{"a":  1}'::varchar$$), ($$'order'$$, $$'created'$$, $$'{"a":  1}'::jsonb$$)) AS s (a, e, p),
  (VALUES ($$'1'$$), ('1')) AS kk (k),
  (VALUES ($$, NULL$$), ($$, '{"h": "1"}'$$), ($$, '{"h": "1"}'::jsonb$$), ($$, '{"h": "1"}'::json$$), ($$, '{"h": "1"}'::text$$), ($$, '{"h": "1"}'::varchar$$), ($$, NULL::varchar$$), ($$, NULL::jsonb$$),
    ($$, NULL, 't'$$), ($$, NULL, 't'::text$$), ($$, NULL, 't'::varchar$$), ($$, NULL, NULL, NULL$$), ($$, NULL, 't', now() + interval '1 hour'$$), ($$, NULL, NULL, '2030-01-01'$$),
    ($$, headers => '{"h": "1"}'$$), ($$, topic => 't'$$), ($$, topic => 't'::text$$), ($$, topic => 't'::varchar$$), ($$, deliver_at => now()$$), ($$, deliver_at => NULL$$), ($$, deliver_at => '2026-01-01', topic => 't'$$), ($$, topic => NULL, headers => NULL$$)) AS m (more);
INSERT INTO calls (call) VALUES
  ($$emit(aggregate_type => 'order', aggregate_id => '1', event_type => 'created', payload => '{"a":  1}')$$),
  ($$emit(payload => '{"a":  1}', event_type => 'created', aggregate_id => 1, aggregate_type => 'order')$$),
  ($$emit('order', '1', payload => '{"a":  1}', event_type => 'created')$$),
  ($$emit('order', '1', 'created')$$), ($$emit('order', '1')$$), ($$emit('order', 1.5, 'created', '{}')$$), ($$emit('order', true, 'created', '{}')$$), ($$emit('order', '1', 'created', 1)$$);
-- The kin.
INSERT INTO calls (call) SELECT format('%s(%s, %s, %s, %s%s)', f, s.a, k, s.e, p, more)
FROM (VALUES ($$'order'$$, $$'created'$$), ($$'order'::text$$, $$'created'::text$$), ($$'order'::varchar$$, $$'created'::varchar$$)) AS s (a, e), (VALUES ($$'1'$$), ('1')) AS kk (k),
  (VALUES ('emit_text', $$'x'$$), ('emit_text', $$'x'::varchar$$), ('emit_text', $$'x'::text$$), ('emit_text', $$'{}'::jsonb$$), ('emit_bytes', $$'\x00'$$), ('emit_bytes', $$'\x00'::bytea$$), ('emit_bytes', $$'x'::text$$)) AS b (f, p),
  (VALUES (''), ($$, 'text/csv'$$), ($$, NULL, '{"h": "1"}', 't'$$), ($$, topic => 't'$$)) AS m (more);
INSERT INTO calls (call) SELECT format('emit_tombstone(%s, %s, %s%s)', s.a, k, s.e, more)
FROM (VALUES ($$'order'$$, $$'created'$$), ($$'order'::varchar$$, $$'created'::varchar$$)) AS s (a, e), (VALUES ($$'1'$$), ('1')) AS kk (k), (VALUES (''), ($$, '{"h": "1"}'$$), ($$, topic => 't'$$)) AS m (more);

-- The function that a call finds is in the plan of a query; what was stored, in the log.
CREATE FUNCTION found(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  id oid;
BEGIN
  EXECUTE format('CREATE FUNCTION pg_temp.one_call() RETURNS uuid LANGUAGE sql BEGIN ATOMIC SELECT outbox.%s; END', call);
  SELECT d.refobjid INTO STRICT id FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = to_regproc('pg_temp.one_call')
    AND d.refclassid = 'pg_proc'::regclass AND d.refobjid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND proname LIKE 'emit%');
  DROP FUNCTION pg_temp.one_call();
  RETURN (SELECT format('%s(%s)', proname, replace(replace(array_to_string((string_to_array(oidvectortypes(proargtypes), ', '))[1:5], ', '), 'character varying', 'varchar'), 'outbox.json_arg', 'json_arg')) FROM pg_proc WHERE oid = id);
EXCEPTION WHEN undefined_function OR ambiguous_function THEN
  RETURN SQLERRM;
END $$;
CREATE FUNCTION stored_by(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  what text;
BEGIN
  EXECUTE format('SELECT outbox.%s', call);
  SELECT concat_ws(' ', aggregate_id, encode(payload, 'escape'), content_type, headers, topic, CASE WHEN deliver_at IS NOT NULL THEN 'later' END) INTO what
  FROM outbox_internal.log WHERE xid = pg_current_xact_id() ORDER BY created_at DESC LIMIT 1;
  RETURN what;
EXCEPTION WHEN undefined_function OR ambiguous_function THEN
  RETURN NULL;
END $$;
\pset format unaligned
\pset tuples_only on
BEGIN;
SELECT call, found(call), stored_by(call) FROM calls ORDER BY n;
ROLLBACK;
\pset tuples_only off

-- What an untyped parameter is described as, and a prepared call with each type of parameter, once and when its plan is generic.
CREATE TEMP TABLE prepared (n int GENERATED ALWAYS AS IDENTITY, types text, call text, described text);
INSERT INTO prepared (types, call) SELECT format('(%s)', types), call
FROM (VALUES (1, 'unknown, unknown, unknown, unknown'), (2, 'text, text, text, text'), (3, 'varchar, varchar, varchar, varchar'), (4, 'text, bigint, text, jsonb'), (5, 'varchar, bigint, varchar, json'),
    (6, 'varchar, uuid, varchar, varchar'), (7, 'unknown, int, unknown, jsonb'), (8, 'text, text, text, outbox.json_arg'), (9, 'varchar, varchar, varchar, jsonb'), (10, 'text, text, text, bytea')) AS t (o, types),
  (VALUES (1, 'emit($1, $2, $3, $4)'), (2, 'emit($1, $2, $3, $4, NULL)'), (3, 'emit($1, $2, $3, $4, topic => ''t'')'), (4, 'emit_text($1, $2, $3, $4)'), (5, 'emit_bytes($1, $2, $3, $4)')) AS c (o2, call)
ORDER BY o, o2;
INSERT INTO prepared (types, call) VALUES ('(unknown, unknown, unknown, unknown, unknown, unknown, unknown)', 'emit($1, $2, $3, $4, $5, $6, $7)'), ('(varchar, varchar, varchar, varchar, varchar, varchar)', 'emit($1, $2, $3, $4, $5, $6)'),
  ('(unknown, unknown, unknown, unknown, unknown)', 'emit($1, $2, $3, $4, topic => $5)'), ('(unknown, unknown, unknown, unknown, unknown)', 'emit_text($1, $2, $3, $4, $5)'), ('', 'emit_many($1)'), ('', 'emit_many($1, $2, $3, $4)'),
  ('(text, varchar[], text, text[])', 'emit_many($1, $2, $3, $4)'), ('(text, text[], text, jsonb[])', 'emit_many($1, $2, $3, $4)');
DO $$
DECLARE
  p record;
BEGIN
  FOR p IN SELECT * FROM prepared ORDER BY n LOOP
    BEGIN
      EXECUTE format('PREPARE one_call%s AS SELECT outbox.%s', p.types, p.call);
      UPDATE prepared SET described = (SELECT parameter_types::text FROM pg_prepared_statements WHERE name = 'one_call') WHERE n = p.n;
      DEALLOCATE one_call;
    EXCEPTION WHEN undefined_function OR ambiguous_function OR datatype_mismatch OR indeterminate_datatype THEN
      UPDATE prepared SET described = SQLERRM WHERE n = p.n;
    END;
  END LOOP;
END $$;
SELECT types, call, described FROM prepared ORDER BY n;
\pset format aligned
CREATE TEMP VIEW stored_now AS SELECT aggregate_id, convert_from(payload, 'UTF8') AS payload, headers, topic FROM outbox_internal.log WHERE xid = pg_current_xact_id_if_assigned() ORDER BY created_at;
BEGIN;
PREPARE untyped AS SELECT outbox.emit($1, $2, $3, $4) IS NOT NULL AS emitted;
PREPARE strings (varchar, varchar, varchar, varchar) AS SELECT outbox.emit($1, $2, $3, $4) IS NOT NULL AS emitted;
PREPARE typed (text, bigint, text, jsonb, jsonb) AS SELECT outbox.emit($1, $2, $3, $4, $5, topic => 't') IS NOT NULL AS emitted;
SET LOCAL plan_cache_mode = force_generic_plan;
EXECUTE untyped('order', '1', 'created', '{"a":  1}');
EXECUTE strings('order', '1', 'created', '{"a":  1}');
EXECUTE typed('order', 1, 'created', '{"a":  1}', '{"h": "1"}');
SET LOCAL plan_cache_mode = force_custom_plan;
EXECUTE untyped('order', '2', 'created', '{"a":  2}');
EXECUTE strings('order', '2', 'created', '{"a":  2}');
EXECUTE typed('order', 2, 'created', '{"a":  2}', NULL);
SELECT * FROM stored_now;
ROLLBACK;
DEALLOCATE ALL;
DROP FUNCTION found, stored_by;
