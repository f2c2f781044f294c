
-- ---------------------------------------------------------------------------------------------------------------------
-- Kinds of destinations: the wrappers themselves are in REPLACE, those that are new too.
-- ---------------------------------------------------------------------------------------------------------------------
COMMENT ON COLUMN outbox.route.server IS 'foreign server of one of the wrappers of outbox: outbox_kafka, for example';
COMMENT ON COLUMN outbox.destination.wrapper IS 'foreign-data wrapper of the server, which tells the kind of destination: outbox_kafka, for example';
