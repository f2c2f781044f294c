-- Every function and procedure of the schema, whichever there are, with NULL, empty, negative and absurd arguments: each error has
-- an SQLSTATE of its own kind, and says in a DETAIL or a HINT what to do. The next function is asked too.
-- matrix: R77
\set db :DBNAME
CREATE DATABASE regress_absurd;
\c regress_absurd
CREATE EXTENSION outbox;
CREATE SERVER regress_absurd FOREIGN DATA WRAPPER outbox_log;
CREATE SERVER regress_redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
CREATE SERVER regress_kafka FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '127.0.0.1:1');
BEGIN;
SELECT outbox.create_route('one', 'regress_absurd') > 0 AS made;
SELECT outbox.pause('one', reason => 'test') AS paused;
COMMIT;
SELECT outbox.emit('a', 1, 'e', '{}') AS id \gset
INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, state, aggregate_type, aggregate_id, event_type, payload, topic, error_class, error_code)
SELECT id, 0, '2026-01-01', '018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f', 'dead', 'a', '1', 'e', '1', 't', 'message', 'X' FROM outbox.route;

-- What is tried of each type; the first is what other arguments have meanwhile, where they have no default.
CREATE TABLE tried (type regtype PRIMARY KEY, plain text, absurd text[]);
INSERT INTO tried VALUES
  ('text', 'one', ARRAY['', ' ', E'\n', 'nie', '*', '{', repeat('x', 70000), E'\u00fc']),
  ('varchar', 'one', ARRAY['', ' ', 'nie', repeat('x', 70000)]),
  ('name', 'regress_absurd', ARRAY['', 'nie']),
  ('bigint', '1', ARRAY['0', '-1', '-9223372036854775808', '9223372036854775807']),
  ('integer', '1', ARRAY['0', '-1', '-2147483648', '2147483647']),
  ('numeric', '1', ARRAY['0', '-1', 'NaN', '1e300']),
  ('boolean', 'true', ARRAY['false']),
  ('uuid', '018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f', ARRAY['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']),
  ('jsonb', '{}', ARRAY['null', '[]', '5', '""', '"nie"', '{"": ""}', '{"a": {"b": 1}}', '{"id": "x"}', '[[1], null]']),
  ('json', '{}', ARRAY['null', '[]', '5', '"nie"']),
  ('outbox.text_arg', 'x', ARRAY['', ' ', repeat('x', 2000)]),
  ('outbox.json_arg', '{}', ARRAY['null', '[]', '5', '""', '{"a": {"b": 1}}']),
  ('bytea', '\x01', ARRAY['', '\x00ff']),
  ('text[]', '{one}', ARRAY['{}', '{NULL}', '{""}', '{{a},{b}}', '{nie,NULL}']),
  ('varchar[]', '{one}', ARRAY['{}', '{NULL}', '{""}', '{{a},{b}}']),
  ('jsonb[]', '{"{}"}', ARRAY['{}', '{NULL}', '{"null"}', '{"[]"}']),
  ('outbox.json_arg[]', '{"{}"}', ARRAY['{}', '{NULL}', '{"null"}', '{"[]"}']),
  ('uuid[]', '{018e5d0c-7a2b-7c33-9d1e-5a4b3c2d1e0f}', ARRAY['{}', '{NULL}', '{00000000-0000-0000-0000-000000000000}']),
  ('bigint[]', '{1}', ARRAY['{}', '{NULL}', '{-1}']),
  ('timestamptz', '2026-01-01', ARRAY['-infinity', 'infinity', '0001-01-01', '290000-01-01']),
  ('interval', '0', ARRAY['-1 s', '-1 month', '-1000000 years']),
  ('regrole', 'pg_monitor', ARRAY['0', '4294967295']);

CREATE FUNCTION calls() RETURNS TABLE (routine regprocedure, call text) LANGUAGE sql AS $$
  WITH routine AS (
    SELECT p.oid, p.prokind, p.proname, p.pronargs, p.pronargdefaults FROM pg_proc p
    WHERE p.pronamespace = 'outbox'::regnamespace AND p.prokind IN ('f', 'p')
      AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
      AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) t WHERE t IN ('internal'::regtype, 'cstring'::regtype))
      AND p.proname !~ '^json_arg|_validator$'
  ), argument AS (
    SELECT r.oid, n, t.type, r.prokind = 'p' OR n <= r.pronargs - r.pronargdefaults AS needed,
      coalesce((SELECT (array_remove(p.proargnames, NULL))[n] FROM pg_proc p WHERE p.oid = r.oid), '') AS name
    FROM routine r, pg_proc p, unnest(p.proargtypes::oid[]) WITH ORDINALITY t (type, n) WHERE p.oid = r.oid
  ), value AS (
    SELECT a.*, v.value FROM argument a, LATERAL (
      SELECT NULL AS value UNION ALL SELECT unnest(t.absurd) FROM tried t WHERE t.type = a.type) v
  )
  SELECT r.oid::regprocedure, format(CASE r.prokind WHEN 'p' THEN 'CALL outbox.%I(%s)' ELSE 'SELECT * FROM outbox.%I(%s)' END, r.proname,
      (SELECT string_agg(format('%s%L::%s', CASE WHEN o.name <> '' THEN format('%I => ', o.name) END,
          CASE WHEN o.n = v.n THEN v.value ELSE (SELECT t.plain FROM tried t WHERE t.type = o.type) END, o.type::regtype), ', ' ORDER BY o.n)
       FROM argument o WHERE o.oid = r.oid AND (o.n = v.n OR (o.needed AND r.prokind = 'f') OR o.type = 'interval'::regtype)))
  FROM routine r JOIN value v ON v.oid = r.oid
  UNION ALL  -- nothing at all, and nothing but NULL
  SELECT r.oid::regprocedure, format(CASE r.prokind WHEN 'p' THEN 'CALL outbox.%I(%s)' ELSE 'SELECT * FROM outbox.%I(%s)' END, r.proname,
      (SELECT string_agg(format('%sNULL::%s', CASE WHEN o.name <> '' THEN format('%I => ', o.name) END, o.type::regtype), ', ' ORDER BY o.n)
       FROM argument o WHERE o.oid = r.oid))
  FROM routine r
