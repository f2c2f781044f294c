-- ---------------------------------------------------------------------------------------------------------------------
-- Background workers.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.look_again() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_look_again';
COMMENT ON FUNCTION outbox.look_again() IS 'has the launcher look at this database when the transaction commits';
REVOKE ALL ON FUNCTION outbox.look_again() FROM PUBLIC;

-- A new extension is found at commit.
SELECT outbox.look_again();
