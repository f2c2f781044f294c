-- ---------------------------------------------------------------------------------------------------------------------
-- Background workers.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.look_again() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_look_again';
COMMENT ON FUNCTION outbox.look_again() IS 'has the launcher look at this database when the transaction commits';

-- search_path is pinned here and names are qualified inside all the same.
CREATE FUNCTION outbox.adopt(keep_positions boolean DEFAULT false) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'outbox_adopt';
COMMENT ON FUNCTION outbox.adopt(boolean) IS 'makes a copied or restored outbox publish from here: lanes start from now or, with keep_positions (after pg_upgrade, or where a copy of the files takes the original''s place), go on where they were; events that came through a restore or replication are emitted anew under their own ids; returns how many';

-- A new extension is found at commit.
SELECT outbox.look_again();
