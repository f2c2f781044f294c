\set ECHO none
-- What a command is answered; its effect stays.
CREATE FUNCTION refused(command text) RETURNS TABLE (code text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  RETURN QUERY SELECT '', 'done', '', '';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  message := regexp_replace(message, '[0-9]{8}', 'YYYYMMDD');
  RETURN NEXT;
END $$;
-- Tried, and taken back where it is let through.
CREATE FUNCTION tried(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  RAISE EXCEPTION USING ERRCODE = 'XX999';
EXCEPTION
  WHEN SQLSTATE 'XX999' THEN RETURN 'done';
  WHEN OTHERS THEN RETURN SQLSTATE || ' ' || regexp_replace(SQLERRM, '[0-9]{8}', 'YYYYMMDD');
END $$;
\set ECHO all
