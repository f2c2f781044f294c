-- ---------------------------------------------------------------------------------------------------------------------
-- Last: PUBLIC gets nothing, whatever the sections above made. The input and output of json_arg stay open, because casts
-- run them with the caller's rights; they do nothing but check JSON.
-- ---------------------------------------------------------------------------------------------------------------------
REVOKE ALL ON ALL TABLES IN SCHEMA outbox FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA outbox FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA outbox FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox.json_arg_in(cstring), outbox.json_arg_out(outbox.json_arg),
  outbox.json_arg_recv(internal), outbox.json_arg_send(outbox.json_arg) TO PUBLIC;
