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
