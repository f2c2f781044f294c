-- outbox.event shows a role what it has emitted itself in this transaction, not what a SECURITY DEFINER function has, nor
-- rows that it may not read and an emit_row trigger emits. What reads back its own finds it as ever.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
\pset null '(null)'
\set VERBOSITY terse
CREATE ROLE regress_lim;
CREATE ROLE regress_bank;
CREATE ROLE regress_heir IN ROLE regress_bank;
CREATE ROLE regress_switch NOINHERIT IN ROLE regress_bank, regress_lim;
CREATE ROLE regress_boss SUPERUSER;
SELECT outbox.grant_emit('regress_lim', topics => '{lim.*}'), outbox.grant_emit('regress_bank'), outbox.grant_emit('regress_heir'), outbox.grant_emit('regress_switch');
CREATE TABLE regress_cust (id int PRIMARY KEY);
CREATE TABLE regress_cards (id int, cust int REFERENCES regress_cust ON DELETE CASCADE, number text);
ALTER TABLE regress_cards OWNER TO regress_bank;
CREATE TRIGGER t AFTER DELETE ON regress_cards FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('card', 'id');
GRANT SELECT, DELETE ON regress_cust TO regress_lim;
INSERT INTO regress_cust VALUES (1), (2);
INSERT INTO regress_cards VALUES (1, 1, '4000-1'), (2, 2, '4000-2');
CREATE FUNCTION regress_pay(n int) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE made uuid; seen jsonb;
BEGIN
  INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, topic) VALUES ('bank', n, 'paid', jsonb_build_object('secret', n), 'bank.paid') RETURNING id INTO made;
  SELECT payload INTO STRICT seen FROM outbox.event WHERE id = made;
  RETURN made;
END $$;
ALTER FUNCTION regress_pay OWNER TO regress_bank;
CREATE FUNCTION regress_seen() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(event_type, ' ' ORDER BY created_at) FROM outbox.event $$;

-- a cascade to a table that the role may not read
BEGIN;
SET LOCAL ROLE regress_lim;
DELETE FROM regress_cust;
SELECT payload FROM outbox.event;
SELECT count(*) FROM outbox.event;
SET LOCAL ROLE regress_bank;
SELECT payload FROM outbox.event ORDER BY created_at;
RESET ROLE;
SELECT payload FROM outbox.event ORDER BY created_at;
ROLLBACK;

-- it may if it may read the table: by columns, too, but all of them, and no policy between
GRANT DELETE ON regress_cards TO regress_lim;
CREATE FUNCTION regress_delete(OUT payloads text) LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL ROLE regress_lim;
  DELETE FROM regress_cards;
  SELECT string_agg(payload ->> 'number', ' ' ORDER BY created_at) INTO payloads FROM outbox.event;
  RAISE EXCEPTION USING ERRCODE = 'XX999';
EXCEPTION WHEN SQLSTATE 'XX999' THEN
  NULL;
END $$;
SELECT regress_delete();
GRANT SELECT (id, cust) ON regress_cards TO regress_lim;
SELECT regress_delete();
GRANT SELECT (number) ON regress_cards TO regress_lim;
SELECT regress_delete();
ALTER TABLE regress_cards ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON regress_cards USING (true);
SELECT regress_delete();
ALTER TABLE regress_cards DISABLE ROW LEVEL SECURITY;
REVOKE SELECT ON regress_cards FROM regress_lim;
GRANT SELECT ON regress_cards TO regress_lim;
SELECT regress_delete();
-- of a partition, whoever may read the table
CREATE TABLE regress_part (id int, number text) PARTITION BY LIST (id);
CREATE TABLE regress_part_1 PARTITION OF regress_part FOR VALUES IN (1, 2);
CREATE TRIGGER t AFTER INSERT ON regress_part FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('part', 'id');
GRANT INSERT ON regress_part TO regress_lim;
ALTER TABLE regress_part_1 OWNER TO regress_bank;
BEGIN;
SET LOCAL ROLE regress_lim;
INSERT INTO regress_part VALUES (1, 'hidden');
RESET ROLE;
GRANT SELECT ON regress_part TO regress_lim;
SET LOCAL ROLE regress_lim;
INSERT INTO regress_part VALUES (2, 'shown');
SELECT payload FROM outbox.event;
ROLLBACK;

-- an error quotes of a row what its writer may read, and the client: not what a cascade found
SELECT outbox.event_schema('card', 'card.deleted', '{"properties": {"number": {"maxLength": 3, "const": "x"}}}');
CREATE FUNCTION regress_purge() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM regress_cards';
ALTER FUNCTION regress_purge OWNER TO regress_bank;
\set VERBOSITY default
\set SHOW_CONTEXT never
SET ROLE regress_lim;
DELETE FROM regress_cards;
SELECT regress_purge();
RESET ROLE;
REVOKE ALL ON regress_cards FROM regress_lim;
SET ROLE regress_lim;
DELETE FROM regress_cust;
SELECT regress_purge();
RESET ROLE;
SELECT outbox.event_schema('card', 'card.deleted', '{"properties": {"number": {"type": "object"}}}');
ALTER TABLE regress_cards ADD body json;
UPDATE regress_cards SET body = '{"s": "a\u0000"}';
\set SHOW_CONTEXT always
SET ROLE regress_lim;
DELETE FROM regress_cust;
RESET ROLE;
DELETE FROM regress_cards;
\set VERBOSITY terse
SELECT outbox.drop_event_schema('card', 'card.deleted');
UPDATE regress_cards SET body = NULL;

