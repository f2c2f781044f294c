-- Who may not emit does not: not by a view or a rule of one whose topics are limited, nor by a table that one is given. Where
-- nobody's topics are limited, these ways stay open. grant_emit() and doctor() name the tables that this stops.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE ROLE regress_limited;
CREATE ROLE regress_nothing;
CREATE ROLE regress_member IN ROLE regress_limited;
CREATE ROLE regress_by_hand;
CREATE ROLE regress_free;
GRANT regress_nothing TO regress_limited;
GRANT CREATE ON SCHEMA public TO regress_limited, regress_nothing;
\getenv dir PG_ABS_SRCDIR
\set answered :dir '/sql/include/answered.sql'
\i :answered
CREATE FUNCTION pg_temp.doctor() RETURNS TABLE (status text, detail text, hint text) LANGUAGE sql AS $$
  SELECT d.status, d.detail, d.hint FROM outbox.doctor() d WHERE d."check" = 'rights' AND d.detail LIKE '%emit_row%' $$;

DO $$ BEGIN
  PERFORM outbox.revoke_emit(r.oid) FROM outbox_internal.right_rows('emit') e JOIN pg_roles r ON r.oid = e.found;
END $$;

-- before anybody's topics are limited: a view, a rule, a table
SELECT outbox.grant_emit('regress_limited'), outbox.grant_emit('regress_free');
SET ROLE regress_limited;
CREATE VIEW regress_leak AS SELECT * FROM outbox.event;
CREATE TABLE regress_ruled (id text);
CREATE RULE leak AS ON INSERT TO regress_ruled DO ALSO INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('regress.bank', new.id, 'e', '{}');
CREATE TABLE regress_given (id int);
CREATE TRIGGER t AFTER INSERT ON regress_given FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('regress.bank', 'id');
GRANT INSERT ON regress_leak, regress_ruled TO regress_nothing, regress_member, regress_by_hand, regress_free;
ALTER TABLE regress_given OWNER TO regress_nothing;
SET ROLE regress_nothing;
CREATE TEMP TABLE ways AS SELECT * FROM unnest(ARRAY[
  $$INSERT INTO regress_leak (aggregate_type, aggregate_id, event_type, payload) VALUES ('regress.bank', '1', 'e', '{}')$$,
  $$INSERT INTO regress_ruled VALUES ('1')$$]) way;
GRANT SELECT ON ways TO PUBLIC;
SELECT (pg_temp.refused(way)).* FROM ways;
INSERT INTO regress_given VALUES (1);
RESET ROLE;
SELECT * FROM pg_temp.doctor();

-- when they are: grant_emit() says what is refused from now on
SELECT outbox.grant_emit('regress_limited', topics => '{regress.shop}');
SELECT * FROM pg_temp.doctor();
SET ROLE regress_limited;
SELECT (pg_temp.refused(way)).* FROM ways;
SET ROLE regress_member;
SELECT (pg_temp.refused(way)).* FROM ways;
SET ROLE regress_nothing;
SELECT (pg_temp.refused(way)).* FROM ways;
\set VERBOSITY default
INSERT INTO regress_given VALUES (1);
\set VERBOSITY terse
-- who has the right, by a grant or by hand, has his own
SET ROLE regress_free;
SELECT (pg_temp.refused(way)).* FROM ways;
SET ROLE regress_by_hand;
SELECT (pg_temp.refused(way)).* FROM ways;
RESET ROLE;
GRANT EXECUTE ON FUNCTION outbox.emit_text TO regress_by_hand;
SET ROLE regress_by_hand;
SELECT (pg_temp.refused(way)).* FROM ways;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION outbox.emit_text FROM regress_by_hand;
SET ROLE regress_by_hand;
SELECT (pg_temp.refused(way)).* FROM ways;
RESET ROLE;
GRANT INSERT ON outbox.event TO regress_by_hand;
SET ROLE regress_by_hand;
SELECT (pg_temp.refused(way)).* FROM ways;
RESET ROLE;
-- a superuser, and the table of one
SELECT (pg_temp.refused(way)).* FROM ways;
ALTER TABLE regress_given OWNER TO CURRENT_USER;
INSERT INTO regress_given VALUES (2);
SELECT * FROM pg_temp.doctor();
-- what doctor() and grant_emit() advise
ALTER TABLE regress_given OWNER TO regress_nothing;
SELECT outbox.grant_emit('regress_nothing');
INSERT INTO regress_given VALUES (3);
-- ... of a role that another would be taken for if it were not quoted
CREATE ROLE "regress_It's";
ALTER TABLE regress_given OWNER TO "regress_It's";
INSERT INTO regress_given VALUES (3);
SELECT hint FROM pg_temp.doctor();
SELECT outbox.grant_emit('"regress_It''s"', topics => '{other}');
INSERT INTO regress_given VALUES (3);
SELECT outbox.revoke_emit('"regress_It''s"');
ALTER TABLE regress_given OWNER TO regress_nothing;
DROP ROLE "regress_It's";
-- taken back: refused again while somebody's topics are limited
SELECT outbox.revoke_emit('regress_nothing');
INSERT INTO regress_given VALUES (4);
SELECT outbox.revoke_emit('regress_limited');
SET ROLE regress_nothing;
SELECT (pg_temp.refused(way)).* FROM ways;
RESET ROLE;

-- an owner who may emit, and not to the topic of its table's trigger: told when it is said, and by doctor()
SELECT outbox.grant_emit('regress_nothing', topics => '{regress.shop,outbox.event.order}');
INSERT INTO regress_given VALUES (5);
SELECT * FROM pg_temp.doctor();
SELECT regexp_substr(hint, '^[^;]*;') AS remedy FROM pg_temp.doctor() \gset
:remedy
INSERT INTO regress_given VALUES (5);
SELECT * FROM pg_temp.doctor();
-- ... whose list is that of a role it is a member of, as one of many tables
DO $$ BEGIN
  FOR i IN 10 .. 22 LOOP
    EXECUTE format('CREATE TABLE regress_part_%s (id int)', i);
    EXECUTE format($t$CREATE TRIGGER t AFTER INSERT ON regress_part_%s FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('regress "part"', 'id')$t$, i);
    EXECUTE format('ALTER TABLE regress_part_%s OWNER TO regress_member', i);
  END LOOP;
END $$;
SELECT outbox.grant_emit('regress_limited', topics => '{regress.shop,other.*}');
INSERT INTO regress_part_11 VALUES (11);
SELECT * FROM pg_temp.doctor();
-- ... of another role nothing is said
SELECT outbox.grant_emit('regress_free', topics => '{other}');
DO $$ BEGIN FOR i IN 10 .. 22 LOOP EXECUTE format('DROP TABLE regress_part_%s', i); END LOOP; END $$;
SELECT outbox.revoke_emit('regress_nothing'), outbox.revoke_emit('regress_limited');

DROP TABLE ways, regress_given, regress_ruled;
DROP VIEW regress_leak;
SELECT outbox.revoke_emit('regress_free');
REVOKE INSERT ON outbox.event FROM regress_by_hand;
REVOKE CREATE ON SCHEMA public FROM regress_limited, regress_nothing;
DROP ROLE regress_member;
DROP ROLE regress_limited;
DROP ROLE regress_nothing;
DROP ROLE regress_by_hand;
DROP ROLE regress_free;
