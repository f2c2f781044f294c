-- grant_emit(topics => ...): to which topics a role may emit, through every door, and that a change counts at once.
-- matrix: G10 R21
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE ROLE regress_shop;
CREATE ROLE regress_clerk IN ROLE regress_shop;
CREATE ROLE regress_boss IN ROLE regress_shop;
CREATE ROLE regress_two;
CREATE ROLE regress_both IN ROLE regress_shop, regress_two;
\getenv dir PG_ABS_SRCDIR
\set answered :dir '/sql/include/answered.sql'
\i :answered
-- without topics: as ever
SELECT outbox.grant_emit('regress_shop');
SET ROLE regress_shop;
SELECT outbox.emit('a', 1, 'e', '{}', topic => 'payments-internal') IS NOT NULL AS emitted;
RESET ROLE;
SELECT outbox.grant_emit('regress_shop', topics => '{shop.*,*.log,outbox.event.order}');
SET ROLE regress_shop;
SELECT outbox.emit('a', 1, 'e', '{}', topic => t) IS NOT NULL AS emitted FROM unnest('{shop.orders,shop.,my.log}'::text[]) t;
SELECT outbox.emit('a', 1, 'e', '{}', topic => 'payments-internal');
-- none of its own: the default template's, whatever the routes make of it
SELECT outbox.emit('order', 1, 'e', '{}') IS NOT NULL AS emitted;
SELECT outbox.emit('payment', 1, 'e', '{}');
RESET ROLE;
-- every door
SET ROLE regress_shop;
SELECT (pg_temp.refused(c)).* FROM unnest(ARRAY[
  $$SELECT outbox.emit('a', 1, 'e', '{}'::json, topic => 'x')$$,
  $$SELECT outbox.emit_text('a', 1, 'e', 't', topic => 'x')$$,
  $$SELECT outbox.emit_bytes('a', 1, 'e', 't', topic => 'x')$$,
  $$SELECT outbox.emit_tombstone('a', 1, 'e', topic => 'x')$$,
  $$SELECT outbox.emit('a', 1, 'e', '{}', topic => 'x', deliver_at => now() + interval '1 h')$$,
  $$SELECT outbox.emit_many('[{"aggregate_type": "order", "event_type": "e", "payload": {}}, {"aggregate_type": "a", "event_type": "e", "payload": {}, "topic": "x"}]')$$,
  $$SELECT outbox.emit_many('payment', NULL, 'e', '{1,2}')$$,
  $$INSERT INTO outbox.event (aggregate_type, event_type, payload, topic) VALUES ('a', 'e', '{}', 'x')$$]) c;
