-- ---------------------------------------------------------------------------------------------------------------------
-- A subscription to another server's outbox: what drops its rows. 97_replicated.sql puts it on the tables.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE FUNCTION outbox_internal.ignore_replicated() RETURNS trigger
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_ignore_replicated';
COMMENT ON FUNCTION outbox_internal.ignore_replicated() IS 'drops what a subscription would write into the tables of outbox';
