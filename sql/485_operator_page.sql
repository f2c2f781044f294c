-- docs/kafka-is-down.md is what an operator types: grant_operate() lets him call, and read, all of it, but for the one event that
-- the application emits.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
\set page `cat "$PG_ABS_SRCDIR/docs/kafka-is-down.md"`
BEGIN;
CREATE ROLE regress_by_the_page;
SELECT outbox.grant_operate('regress_by_the_page');
CREATE TEMP TABLE typed AS
  SELECT DISTINCT w[1] AS name, w[2] = '(' AS called
  FROM regexp_matches(:'page', '```sql\n(.*?)```', 'g') s, regexp_matches(regexp_replace(s[1], '''[^'']*''', '', 'g'), 'outbox\.(\w+)(\(?)', 'g') w;
SELECT count(*) FILTER (WHERE called) > 3 AS calls, count(*) FILTER (WHERE NOT called) > 3 AS relations FROM typed;
SELECT t.name AS may_not FROM typed t
WHERE CASE WHEN t.called THEN NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'outbox'::regnamespace AND p.proname = t.name AND has_function_privilege('regress_by_the_page', p.oid, 'EXECUTE'))
           ELSE NOT has_table_privilege('regress_by_the_page', format('outbox.%I', t.name), 'SELECT') END
ORDER BY 1;
ROLLBACK;
