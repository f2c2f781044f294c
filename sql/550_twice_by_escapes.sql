-- JSON encoded twice, whose first brace is spelled as an escape, is none the better for it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
SET outbox.lone_emit = allow;
CREATE SCHEMA regress_550;
SET search_path = regress_550, public;
\getenv dir PG_ABS_SRCDIR
\set refused :dir '/sql/include/refused.sql'
\i :refused
BEGIN;
SELECT j, r.message FROM unnest(ARRAY['"\u007b\"a\":1}"', '"\u007B\u007d"', ' " \n\u005b1]"']) WITH ORDINALITY v (j, n),
  LATERAL refused(format('SELECT outbox.emit(''a'', 1, ''x'', %L::json)', j)) r ORDER BY n;
-- strings that are none
SELECT j, outbox.emit('a', 1, 'x', j::json) IS NOT NULL AS emitted
FROM unnest(ARRAY['"\u007b"', '"\u007bname\u007d"', '"\u005b"', '"\u0041[1]"', '"\\u007b}"', '"\u4e7b{}"']) WITH ORDINALITY v (j, n) ORDER BY n;
ROLLBACK;
DROP SCHEMA regress_550 CASCADE;