INSERT INTO outbox.event (aggregate_type, event_type, payload, topic) VALUES ('a', 'e', '{}', 'shop.x');
RESET ROLE;
-- members: by the group's limit, unless they have a grant of their own; two groups: what both allow together
SELECT outbox.grant_emit('regress_boss'), outbox.grant_emit('regress_two', topics => '{two}');
SET ROLE regress_clerk;
SELECT (pg_temp.refused($$SELECT outbox.emit('a', 1, 'e', '{}', topic => 'x')$$)).*;
SET ROLE regress_boss;
SELECT (pg_temp.refused($$SELECT outbox.emit('a', 1, 'e', '{}', topic => 'x')$$)).*;
SET ROLE regress_both;
SELECT (pg_temp.refused(format($$SELECT outbox.emit('a', 1, 'e', '{}', topic => %L)$$, t))).* FROM unnest('{two,shop.x,x}'::text[]) t;
RESET ROLE;
SELECT outbox.emit('a', 1, 'e', '{}', topic => 'x') IS NOT NULL AS superuser;
-- a definer's function emits with the definer's right
CREATE FUNCTION regress_definer() RETURNS boolean SECURITY DEFINER LANGUAGE sql AS $$SELECT outbox.emit('a', 1, 'e', '{}', topic => 'x') IS NOT NULL$$;
SET ROLE regress_shop;
SELECT regress_definer();
SELECT (pg_temp.refused($$SELECT outbox.emit('a', 1, 'e', '{}', topic => 'x')$$)).*;
RESET ROLE;
ALTER FUNCTION regress_definer() OWNER TO regress_shop;
SELECT (pg_temp.refused('SELECT regress_definer()')).*;
-- a row trigger: its table's owner counts, not the writer
CREATE TABLE regress_orders (id int);
CREATE TRIGGER t AFTER INSERT ON regress_orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('payment', 'id');
GRANT INSERT ON regress_orders TO regress_shop;
SET ROLE regress_shop;
INSERT INTO regress_orders VALUES (1);
RESET ROLE;
-- who may make one there, and is not the owner, needs the right himself
GRANT TRIGGER ON regress_orders TO regress_shop;
SET ROLE regress_shop;
CREATE TRIGGER u AFTER INSERT ON regress_orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('payment', 'id');
RESET ROLE;
SELECT outbox.grant_emit('regress_shop', topics => '{shop.*,outbox.event.payment}');
SET ROLE regress_shop;
CREATE TRIGGER u AFTER INSERT ON regress_orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('payment', 'id');
RESET ROLE;
DROP TRIGGER u ON regress_orders;
SELECT outbox.grant_emit('regress_shop', topics => '{shop.*,*.log,outbox.event.order}');
ALTER TABLE regress_orders OWNER TO regress_shop;
INSERT INTO regress_orders VALUES (2);
DROP TABLE regress_orders;
-- of a partition that somebody else has made, too
CREATE TABLE regress_orders (id int, part int) PARTITION BY LIST (part);
CREATE TRIGGER t AFTER INSERT ON regress_orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('payment', 'id');
ALTER TABLE regress_orders OWNER TO regress_shop;
CREATE TABLE regress_orders_1 PARTITION OF regress_orders FOR VALUES IN (1) PARTITION BY LIST (id);
CREATE TABLE regress_orders_1_1 PARTITION OF regress_orders_1 FOR VALUES IN (1);
SELECT relation, owner::regrole, topic FROM outbox_internal.tables_without_right() WHERE relation::text LIKE 'regress%';
SET ROLE regress_shop;
INSERT INTO regress_orders VALUES (1, 1);
RESET ROLE;
ALTER TABLE regress_orders OWNER TO CURRENT_USER;
ALTER TABLE regress_orders_1_1 OWNER TO regress_shop;
SET ROLE regress_shop;
INSERT INTO regress_orders_1_1 VALUES (1, 1), (1, 1);
RESET ROLE;
DROP TABLE regress_orders;
-- a change counts at once, also a membership's, and one that is rolled back does not
BEGIN;
SELECT outbox.grant_emit('regress_shop', topics => '{x}');
SET LOCAL ROLE regress_shop;
SELECT (pg_temp.refused(format($$SELECT outbox.emit('a', 1, 'e', '{}', topic => %L)$$, t))).* FROM unnest('{x,shop.x}'::text[]) t;
ROLLBACK;
SET ROLE regress_shop;
SELECT (pg_temp.refused(format($$SELECT outbox.emit('a', 1, 'e', '{}', topic => %L)$$, t))).* FROM unnest('{x,shop.x}'::text[]) t;
RESET ROLE;
GRANT regress_boss TO regress_clerk;
SET ROLE regress_clerk;
SELECT (pg_temp.refused($$SELECT outbox.emit('a', 1, 'e', '{}', topic => 'x')$$)).*;
RESET ROLE;
SELECT outbox.revoke_emit('regress_shop');
SELECT role, topics FROM outbox_internal.emit_right WHERE role::text LIKE 'regress%' ORDER BY role::text;
SET ROLE regress_shop;
SELECT (pg_temp.refused($$SELECT outbox.emit('a', 1, 'e', '{}', topic => 'shop.x')$$)).*;
RESET ROLE;
-- what is no list of patterns
\set VERBOSITY default
SELECT outbox.grant_emit('regress_shop', topics => '{}');
SELECT outbox.grant_emit('regress_shop', topics => '{NULL}');
SELECT (pg_temp.refused($$SELECT outbox.grant_emit('regress_shop', topics => '{a,""}')$$)).*;
SELECT outbox.revoke_emit('regress_boss'), outbox.revoke_emit('regress_two');
DROP FUNCTION regress_definer();
DROP OWNED BY regress_shop, regress_clerk, regress_boss, regress_two, regress_both;
DROP ROLE regress_clerk, regress_boss, regress_both, regress_two, regress_shop;