$$;
CREATE TABLE said (routine regprocedure, call text, code text, message text, detail text, hint text);
CREATE PROCEDURE try_all() LANGUAGE plpgsql AS $$
DECLARE
  c record;
  s said;
BEGIN
  SET LOCAL client_min_messages = error;
  FOR c IN SELECT * FROM calls() LOOP
    s := ROW(c.routine, c.call, NULL, NULL, NULL, NULL);
    BEGIN
      EXECUTE c.call;
      RAISE EXCEPTION USING ERRCODE = 'ZZ999';
    EXCEPTION
      WHEN SQLSTATE 'ZZ999' THEN NULL;
      WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS s.code = RETURNED_SQLSTATE, s.message = MESSAGE_TEXT, s.detail = PG_EXCEPTION_DETAIL, s.hint = PG_EXCEPTION_HINT;
    END;
    INSERT INTO said SELECT s.*;
  END LOOP;
END $$;
CALL try_all();
-- types that nobody has thought of here
SELECT DISTINCT t::regtype AS type_without_values FROM pg_proc p, unnest(p.proargtypes) t
WHERE p.pronamespace = 'outbox'::regnamespace AND p.oid IN (SELECT routine FROM said) AND NOT EXISTS (SELECT FROM tried WHERE type = t);
SELECT count(DISTINCT routine) > 35 AS routines, count(*) > 1000 AS calls, count(code) > 300 AS refused FROM said;
-- what helps nobody
SELECT routine, code, left(message, 100) AS message, min(left(call, 150)) AS such_as FROM said
WHERE code LIKE 'XX%' OR (detail = '' AND hint = '') OR message ~ '^[A-Z]' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- What views and functions call is asked about NULL, too, in each argument and in all of them: it is answered or refused.
CREATE TABLE internal (call text, code text);
DO $$
DECLARE
  c text;
BEGIN
  FOR c IN
    SELECT format('SELECT * FROM outbox_internal.%I(%s)', p.proname,
      (SELECT string_agg(format('%L::%s', CASE WHEN a.n <> one AND one > 0 THEN t.plain END, a.type::regtype), ', ' ORDER BY a.n)
       FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a (type, n) LEFT JOIN tried t ON t.type = a.type))
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang, generate_series(0, p.pronargs) one
    WHERE p.pronamespace = 'outbox_internal'::regnamespace AND p.prokind = 'f' AND l.lanname = 'c' AND p.pronargs > 0 AND p.prorettype <> 'trigger'::regtype
      AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) t WHERE t IN ('internal'::regtype, 'cstring'::regtype))
  LOOP
    BEGIN
      EXECUTE c;
      INSERT INTO internal VALUES (c);
    EXCEPTION WHEN OTHERS THEN
      INSERT INTO internal VALUES (c, SQLSTATE);
    END;
  END LOOP;
END $$;
SELECT count(*) > 10 AS calls FROM internal;
SELECT code, call FROM internal WHERE code LIKE 'XX%' OR call ~ 'check_json_schema' ORDER BY 2;

-- The same of options of servers and of routes.
CREATE FUNCTION refused(command text) RETURNS TABLE (code text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  RAISE EXCEPTION USING ERRCODE = 'ZZ999';
EXCEPTION WHEN SQLSTATE 'ZZ999' THEN RETURN;
WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  RETURN NEXT;
END $$;
SELECT command, code, message FROM unnest(ARRAY['regress_redis', 'regress_kafka', 'regress_absurd']) s,
  unnest(ARRAY['acks', 'group.id', 'nie', 'host', 'port', 'bootstrap.servers', 'tls', 'password', 'sasl.password', 'linger.ms', 'compression.type', 'plugin.library.paths']) o,
  unnest(ARRAY['', '-1', 'nie']) v, format('ALTER SERVER %I OPTIONS (ADD %I %L)', s, o, v) command, refused(command)
WHERE code LIKE 'XX%' OR (detail = '' AND hint = '' AND code <> '42710');
-- A document that is nested too deeply says so.
SELECT code, hint FROM refused($$SELECT outbox.emit('a'::varchar, 'k'::varchar, 'e'::varchar, (repeat('[', 100000) || repeat(']', 100000))::outbox.json_arg)$$);
-- Names with quotes in a hint are quoted as it has to be typed.
CREATE SERVER "o'hare" FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
SELECT outbox.create_route('it''s', 'o''hare', topic => '''top''') > 0 AS made;
SELECT outbox.alter_route('it''s');
SET client_min_messages = error;
SET outbox.allow_loss = on;
DROP EXTENSION outbox CASCADE;
\c :db
DROP DATABASE regress_absurd;