-- a SECURITY DEFINER function: nothing of it to its caller, not by its id either; it reads back its own
BEGIN;
SET LOCAL ROLE regress_lim;
SELECT outbox.emit('lim', 1, 'before', '{}', topic => 'lim.a') AS before \gset
SELECT regress_pay(1) AS paid \gset
SELECT outbox.emit('lim', 1, 'after', '{}', topic => 'lim.a') AS after \gset
SELECT regress_seen();
SELECT event_type, payload FROM outbox.event WHERE id = :'paid';
SELECT event_type FROM outbox.event WHERE id IN (:'before', :'paid', :'after') ORDER BY created_at;
-- in one statement with others, and of a batch
SELECT count(regress_pay(n)), count(outbox.emit('lim', n, 'beside', '{}', topic => 'lim.a')) FROM generate_series(1, 3) n;
SELECT count(*) FROM (SELECT unnest(outbox.emit_many('lim', NULL, 'many', ARRAY['{}', '{}']::jsonb[], topic => 'lim.b'))) m;
SELECT regress_seen();
-- savepoints: what came before one, in one, and after one that was rolled back
SAVEPOINT s;
SELECT regress_pay(5) AS paid \gset
SELECT outbox.emit('lim', 1, 'undone', '{}', topic => 'lim.a') AS undone \gset
SELECT regress_seen();
ROLLBACK TO s;
SELECT outbox.emit('lim', 1, 'instead', '{}', topic => 'lim.a') IS NOT NULL AS emitted;
SELECT regress_pay(6) IS NOT NULL AS paid;
SELECT regress_seen();
SELECT count(*) FROM outbox.event WHERE id IN (:'paid', :'undone');
SELECT event_type FROM outbox.event WHERE id IN (:'before', :'after') ORDER BY created_at;
-- as an ORM does: a client's own id, looked for before and after
SELECT count(*) FROM outbox.event WHERE id = '01a210fb-697d-72b5-a46a-ee007963e0ac';
INSERT INTO outbox.event (id, aggregate_type, event_type, payload, topic) VALUES ('01a210fb-697d-72b5-a46a-ee007963e0ac', 'lim', 'orm', '{}', 'lim.a') RETURNING event_type, created_at IS NOT NULL AS stamped;
SELECT event_type FROM outbox.event WHERE id = '01a210fb-697d-72b5-a46a-ee007963e0ac';
-- whoever has the rights of both, or is free
RESET ROLE;
SELECT regress_seen();
SET LOCAL ROLE regress_boss;
SELECT regress_seen();
SET LOCAL ROLE regress_bank;
SELECT regress_seen();
SET LOCAL ROLE regress_heir;
SELECT regress_seen();
ROLLBACK;

-- SET ROLE in between; a member that does not inherit has to be the role to see what it emitted
BEGIN;
SET LOCAL ROLE regress_switch;
SELECT outbox.emit('s', 1, 'switch', '{}') IS NOT NULL AS emitted;
SET LOCAL ROLE regress_bank;
SELECT outbox.emit('s', 1, 'bank', '{}') IS NOT NULL AS emitted;
SET LOCAL ROLE regress_heir;
SELECT outbox.emit('s', 1, 'heir', '{}') IS NOT NULL AS emitted;
SELECT regress_seen();
SET LOCAL ROLE regress_bank;
SELECT regress_seen();
-- the rights are those of when the query began, whoever then fetches
DECLARE opened CURSOR FOR SELECT event_type FROM outbox.event;
SET LOCAL ROLE regress_switch;
SELECT regress_seen();
FETCH opened;
DECLARE mine CURSOR FOR SELECT event_type FROM outbox.event;
SET LOCAL ROLE regress_bank;
FETCH ALL mine;
RESET ROLE;
SELECT regress_seen();
ROLLBACK;
-- the next transaction knows nothing of it
BEGIN;
SET LOCAL ROLE regress_lim;
SELECT outbox.emit('lim', 1, 'next', '{}', topic => 'lim.a') IS NOT NULL AS emitted;
SELECT regress_seen();
ROLLBACK;

SELECT outbox.revoke_emit('regress_lim'), outbox.revoke_emit('regress_bank'), outbox.revoke_emit('regress_heir'), outbox.revoke_emit('regress_switch');
DROP TABLE regress_cards, regress_cust, regress_part;
DROP FUNCTION regress_pay, regress_seen, regress_delete, regress_purge;
DROP ROLE regress_lim, regress_bank, regress_heir, regress_switch, regress_boss;
