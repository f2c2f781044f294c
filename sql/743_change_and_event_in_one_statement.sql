-- A change and its events in one statement, as docs/emitting.md has it, also in PL/pgSQL: emit() is called for the rows that somebody
-- fetches, so INTO, which takes one, goes with count().
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
\set VERBOSITY sqlstate
BEGIN;
CREATE TEMP TABLE orders (id int);
-- How many orders and events there are since the last look.
CREATE FUNCTION pg_temp.made(OUT orders bigint, OUT events bigint) LANGUAGE sql AS $$
  SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM outbox_internal.log WHERE xid = pg_current_xact_id_if_assigned());
$$;
SAVEPOINT none;
WITH o AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING id) SELECT count(outbox.emit('order', id, 'order.created', '{}')) FROM o;
SELECT * FROM pg_temp.made();
ROLLBACK TO none;
DO $$
DECLARE n int;
BEGIN
  WITH o AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING id) SELECT count(outbox.emit('order', id, 'order.created', '{}')) INTO n FROM o;
  ASSERT n = 100;
END $$;
SELECT * FROM pg_temp.made();
ROLLBACK TO none;
DO $$
DECLARE o record;
BEGIN
  FOR o IN INSERT INTO orders SELECT generate_series(1, 100) RETURNING id LOOP
    PERFORM outbox.emit('order', o.id, 'order.created', '{}');
  END LOOP;
END $$;
SELECT * FROM pg_temp.made();
ROLLBACK TO none;
DO $$
BEGIN
  WITH o AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING id)
  INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', id, 'order.created', '{}' FROM o;
END $$;
SELECT * FROM pg_temp.made();
ROLLBACK TO none;
-- What the page warns of, and what PostgreSQL says of its neighbours. (A function in SQL runs its last statement to the end.)
DO $$
DECLARE made uuid;
BEGIN
  WITH o AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING id) SELECT outbox.emit('order', id, 'order.created', '{}') INTO made FROM o;
END $$;
SELECT * FROM pg_temp.made();
ROLLBACK TO none;
CREATE FUNCTION pg_temp.one() RETURNS uuid LANGUAGE sql AS $$
  WITH o AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING id) SELECT outbox.emit('order', id, 'order.created', '{}') FROM o;
$$;
SELECT pg_temp.one() IS NOT NULL AS emitted;
SELECT * FROM pg_temp.made();
ROLLBACK TO none;
DO $$
DECLARE made uuid;
BEGIN
  WITH o AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING id) SELECT outbox.emit('order', id, 'order.created', '{}') INTO STRICT made FROM o;
END $$;
ROLLBACK TO none;
DO $$
BEGIN
  PERFORM (WITH o AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING id) SELECT count(outbox.emit('order', id, 'order.created', '{}')) FROM o);
END $$;
ROLLBACK;
