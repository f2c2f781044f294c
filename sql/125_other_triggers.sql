-- matrix: C19
-- Trigger functions of the extension, called by other triggers than theirs: refused before anything is taken for what it is not.
\set db :DBNAME
CREATE DATABASE regress_uses;
\c regress_uses
CREATE EXTENSION outbox;
SET outbox.lone_emit = allow;
CREATE SERVER regress_uses FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.create_route('one', 'regress_uses') > 0 AS made;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
\x on
\t on

-- a view with as many columns of other types
CREATE VIEW my_event AS SELECT NULL::uuid AS id, ''::text AS aggregate_type, 0::bigint AS aggregate_id, ''::text AS event_type, NULL::jsonb AS payload,
  NULL::jsonb AS headers, NULL::text AS topic, now() AS created_at, NULL::text AS content_type, NULL::text AS payload_text, NULL::bytea AS payload_bytes,
  NULL::timestamptz AS deliver_at, NULL::text AS dedupe_key, NULL::int AS schema_version, NULL::text AS dataschema;
CREATE TRIGGER e INSTEAD OF INSERT ON my_event FOR EACH ROW EXECUTE FUNCTION outbox_internal.event_insert();
SELECT * FROM refused($$INSERT INTO my_event (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', 42, 'order.created', '{}')$$);
CREATE VIEW like_event AS SELECT * FROM outbox.event;
CREATE TRIGGER e INSTEAD OF INSERT ON like_event FOR EACH ROW EXECUTE FUNCTION outbox_internal.event_insert();
INSERT INTO like_event (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', 42, 'order.created', '{}') RETURNING aggregate_id, payload;

-- a trigger of routes on another table
CREATE TABLE elsewhere (id int, name text);
INSERT INTO elsewhere VALUES (1, NULL);
CREATE TRIGGER t AFTER UPDATE ON elsewhere FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.note_route();
SELECT * FROM refused('UPDATE elsewhere SET id = 2');
CREATE OR REPLACE TRIGGER t AFTER UPDATE ON elsewhere FOR EACH ROW EXECUTE FUNCTION outbox_internal.note_route();
SELECT * FROM refused('UPDATE elsewhere SET id = 2');
-- one that asks what has gone from the log, and is not told
SET outbox.allow_loss = on;
SET client_min_messages = error;
CREATE TRIGGER more AFTER DELETE ON outbox_internal.log FOR EACH STATEMENT EXECUTE FUNCTION outbox_internal.refuse_loss();
SELECT * FROM refused('DELETE FROM outbox_internal.log');
DROP TRIGGER more ON outbox_internal.log;
CREATE TRIGGER more AFTER DELETE ON outbox_internal.log FOR EACH ROW EXECUTE FUNCTION outbox_internal.refuse_loss();
SELECT code, message FROM refused('DELETE FROM outbox_internal.log');
DROP TRIGGER more ON outbox_internal.log;
RESET outbox.allow_loss;
RESET client_min_messages;

-- each function by each kind of trigger, of a table and of a view: done or refused, and never what it was not meant for
\x off
\t off
CREATE TABLE uses (function text, kind text, event text, answer text);
DO $$
DECLARE
  function record;
  kind text;
  event text;
BEGIN
  FOR function IN SELECT p.oid::regprocedure AS name, CASE p.proname WHEN 'emit_row' THEN $q$'u', 'id'$q$ ELSE '' END AS arguments
                  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
                  WHERE l.lanname = 'c' AND p.prorettype = 'trigger'::regtype AND p.pronamespace::regnamespace::text LIKE 'outbox%' LOOP
    FOREACH kind IN ARRAY ARRAY['BEFORE ROW', 'AFTER ROW', 'BEFORE STATEMENT', 'AFTER STATEMENT', 'INSTEAD OF ROW'] LOOP
      FOREACH event IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'] LOOP
        CONTINUE WHEN event = 'TRUNCATE' AND kind LIKE '% ROW';
        IF kind LIKE 'INSTEAD%' THEN
          CREATE VIEW used AS SELECT 1 AS id, 'x'::text AS name, 'y'::text AS server;
        ELSE
          CREATE TABLE used (id int, name text, server text);
          INSERT INTO used VALUES (1, NULL, NULL);
        END IF;
        EXECUTE format('CREATE TRIGGER used %s %s ON used FOR EACH %s EXECUTE FUNCTION %s(%s)', regexp_replace(kind, ' \w+$', ''), event,
                       substring(kind FROM '\w+$'), function.name::regproc, function.arguments);
        INSERT INTO uses VALUES (function.name, kind, event,
          left(tried(CASE event WHEN 'INSERT' THEN 'INSERT INTO used VALUES (2)' WHEN 'UPDATE' THEN 'UPDATE used SET id = 3'
                                WHEN 'DELETE' THEN 'DELETE FROM used' ELSE 'TRUNCATE used' END), 5));
        IF kind LIKE 'INSTEAD%' THEN DROP VIEW used; ELSE DROP TABLE used; END IF;
      END LOOP;
    END LOOP;
  END LOOP;
END
$$;
SELECT function, answer, string_agg(short, ', ' ORDER BY short) AS of
FROM (SELECT function, answer, kind || ': ' || string_agg(left(event, 1), '' ORDER BY event) AS short FROM uses GROUP BY function, answer, kind) s
GROUP BY function, answer ORDER BY function, answer;

\c :db
DROP DATABASE regress_uses;
