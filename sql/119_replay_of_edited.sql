-- What retry() edited is in the log as it was emitted: replay() and seek() say of how many events that is so before they send them.
CREATE SERVER regress_edited FOREIGN DATA WRAPPER outbox_log;
SELECT outbox.create_route('regress edited', 'regress_edited', '{edited_regress}') > 0 AS made;
SELECT clock_timestamp() AS before \gset
SELECT outbox.emit('edited_regress', 'k', 'e', '{"amount": "wrong"}', deliver_at => now() + interval '1 hour') AS e1 \gset
SELECT outbox.emit('edited_regress', 'l', 'e', '{"amount": "right"}', deliver_at => now() + interval '1 hour') AS e2 \gset
SELECT outbox.wait_until_idle('30 s');
SELECT outbox.retry(:'e1', reason => 'amount was wrong', payload => '{"amount": "right"}'), outbox.retry(:'e2', reason => 'now');
SELECT outbox.wait_for(:'e1', '30 s'), outbox.wait_for(:'e2', '30 s');
\set VERBOSITY terse
CALL outbox.replay(ids => ARRAY[:'e1', :'e2']::uuid[], route => 'regress edited');
CALL outbox.replay(ids => ARRAY[:'e2']::uuid[], route => 'regress edited');
CALL outbox.seek('regress edited', :'before');
CALL outbox.seek('regress edited', 'infinity');
\set VERBOSITY default
SELECT outbox.drop_route('regress edited');
DROP SERVER regress_edited;
