-- The trigger function emit_row(): row changes as events.
\pset null '(null)'
CREATE TABLE orders (id int PRIMARY KEY, note text, total numeric, secret text, at timestamptz DEFAULT '2026-01-02 03:04:05+00');
SET timezone = 'UTC';
CREATE TRIGGER events AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
BEGIN;
INSERT INTO orders VALUES (1, 'ü "quoted"', 1.50, 's'), (2, NULL, NULL, NULL);
UPDATE orders SET total = 2 WHERE id = 1;
UPDATE orders SET id = 3 WHERE id = 2;
DELETE FROM orders WHERE id = 1;
SELECT aggregate_type, aggregate_id, event_type, payload, content_type FROM stored;
ROLLBACK;
-- A prefix of the event type, and columns left out; dropped columns are no trouble.
ALTER TABLE orders DROP COLUMN note, ADD COLUMN extra jsonb DEFAULT '{"a": [1]}';
DROP TRIGGER events ON orders;
CREATE TRIGGER events AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id', 'shop.order', 'secret', 'at');
BEGIN;
INSERT INTO orders (id, total, secret) VALUES (1, 1.50, 's');
UPDATE orders SET secret = 't';
DELETE FROM orders;
SELECT aggregate_id, event_type, payload FROM stored;
ROLLBACK;
DROP TRIGGER events ON orders;
-- An empty prefix is the default; a condition is Postgres' own affair; a key may be NULL.
CREATE TRIGGER events AFTER UPDATE ON orders FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION outbox.emit_row('order', 'total', '', 'secret', 'at', 'extra');
BEGIN;
INSERT INTO orders (id) VALUES (1);
UPDATE orders SET id = 1;
UPDATE orders SET id = 2;
SELECT aggregate_id, event_type, payload FROM stored;
ROLLBACK;
DROP TRIGGER events ON orders;
-- Partitions, COPY, foreign key cascades.
CREATE TABLE parts (id int, region text) PARTITION BY LIST (region);
CREATE TABLE parts_north PARTITION OF parts FOR VALUES IN ('north');
CREATE TABLE parts_south (region text, id int);
ALTER TABLE parts ATTACH PARTITION parts_south FOR VALUES IN ('south');
CREATE TRIGGER events AFTER INSERT OR UPDATE OR DELETE ON parts FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('part', 'id');
BEGIN;
COPY parts FROM stdin;
1	north
2	south
\.
UPDATE parts SET region = 'south' WHERE id = 1;
SELECT aggregate_id, event_type, payload FROM stored;
ROLLBACK;
DROP TABLE parts;
-- A role that may write to the table needs no grant to emit.
CREATE TRIGGER events AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
CREATE ROLE regress_writer;
GRANT INSERT ON orders TO regress_writer;
BEGIN;
SET LOCAL ROLE regress_writer;
INSERT INTO orders (id) VALUES (1);
SELECT outbox.emit('order', 1, 'e', '1');
ROLLBACK;
BEGIN;
SET LOCAL ROLE regress_writer;
INSERT INTO orders (id) VALUES (1);
RESET ROLE;
SELECT aggregate_id, event_type FROM stored;
ROLLBACK;
-- Without EXECUTE it cannot be attached.
CREATE SCHEMA regress_writer AUTHORIZATION regress_writer;
SET ROLE regress_writer;
CREATE TABLE regress_writer.mine (id int);
CREATE TRIGGER events AFTER INSERT ON regress_writer.mine FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('mine', 'id');
RESET ROLE;
DROP SCHEMA regress_writer CASCADE;
DROP TRIGGER events ON orders;
-- Wrong uses.
\x on
\t on
SELECT * FROM refused($$SELECT outbox.emit_row()$$);
CREATE TRIGGER wrong BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
SELECT * FROM refused($$INSERT INTO orders (id) VALUES (9)$$);
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH STATEMENT EXECUTE FUNCTION outbox.emit_row('order', 'id');
SELECT * FROM refused($$INSERT INTO orders (id) VALUES (9)$$);
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER TRUNCATE ON orders EXECUTE FUNCTION outbox.emit_row('order', 'id');
SELECT * FROM refused($$TRUNCATE orders$$);
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order');
SELECT * FROM refused($$INSERT INTO orders (id) VALUES (9)$$);
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'note');
SELECT * FROM refused($$INSERT INTO orders (id) VALUES (9)$$);
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id', '', 'nothing');
SELECT * FROM refused($$INSERT INTO orders (id) VALUES (9)$$);
DROP TRIGGER wrong ON orders;
CREATE TRIGGER wrong AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('', 'id');
SELECT * FROM refused($$INSERT INTO orders (id) VALUES (9)$$);
DROP TRIGGER wrong ON orders;
DROP TABLE orders;
DROP ROLE regress_writer;

-- A payload does not depend on what the session has set for its own output.
CREATE TABLE row_values (id int PRIMARY KEY, f float8, b bytea, i interval, days daterange, many datemultirange, each daterange[], of regclass);
CREATE TRIGGER row_values AFTER INSERT ON row_values FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('row_values', 'id');
INSERT INTO row_values VALUES (1, 0.1::float8 + 0.2::float8, '\xdeadbeef', '1 day 02:03:04', '[2026-02-01,2026-02-02)', '{[2026-02-01,2026-02-02)}', '{"[2026-02-01,2026-02-02)"}', 'row_values');
SET extra_float_digits = -15; SET bytea_output = escape; SET intervalstyle = iso_8601; SET datestyle = 'SQL, DMY'; SET quote_all_identifiers = on;
INSERT INTO row_values SELECT 2, f, b, i, days, many, each, of FROM row_values;
SHOW intervalstyle;
SHOW datestyle;
RESET extra_float_digits; RESET bytea_output; RESET intervalstyle; RESET datestyle; RESET quote_all_identifiers;
SELECT convert_from(payload, 'UTF8') FROM outbox_internal.log WHERE aggregate_type = 'row_values' ORDER BY created_at;
DROP TABLE row_values;

-- Keys that are exchanged: in one statement, the last event of a key is deleted; by way of keys that no row has, created.
CREATE TABLE row_swap (id int PRIMARY KEY DEFERRABLE, v text);
CREATE TRIGGER row_swap AFTER INSERT OR UPDATE OR DELETE ON row_swap FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('row_swap', 'id');
INSERT INTO row_swap VALUES (1, 'one'), (2, 'two');
BEGIN;
UPDATE row_swap SET id = 3 - id;
SELECT aggregate_id, event_type, payload ->> 'v' AS v FROM outbox.event ORDER BY created_at;
ROLLBACK;
BEGIN;
UPDATE row_swap SET id = -id;
UPDATE row_swap SET id = 3 + id WHERE id < 0;
SELECT aggregate_id, event_type, payload ->> 'v' AS v FROM outbox.event ORDER BY created_at;
ROLLBACK;
DROP TABLE row_swap;
