-- Which tables of outbox have which guard, and which columns may be changed by hand. A table or column that is new stands here as one
-- without: either schema/27_loss.sql has it, or it is one that nothing hangs on, and this list says so.
-- matrix: C19
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS outbox;
RESET client_min_messages;
CREATE TEMP VIEW guarded AS
  SELECT c.oid, c.oid::regclass::text AS name, coalesce(string_agg(DISTINCT p.proname, ', '), 'none') AS guards
  FROM pg_class c LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname ~ '^(no_loss|no_change|log_loss)'
  LEFT JOIN pg_proc p ON p.oid = t.tgfoid AND t.tgenabled = 'A'
  WHERE c.relnamespace IN ('outbox'::regnamespace, 'outbox_internal'::regnamespace) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  GROUP BY c.oid;
SELECT DISTINCT guards, regexp_replace(name, '_[0-9]{2}$', '_NN') AS name FROM guarded ORDER BY 1, 2;
-- of tables that are guarded by columns: workers write these, or nothing hangs on them
SELECT g.name, string_agg(a.attname, ', ' ORDER BY a.attnum) AS free
FROM guarded g JOIN pg_trigger t ON t.tgrelid = g.oid AND t.tgname = 'no_change' AND cardinality(t.tgattr::int2[]) > 0
JOIN pg_attribute a ON a.attrelid = g.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attnum <> ALL (t.tgattr)
GROUP BY 1 ORDER BY 1;
-- what goes with its rows: a table that refers to a guarded one is guarded, or is in the first list for a reason
SELECT DISTINCT g.name, k.confrelid::regclass AS refers_to FROM guarded g JOIN pg_constraint k ON k.conrelid = g.oid AND k.contype = 'f'
WHERE g.guards = 'none' ORDER BY 1, 2;
