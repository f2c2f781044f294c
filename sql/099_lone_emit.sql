-- An event in a transaction that changed nothing else: told apart by the rows that the transaction wrote, whoever wrote them. With
-- refuse a transaction that fails here is lone, one that commits is not.
SET client_min_messages = warning;
CREATE TABLE regress_lone (id int PRIMARY KEY, note text);
CREATE TABLE regress_lone_copy (id int);
CREATE UNLOGGED TABLE regress_lone_unlogged (id int);
CREATE SEQUENCE regress_lone_seq;
CREATE FUNCTION regress_only_emits() RETURNS uuid LANGUAGE sql AS $$ SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') $$;
CREATE FUNCTION regress_changes_and_emits(n int) RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO regress_lone VALUES (n, 'by a function');
  RETURN outbox.emit('lone', n, 'lone.emitted', '{}');
END $$;
CREATE FUNCTION regress_emits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM outbox.emit('lone', 1, 'lone.trigger', '{}'); RETURN NULL; END $$;
CREATE FUNCTION regress_copies() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO regress_lone_copy VALUES (new.id); RETURN NULL; END $$;
CREATE TEMP TABLE lone_before AS SELECT * FROM outbox.lone_emit;

-- the default, and its one warning in a session
SHOW outbox.lone_emit;
RESET outbox.lone_emit;
SET outbox.lone_emit = warn;
SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted;
SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted;
SET outbox.lone_emit = allow;
SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted;
SET outbox.lone_emit = nonsense;
SET outbox.lone_emit = refuse;
SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted;

\set VERBOSITY sqlstate
-- lone: by each of the ways to emit
SELECT outbox.emit_text('lone', 1, 'lone.emitted', 'x');
INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('lone', '1', 'lone.emitted', '{}');
SELECT count(*) FROM outbox.emit_many('[{"aggregate_type": "lone", "aggregate_id": "1", "event_type": "lone.emitted", "payload": {}}]');
SELECT regress_only_emits();
DO $$ BEGIN PERFORM outbox.emit('lone', 1, 'lone.emitted', '{}'); END $$;
-- and with what is no change
BEGIN; SELECT count(*) FROM regress_lone; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; UPDATE regress_lone SET note = 'x' WHERE id = -1; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; SELECT nextval('regress_lone_seq') > 0 AS next; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; SAVEPOINT s; INSERT INTO regress_lone VALUES (1); ROLLBACK TO s; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; SELECT pg_current_xact_id() IS NOT NULL AS xid; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; SELECT count(*) FROM (SELECT FROM regress_lone FOR UPDATE) r; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
-- a payload that is kept out of line is nothing else
SELECT outbox.emit_text('lone', 1, 'lone.emitted', string_agg(md5(i::text), '')) IS NOT NULL AS emitted FROM generate_series(1, 3000) i;

-- not lone: before, after, around, in one statement
BEGIN; INSERT INTO regress_lone VALUES (1); SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; UPDATE regress_lone SET note = 'x'; COMMIT;
BEGIN; SAVEPOINT s; DELETE FROM regress_lone; RELEASE s; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
WITH o AS (INSERT INTO regress_lone VALUES (2) RETURNING id) SELECT outbox.emit('lone', id, 'lone.emitted', '{}') IS NOT NULL AS emitted FROM o;
SELECT regress_changes_and_emits(3) IS NOT NULL AS emitted;
BEGIN; CREATE TABLE regress_lone_made (); SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; DROP TABLE regress_lone_made; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; TRUNCATE regress_lone; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; INSERT INTO regress_lone_unlogged VALUES (1); SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
CREATE TEMP TABLE lone_temp (id int);
BEGIN; INSERT INTO lone_temp VALUES (1); SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
BEGIN; COPY regress_lone (id) FROM stdin;
4
\.
SELECT outbox.emit('lone', 4, 'lone.emitted', '{}') IS NOT NULL AS emitted; COMMIT;
-- an event that was taken back is none; nor is a transaction that rolls back
BEGIN; SAVEPOINT s; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; ROLLBACK TO s; COMMIT;
BEGIN; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; ROLLBACK;
-- and what an operator did beside it is not taken for it; beside one that stands it is no change
CREATE SERVER regress_lone FOREIGN DATA WRAPPER outbox_null;
SELECT outbox.create_route('regress lone', server => 'regress_lone', aggregate_types => '{none}') > 0 AS made;
BEGIN; SAVEPOINT s; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; ROLLBACK TO s;
SELECT outbox.pause(route => 'regress lone', reason => 'test') AS paused; COMMIT;
DO $$ BEGIN
  BEGIN
    BEGIN PERFORM outbox.emit('lone', 1, 'lone.emitted', '{}'); EXCEPTION WHEN OTHERS THEN NULL; END;
    PERFORM 1 / 0;
  EXCEPTION WHEN division_by_zero THEN NULL; END;
  PERFORM outbox.resume(route => 'regress lone');
