-- ---------------------------------------------------------------------------------------------------------------------
-- Background workers.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION outbox.look_again() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_look_again';
COMMENT ON FUNCTION outbox.look_again() IS 'has the launcher look at this database when the transaction commits';

-- search_path is pinned here and names are qualified inside all the same.
CREATE FUNCTION outbox.adopt(keep_positions boolean DEFAULT true) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'outbox_adopt';
COMMENT ON FUNCTION outbox.adopt(boolean) IS 'has a copied or restored outbox publish from here. Its routes go on where the original was when the copy was made: what that had delivered is not sent again, what it had not is sent, and after it what was emitted here. With keep_positions => false they start from now, without what the copy brought. Events that came by logical replication or by hand are emitted anew, under their own ids. Returns how many events of a dump, of replication or of hands are now to be sent; the keeper does the rest of a large dump afterwards, see doctor()';

-- A new extension is found at commit.
SELECT outbox.look_again();
