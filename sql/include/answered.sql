\set ECHO none
-- What a command is answered, with its effect, in this session.
CREATE FUNCTION pg_temp.refused(command text) RETURNS TABLE (code text, message text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  RETURN QUERY SELECT '', 'done';
EXCEPTION WHEN OTHERS THEN
  RETURN QUERY SELECT SQLSTATE::text, SQLERRM::text;
END $$;
\set ECHO all
