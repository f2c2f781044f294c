-- The key of a row that emit_row() emits is one text, whatever a session has set: else a row would have several keys, and no order.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE DOMAIN regress_day AS date;
CREATE TYPE regress_pair AS (at timestamptz, n float8);
CREATE TYPE regress_object AS (class regclass, coin money);
CREATE DOMAIN regress_classes AS regclass[];
CREATE TABLE regress_keys (tz timestamptz, ts timestamp, day date, own regress_day, span interval, bytes bytea, f8 float8, f4 float4, coin money,
  pair regress_pair, days date[], range tstzrange, class regclass, type regtype, n numeric, id uuid, word text,
  classes regclass[], object regress_object, objects regress_object[], own_classes regress_classes);
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT attname FROM pg_attribute WHERE attrelid = 'regress_keys'::regclass AND attnum > 0 LOOP
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR UPDATE ON regress_keys FOR EACH ROW EXECUTE FUNCTION outbox.emit_row(%L, %L)', name, 'regress_key.' || name, name);
  END LOOP;
END $$;
BEGIN;
INSERT INTO regress_keys VALUES ('2026-02-01 00:00+00', '2026-02-01 00:00', '2026-02-01', '2026-02-01', '1 day 2:03', 'AB', 0.1::float8 + 0.2, 0.1, 7::money,
  ROW('2026-02-01 00:00+00', 0.1::float8 + 0.2), '{2026-02-01,2026-02-02}', '[2026-02-01 00:00+00,2026-02-02 00:00+00)', 'regress_keys', 'regress_pair', 1.10, '019a0000-0000-7000-8000-000000000001', 'x',
  '{regress_keys}', ROW('regress_keys', 7), ARRAY[ROW('regress_keys', 7)::regress_object], '{regress_keys}');
SET LOCAL timezone = 'Asia/Tokyo';
SET LOCAL datestyle = 'SQL, DMY';
SET LOCAL intervalstyle = 'iso_8601';
SET LOCAL bytea_output = 'escape';
SET LOCAL extra_float_digits = 0;
SET LOCAL quote_all_identifiers = on;
SET LOCAL search_path = pg_catalog;
UPDATE public.regress_keys SET word = word;
-- one key each, and what the session has set is as it was
SHOW timezone;
SHOW datestyle;
SELECT aggregate_type, count(*), count(DISTINCT aggregate_id) AS keys, min(aggregate_id) AS key, string_agg(DISTINCT event_type, ' ') AS types
FROM outbox.event WHERE aggregate_type LIKE 'regress\_key.%' GROUP BY 1 ORDER BY 1;
ROLLBACK;
-- and the one that emit() has for a cast to text, which is not always what the column's output is
CREATE DOMAIN regress_code AS char(5);
CREATE TABLE regress_casts (code char(5), own regress_code, yes bool, address inet, net cidr, kind "char", name name, n numeric(9, 3), word varchar(9), bits bit(3));
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT attname FROM pg_attribute WHERE attrelid = 'regress_casts'::regclass AND attnum > 0 LOOP
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR UPDATE ON regress_casts FOR EACH ROW EXECUTE FUNCTION outbox.emit_row(%L, %L)', name, 'regress_cast.' || name, name);
  END LOOP;
END $$;
BEGIN;
INSERT INTO regress_casts VALUES ('ab', 'cd', true, '10.0.0.1', '10.0.0.0/8', 'x', 'y', 1.5, 'z ', B'101');
-- blanks behind it are no other key
UPDATE regress_casts SET code = 'ab ';
SELECT e.aggregate_type, string_agg(e.event_type, ' ' ORDER BY e.created_at) AS types, format('"%s"', min(e.aggregate_id)) AS key, bool_and(e.aggregate_id = c.key) AS as_cast
FROM outbox.event e JOIN (
  SELECT v.* FROM regress_casts r, LATERAL (VALUES ('code', r.code::text), ('own', r.own::text), ('yes', r.yes::text), ('address', r.address::text), ('net', r.net::text),
    ('kind', r.kind::text), ('name', r.name::text), ('n', r.n::text), ('word', r.word::text), ('bits', r.bits::text)) v
) c (of, key) ON e.aggregate_type = 'regress_cast.' || c.of GROUP BY 1 ORDER BY 1;
-- a cast that somebody made is not used
CREATE TYPE regress_state AS ENUM ('new');
CREATE FUNCTION regress_state_text(regress_state) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'made of it' $$;
CREATE CAST (regress_state AS text) WITH FUNCTION regress_state_text(regress_state);
CREATE TABLE regress_cast_made (state regress_state);
CREATE TRIGGER "00_events" AFTER INSERT ON regress_cast_made FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('regress_cast_made', 'state');
INSERT INTO regress_cast_made VALUES ('new');
SELECT e.aggregate_id AS key, m.state::text FROM outbox.event e, regress_cast_made m WHERE e.aggregate_type = 'regress_cast_made';
-- what Debezium's libraries write has the same keys, and types without blanks
CREATE VIEW regress_outboxevent AS SELECT ''::char(20) AS aggregatetype, ''::regress_code AS aggregateid, ''::char(20) AS type, '' AS payload, ''::char(5) AS tenant, inet '0.0.0.0' AS address;
CREATE TRIGGER emit INSTEAD OF INSERT ON regress_outboxevent FOR EACH ROW EXECUTE FUNCTION outbox.emit_outboxevent();
INSERT INTO regress_outboxevent VALUES ('regress_order', 'ab', 'created', '{}', 'x', '10.0.0.1');
SELECT format('"%s" "%s" "%s"', aggregate_type, aggregate_id, event_type) AS event, headers FROM outbox.event WHERE aggregate_type LIKE 'regress_order%';
ROLLBACK;
DROP TABLE regress_casts;
DROP DOMAIN regress_code;
-- an error on the way leaves nothing set
CREATE FUNCTION regress_no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
CREATE TRIGGER z AFTER INSERT ON regress_keys FOR EACH ROW EXECUTE FUNCTION regress_no();
SET timezone = 'Asia/Tokyo';
INSERT INTO regress_keys (tz) VALUES ('2026-02-01 00:00+00');
SHOW timezone;
RESET timezone;
DROP TABLE regress_keys;
DROP FUNCTION regress_no();
DROP TYPE regress_pair, regress_object;
DROP DOMAIN regress_day, regress_classes;
