-- ---------------------------------------------------------------------------------------------------------------------
-- Destinations are foreign servers of these wrappers. No handler: there is nothing to query. USAGE is not granted to
-- anybody: the owner of a server decides where events go.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.kafka_validator(options text[], catalog oid) RETURNS void
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_kafka_validator';
REVOKE ALL ON FUNCTION outbox.kafka_validator(text[], oid) FROM PUBLIC;
COMMENT ON FUNCTION outbox.kafka_validator(text[], oid) IS 'checks the options of servers and user mappings of outbox_kafka';

CREATE FUNCTION outbox.redis_validator(options text[], catalog oid) RETURNS void
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_redis_validator';
REVOKE ALL ON FUNCTION outbox.redis_validator(text[], oid) FROM PUBLIC;
COMMENT ON FUNCTION outbox.redis_validator(text[], oid) IS 'checks the options of servers and user mappings of outbox_redis';

CREATE FUNCTION outbox.log_validator(options text[], catalog oid) RETURNS void
  LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'outbox_log_validator';
REVOKE ALL ON FUNCTION outbox.log_validator(text[], oid) FROM PUBLIC;
COMMENT ON FUNCTION outbox.log_validator(text[], oid) IS 'checks the options of servers and user mappings of outbox_log';

CREATE FOREIGN DATA WRAPPER outbox_kafka NO HANDLER VALIDATOR outbox.kafka_validator;
COMMENT ON FOREIGN DATA WRAPPER outbox_kafka IS 'Apache Kafka as a destination of outbox; server options are those of librdkafka, secrets go into a user mapping';

CREATE FOREIGN DATA WRAPPER outbox_redis NO HANDLER VALIDATOR outbox.redis_validator;
COMMENT ON FOREIGN DATA WRAPPER outbox_redis IS 'Redis or Valkey as a destination of outbox: streams, lists or channels';

CREATE FOREIGN DATA WRAPPER outbox_log NO HANDLER VALIDATOR outbox.log_validator;
COMMENT ON FOREIGN DATA WRAPPER outbox_log IS 'the server log as a destination of outbox: first steps with no broker';
