-- outbox.audit says with whose rights something was done, where they are not the session's: of all that SQL and C write.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
BEGIN;
CREATE ROLE regress_caller;
CREATE ROLE regress_role;
CREATE FUNCTION public.regress_does() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM outbox.grant_emit('regress_role', '{shop.*}');
  PERFORM outbox.revoke_emit('regress_role');
  PERFORM outbox.grant_operate('regress_role');
  PERFORM outbox.revoke_operate('regress_role');
  PERFORM outbox.grant_receive('regress_role', '{regress}');
  PERFORM outbox.revoke_receive('regress_role');
  PERFORM outbox.event_schema('regress', 'x', 'true');
  PERFORM outbox.drop_event_schema('regress', 'x');
  PERFORM outbox.receive('regress', '01a210fb-697d-72b5-a46a-ee007963e0ac');
  PERFORM outbox.forget_received('regress', '01a210fb-697d-72b5-a46a-ee007963e0ac');
  PERFORM outbox.receive('regress', '01a210fb-697d-72b5-a46a-ee007963e0ac');
  PERFORM outbox.reprocess('regress', since => '-infinity');
  PERFORM outbox.seek_stream('regress', 's', 7);
  PERFORM outbox.forget_consumer('regress');
END $$;
GRANT EXECUTE ON FUNCTION public.regress_does() TO regress_caller;
SELECT current_user AS owner \gset
SELECT clock_timestamp() AS before \gset
-- of the session's own role nothing more is said
SELECT public.regress_does();
SELECT action, who = :'owner' AS me, detail ? 'role' AS role FROM outbox.audit WHERE at >= :'before' ORDER BY at;
SELECT clock_timestamp() AS before \gset
SET LOCAL SESSION AUTHORIZATION regress_caller;
SELECT public.regress_does();
RESET SESSION AUTHORIZATION;
SELECT action, who, detail ->> 'role' = :'owner' AS role FROM outbox.audit WHERE at >= :'before' ORDER BY at;
ROLLBACK;
