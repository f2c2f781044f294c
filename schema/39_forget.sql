-- ---------------------------------------------------------------------------------------------------------------------
-- Erasing what is kept of one key.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE PROCEDURE outbox.forget(
  aggregate_type  text,
  aggregate_id    text,
  undelivered     boolean DEFAULT false,
  reason          text    DEFAULT NULL,
  dry_run         boolean DEFAULT true,
  INOUT forgotten bigint  DEFAULT NULL,
  INOUT kept      bigint  DEFAULT NULL
)
  LANGUAGE c AS 'MODULE_PATHNAME', 'outbox_forget';
COMMENT ON PROCEDURE outbox.forget(text, text, boolean, text, boolean, bigint, bigint) IS
  'erases payload and headers of what the log keeps of one key; events that some route has not delivered yet, parked ones and rows of outbox_internal.foreign_event are kept, or with undelivered => true given up: nobody sends them. A dry run unless told otherwise; it cannot be undone. Returns how many were erased and kept. The key itself stays in the log; outbox.audit keeps a hash of it';
