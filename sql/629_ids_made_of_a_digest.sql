-- An id that is made of a digest, as a HINT says for ids whose time means nothing, has no time, whatever the digest is. (One md5 in six
-- thousand looks as if it had one, and was refused as too old or too far ahead, the latter with that HINT again.)
CREATE FUNCTION pg_temp.advice(id uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE hint text;
BEGIN
  PERFORM outbox.receive('legacy', id);
  RETURN 'none is needed';
EXCEPTION WHEN invalid_parameter_value THEN
  GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
  RETURN substring(hint FROM 'has none: (.*)\.$');
END $$;
-- What it says, with the id of somebody's.
CREATE FUNCTION pg_temp.made(id text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE made uuid;
BEGIN
  EXECUTE 'SELECT ' || replace(pg_temp.advice('02ed8122-20b0-705f-abb8-68ddbf17ea20'), 'id::text', '$1') INTO made USING id;
  RETURN made;
END $$;
SELECT pg_temp.advice('02ed8122-20b0-705f-abb8-68ddbf17ea20') ~ '::uuid$' AS there_is_advice;
SELECT count(*) AS look_dated FROM generate_series(1, 50000) g WHERE outbox_internal.day_of_id(md5(g::text)::uuid) IS NOT NULL;
SELECT g, outbox.receive('legacy', pg_temp.made(g::text)) AS is_new, outbox.receive('legacy', pg_temp.made(g::text)) AS is_new_again
FROM generate_series(1, 50000) g WHERE outbox_internal.day_of_id(md5(g::text)::uuid) IS NOT NULL ORDER BY g;
SELECT outbox.forget_consumer('legacy');
