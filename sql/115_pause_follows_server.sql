-- The pause of a destination goes where its server goes: under another name, and away.
SET client_min_messages = notice;
CREATE SERVER regress_paused FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.pause(server => 'regress_paused', reason => 'upgrade');
ALTER SERVER regress_paused RENAME TO regress_renamed;
SELECT server, reason FROM outbox.pause;
SELECT outbox.pause(server => 'regress_renamed', reason => 'twice');
SELECT outbox.resume(server => 'regress_paused');
-- What another server of the earlier name does is its own.
CREATE SERVER regress_paused FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.pause(server => 'regress_paused', reason => 'another');
BEGIN;
ALTER SERVER regress_renamed RENAME TO regress_third;
ROLLBACK;
SELECT server, reason FROM outbox.pause ORDER BY id;
-- One that was left by a server that went unseen.
SET outbox.allow_loss = on;
SET client_min_messages = error;
UPDATE outbox.pause SET server = 'regress_gone' WHERE server = 'regress_paused';
RESET outbox.allow_loss;
SET client_min_messages = notice;
ALTER SERVER regress_renamed RENAME TO regress_gone;
SELECT server, reason FROM outbox.pause ORDER BY id;
BEGIN;
DROP SERVER regress_gone;
ROLLBACK;
SELECT server, reason FROM outbox.pause ORDER BY id;
DROP SERVER regress_gone, regress_paused;
SELECT server, reason FROM outbox.pause;
CREATE ROLE regress_pauser;
GRANT USAGE ON FOREIGN DATA WRAPPER outbox_null TO regress_pauser;
CREATE SERVER regress_owned FOREIGN DATA WRAPPER outbox_null;
ALTER SERVER regress_owned OWNER TO regress_pauser;
SELECT outbox.pause(server => 'regress_owned', reason => 'theirs');
DROP OWNED BY regress_pauser;
SELECT server, reason FROM outbox.pause;
DROP ROLE regress_pauser;

-- retry() of what waits in the log says how it is sent, skip() how it is given up.
CREATE SERVER regress_waits FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.create_route('regress waits', server => 'regress_waits', aggregate_types => '{regress_waits}') > 0 AS made;
SELECT outbox.pause('regress waits', reason => 'why not');
SELECT outbox.emit('regress_waits', 1, 'x', '{}') IS NOT NULL AS emitted;
CREATE FUNCTION pg_temp.hint_of(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE hint text;
BEGIN
  EXECUTE format('SELECT outbox.%s FROM outbox_internal.log WHERE aggregate_type = ''regress_waits''', call);
  RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
  RETURN hint;
END $$;
SELECT pg_temp.hint_of('retry(id)');
SELECT pg_temp.hint_of($$skip(id, 'a test')$$);
SET client_min_messages = error;
SET outbox.allow_loss = on;
SELECT count(*) FROM (SELECT outbox.drop_route('regress waits')) d;
DROP SERVER regress_waits;
