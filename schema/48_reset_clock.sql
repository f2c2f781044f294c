-- ---------------------------------------------------------------------------------------------------------------------
-- The clock of events, where it was wrong once. For superusers, and the owner of the extension.
-- ---------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION outbox.reset_clock(force boolean DEFAULT false) RETURNS interval
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_reset_clock';
COMMENT ON FUNCTION outbox.reset_clock(boolean) IS
  'puts this database''s clock of events back to the server''s, and says how far; waits up to ten seconds until all is delivered and no transaction that has emitted is open, else refuses. force: also with events undelivered, which may then arrive after later ones of their key. Consumers of newest values need reprocess() then';
