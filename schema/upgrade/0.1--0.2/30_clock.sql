-- The clock of events: outbox.reset_clock() is in 48_reset_clock.sql, see REPLACE.
COMMENT ON SEQUENCE outbox_internal.clock_ceiling IS 'register, not a sequence: Unix microseconds that this database''s clock of events starts above after a restart; kept ahead of the clock by the keeper and, where that is late, by emitters, and put where the clock is by a stop in good order';
COMMENT ON COLUMN outbox_internal.log.created_at IS 'reading of the hybrid clock: strictly increasing over all sessions of the database';
