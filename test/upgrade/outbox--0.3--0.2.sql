DROP FUNCTION outbox.of_0_3();
ALTER TABLE outbox.route DROP COLUMN of_0_3;
