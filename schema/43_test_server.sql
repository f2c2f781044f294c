-- ---------------------------------------------------------------------------------------------------------------------
-- Trying a destination out.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox.test_server(
  server  text,
  topic   text     DEFAULT NULL,
  timeout interval DEFAULT '2 seconds',
  OUT "check" text, OUT ok boolean, OUT detail text, OUT hint text, OUT error_class text, OUT error_code text
) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_test_server';
COMMENT ON FUNCTION outbox.test_server(text, text, interval) IS
  'connects to a destination as a relay worker would, logs in, looks at a topic and writes nothing; a row for each thing that was looked at, the last one says what is wrong';
