-- In a transaction that may not write, the functions that take marks back say so of themselves, as the others do.
BEGIN READ ONLY;
SAVEPOINT a;
SELECT outbox.reprocess('regress_ro', '2026-01-01');
ROLLBACK TO a;
SELECT outbox.forget_received('regress_ro', '019a2c5e-7d1f-7000-8000-000000000000');
ROLLBACK TO a;
SELECT outbox.forget_consumer('regress_ro');
ROLLBACK TO a;
SELECT outbox.seek_stream('regress_ro', 's', 1);
ROLLBACK;
