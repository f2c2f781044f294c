-- What runs with the rights of the owner of the tables, and fails there, leaves the caller's own: who he is, his settings, and
-- that his commands are a person's (to whom the guards speak), however the error is caught.
\set db :DBNAME
CREATE DATABASE regress_rights;
\c regress_rights
CREATE EXTENSION outbox;
CREATE SERVER regress_rights FOREIGN DATA WRAPPER outbox_log;
CREATE ROLE regress_rights_owner;
CREATE ROLE regress_rights_caller;
DO $$ DECLARE what text; BEGIN
  FOR what IN SELECT format('ALTER TABLE %s OWNER TO regress_rights_owner', oid::regclass) FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND relkind IN ('r', 'p', 'v')
    UNION ALL SELECT format('ALTER ROUTINE %s OWNER TO regress_rights_owner', oid::regprocedure) FROM pg_proc WHERE pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
  LOOP EXECUTE what; END LOOP;
END $$;
GRANT USAGE, CREATE ON SCHEMA outbox, outbox_internal TO regress_rights_owner;
GRANT USAGE ON FOREIGN SERVER regress_rights TO regress_rights_caller;
GRANT USAGE ON SCHEMA outbox, outbox_internal TO regress_rights_caller;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO regress_rights_caller;
-- so that only a guard keeps him from it
GRANT SELECT, DELETE ON outbox_internal.tick TO regress_rights_caller;
-- What the owner has on his tables: it fails in the middle of each function, and says as whom.
CREATE FUNCTION public.fails() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'in %, as %, "%", %', TG_TABLE_NAME, current_user, current_setting('search_path'), current_setting('enable_mergejoin');
END $$;
DO $$ DECLARE name text; BEGIN
  FOREACH name IN ARRAY '{outbox.audit,outbox_internal.identity,outbox_internal.inbox_key,outbox_internal.inbox_undated_b}'::text[] LOOP
    EXECUTE format('CREATE TRIGGER fails AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION public.fails()', name);
  END LOOP;
END $$;
CREATE FUNCTION public.who() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM outbox_internal.tick;
  RETURN 'nobody has asked';
EXCEPTION WHEN OTHERS THEN
  RETURN current_user || ', "' || current_setting('search_path') || '", ' || current_setting('enable_mergejoin') || ', ' || current_setting('datestyle') || ': ' || SQLERRM;
END $$;
CREATE FUNCTION public.caught(command text) RETURNS TABLE (what text, after text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  RETURN QUERY SELECT 'done', public.who();
EXCEPTION WHEN OTHERS THEN
  RETURN QUERY SELECT SQLERRM, public.who();
END $$;
SET ROLE regress_rights_caller;
SET search_path = public, outbox;
SET datestyle = 'German';
SELECT public.who();
\pset format unaligned
-- A function that runs SQL; one that calls another as the owner, twice; the inbox; and several of them in turn.
SELECT command, caught.* FROM unnest(ARRAY['SELECT outbox.pause(reason => ''test'', server => ''regress_rights'')', 'SELECT outbox.create_route(''r'', ''regress_rights'')',
  'SELECT outbox.receive(''c'', ''s'', ''k'', 1700000000000000)', 'SELECT outbox.receive(''c'', ''a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'')',
  'SELECT * FROM outbox.receive_many(''c'', ''{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'')', 'SELECT outbox.pause(reason => ''test'', server => ''regress_rights'')']) WITH ORDINALITY c (command, n),
  caught(command) ORDER BY n;
BEGIN;
SAVEPOINT s;
SELECT outbox.create_route('r', 'regress_rights');
ROLLBACK TO s;
SELECT public.who();
SELECT outbox.receive('c', 's', 'k', 1700000000000000);
ROLLBACK;
SELECT public.who();
SELECT outbox.pause(reason => 'test', server => 'regress_rights');
SELECT public.who();
-- And where nothing fails.
RESET ROLE;
DROP FUNCTION public.fails() CASCADE;
SET ROLE regress_rights_caller;
BEGIN;
SELECT command, caught.* FROM unnest(ARRAY['SELECT outbox.pause(reason => ''test'', server => ''regress_rights'')', 'SELECT outbox.create_route(''r'', ''regress_rights'')',
  'SELECT outbox.receive(''c'', ''s'', ''k'', 1700000000000000)', 'SELECT outbox.receive(''c'', ''a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'')',
  'SELECT * FROM outbox.receive_many(''c'', ''{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'')', 'SELECT outbox.emit(''a'', 1, ''e'', ''{}'')']) WITH ORDINALITY c (command, n),
  caught(command) ORDER BY n;
ROLLBACK;
RESET ROLE;
RESET search_path;
\c :db
DROP DATABASE regress_rights WITH (FORCE);
DROP ROLE regress_rights_owner, regress_rights_caller;