END $$;
BEGIN; SAVEPOINT s; SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted; RELEASE s;
SAVEPOINT t; SELECT outbox.emit('lone', 2, 'lone.emitted', '{}') IS NOT NULL AS emitted; ROLLBACK TO t;
SELECT outbox.pause(route => 'regress lone', reason => 'test') AS paused; COMMIT;
SELECT outbox.drop_route('regress lone') >= 0 AS dropped;
DELETE FROM outbox.audit WHERE route = 'regress lone';
DROP SERVER regress_lone;

-- triggers: the statement that fires them has changed something, or not
CREATE TRIGGER emits AFTER INSERT OR UPDATE ON regress_lone FOR EACH STATEMENT EXECUTE FUNCTION regress_emits();
INSERT INTO regress_lone VALUES (5);
UPDATE regress_lone SET note = 'x' WHERE id = 5;
UPDATE regress_lone SET note = 'x' WHERE id = -1;
DROP TRIGGER emits ON regress_lone;
CREATE TRIGGER emits AFTER INSERT OR UPDATE OR DELETE ON regress_lone FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('lone', 'id');
INSERT INTO regress_lone VALUES (6);
DELETE FROM regress_lone WHERE id = 6;
DROP TRIGGER emits ON regress_lone;
CREATE CONSTRAINT TRIGGER emits AFTER INSERT ON regress_lone DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regress_emits();
INSERT INTO regress_lone VALUES (7);
DROP TRIGGER emits ON regress_lone;

-- what a consumer receives is a change, which its event tells of; that there is nothing new is none
SELECT gen_random_uuid() AS came \gset
BEGIN;
SELECT outbox.receive('lone', :'came') AS received;
SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted;
COMMIT;
BEGIN;
SELECT outbox.receive('lone', :'came') AS received;
SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted;
COMMIT;

-- where nothing is counted nothing can be told
SET track_counts = off;
SELECT outbox.emit('lone', 1, 'lone.emitted', '{}') IS NOT NULL AS emitted;
RESET track_counts;

-- counted: the three that were let through at the beginning
SELECT l.lone - b.lone AS lone, l.transactions - b.transactions > 10 AS others FROM outbox.lone_emit l, lone_before b;
SET outbox.lone_emit = warn;
\x
SELECT status, regexp_replace(detail, '\d+', 'N', 'g') AS detail, hint FROM outbox.doctor() WHERE "check" = 'lone events';
\x
SET outbox.lone_emit = allow;
SELECT count(*) FROM outbox.doctor() WHERE "check" = 'lone events';
SELECT outbox.forget_consumer('lone');
DELETE FROM outbox.audit WHERE action = 'forget_consumer' AND detail ->> 'consumer' = 'lone';
DROP TABLE regress_lone, regress_lone_copy, regress_lone_unlogged;
DROP SEQUENCE regress_lone_seq;
DROP FUNCTION regress_only_emits(), regress_changes_and_emits(int), regress_emits(), regress_copies();
