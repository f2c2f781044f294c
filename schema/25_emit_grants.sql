-- ---------------------------------------------------------------------------------------------------------------------
-- The right to emit. One line instead of a page of grants. (Run again in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.emit_routines() RETURNS SETOF regprocedure
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[])
    AND p.proname IN ('emit', 'emit_text', 'emit_bytes', 'emit_tombstone', 'emit_many', 'emit_many_json', 'emit_row', 'emit_outboxevent');
END;
COMMENT ON FUNCTION outbox_internal.emit_routines() IS 'functions that a role calls to emit';

CREATE OR REPLACE FUNCTION outbox_internal.emit_grants() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT format('EXECUTE ON ROUTINE %s', r) FROM outbox_internal.emit_routines() r
  UNION ALL
  -- UPDATE and DELETE are refused there, with words of our own: "permission denied" would send people to look for a GRANT.
  VALUES ('INSERT, SELECT, UPDATE, DELETE ON outbox.event'), ('INSERT, SELECT, UPDATE, DELETE ON outbox.outboxevent');
END;
COMMENT ON FUNCTION outbox_internal.emit_grants() IS 'what grant_emit() grants';

-- Roles that may emit, and to which topics: see 24_rights.sql.
CREATE TABLE IF NOT EXISTS outbox_internal.emit_right (
  role              name PRIMARY KEY,
  role_id           oid,
  topics            text[],
  system_identifier bigint
) USING heap;
COMMENT ON TABLE outbox_internal.emit_right IS 'roles that grant_emit() let emit, and to which topics; change through grant_emit and revoke_emit';
COMMENT ON COLUMN outbox_internal.emit_right.role IS 'role; its name counts where role_id does not';
COMMENT ON COLUMN outbox_internal.emit_right.role_id IS 'its oid, which counts where system_identifier is this server''s and there is such a role; NULL: there was none of that name when the row came';
COMMENT ON COLUMN outbox_internal.emit_right.topics IS 'patterns with * for any run of characters; NULL: all topics';
COMMENT ON COLUMN outbox_internal.emit_right.system_identifier IS 'of the server that role_id is an oid of: a dump may bring another one''s';
SELECT pg_catalog.pg_extension_config_dump('outbox_internal.emit_right', '');

CREATE OR REPLACE TRIGGER find_role BEFORE INSERT ON outbox_internal.emit_right FOR EACH ROW EXECUTE FUNCTION outbox_internal.find_role();
ALTER TABLE outbox_internal.emit_right ENABLE ALWAYS TRIGGER find_role;
COMMENT ON TRIGGER find_role ON outbox_internal.emit_right IS 'fills role_id';

-- Where topics are limited, an event of a table whose owner has no right is refused, and its row with it.
CREATE OR REPLACE FUNCTION outbox_internal.emits_nothing(role oid) RETURNS boolean
  LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emits_nothing';
COMMENT ON FUNCTION outbox_internal.emits_nothing(oid) IS 'has the role no right to emit, where that counts: while the topics of any role are limited?';

-- So is one of an owner whose topics do not have that of the table's trigger.
CREATE OR REPLACE FUNCTION outbox_internal.emits_to(role oid, topic text) RETURNS boolean
  LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_emits_to';
COMMENT ON FUNCTION outbox_internal.emits_to(oid, text) IS 'is what the role emits to this topic let through?';

CREATE OR REPLACE FUNCTION outbox_internal.tables_without_right() RETURNS TABLE (relation regclass, owner oid, topic text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT DISTINCT c.oid::regclass, c.relowner, CASE WHEN NOT n.nothing THEN t.topic END
  FROM (
    SELECT g.tgrelid, 'outbox.event.' || convert_from(substr(g.tgargs, 1, position(decode('00', 'hex') IN g.tgargs) - 1), getdatabaseencoding()) AS topic
    FROM pg_catalog.pg_trigger g WHERE g.tgfoid = to_regprocedure('outbox.emit_row()') AND g.tgnargs > 0 AND g.tgparentid = 0
  ) t
  JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
  CROSS JOIN LATERAL (SELECT outbox_internal.emits_nothing(c.relowner) AS nothing) n
  WHERE n.nothing OR NOT outbox_internal.emits_to(c.relowner, t.topic)
  ORDER BY 1;
END;
COMMENT ON FUNCTION outbox_internal.tables_without_right() IS 'tables with a trigger emit_row whose owner may not emit to the topic of that (NULL: emits nothing): rows of theirs and of their partitions are refused';

-- With whole names for ten of them.
CREATE OR REPLACE FUNCTION outbox_internal.owners_without_right() RETURNS TABLE (owner oid, named text, tables text, topics text, remedy text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  WITH refused AS (
    SELECT t.owner, quote_ident(pg_get_userbyid(t.owner)) AS named, array_agg(DISTINCT t.relation::text) AS tables, array_agg(DISTINCT t.topic) FILTER (WHERE t.topic IS NOT NULL) AS topics
    FROM outbox_internal.tables_without_right() t GROUP BY 1
  ), said AS MATERIALIZED (
    SELECT e.found, e.patterns FROM outbox_internal.right_rows('emit') e WHERE EXISTS (SELECT FROM refused r WHERE r.topics IS NOT NULL)
  ), listed AS (
    -- What holds now: its own, else that of the roles it is a member of.
    SELECT r.owner, array_agg(DISTINCT p) AS topics
    FROM refused r JOIN said e ON pg_has_role(r.owner, e.found, 'USAGE')
    CROSS JOIN LATERAL unnest(e.patterns) p
    WHERE r.topics IS NOT NULL AND (e.found = r.owner OR NOT EXISTS (SELECT FROM said o WHERE o.found = r.owner))
    GROUP BY 1
  )
  SELECT r.owner, r.named, array_to_string(r.tables[1:10], ', ') || CASE WHEN cardinality(r.tables) > 10 THEN format(' and %s more', cardinality(r.tables) - 10) ELSE '' END,
         array_to_string(r.topics[1:10], ', ') || CASE WHEN cardinality(r.topics) > 10 THEN format(' and %s more', cardinality(r.topics) - 10) ELSE '' END,
         format('SELECT outbox.grant_emit(%L%s);', r.named, CASE WHEN r.topics IS NOT NULL THEN format(', topics => %L', l.topics || r.topics) END)
  FROM refused r LEFT JOIN listed l ON l.owner = r.owner
  ORDER BY 2;
END;
COMMENT ON FUNCTION outbox_internal.owners_without_right() IS 'the same by owners, with what gives them the right';

CREATE OR REPLACE FUNCTION outbox.grant_emit(role regrole, topics text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $grant$
DECLARE
  impossible text;
  without text;
  owners text; elsewhere text;
BEGIN
  PERFORM outbox_internal.check_role(role, 'emit', true);
  PERFORM outbox_internal.check_patterns('emit', topics);
  -- A topic of the event's own is portable (src/base/topic_name.h); without one it counts as outbox.event.<aggregate type>, which may be any text.
  SELECT p INTO impossible FROM unnest(topics) p
  WHERE NOT starts_with(p, 'outbox.event.') AND NOT (strpos(p, '*') > 0 AND starts_with('outbox.event.', split_part(p, '*', 1)))
    AND (p !~ '^[A-Za-z0-9._*-]+$' OR p IN ('.', '..') OR length(replace(p, '*', '')) > 249) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('no topic can match the pattern "%s"', impossible),
      DETAIL = 'A topic name has 1 to 249 of the characters A-Z a-z 0-9 . _ - and is not "." or "..".',
      HINT = 'A pattern is made of these, and * for any run of characters; one that begins with outbox.event. may have others, as aggregate types may.';
  END IF;
  PERFORM outbox_internal.grant_by_pattern(role, 'emit', topics);
  IF topics IS NULL THEN
    RETURN;
  END IF;
  SELECT string_agg(w.tables, ', '), string_agg(w.remedy, ' ') INTO without, owners FROM outbox_internal.owners_without_right() w WHERE w.topics IS NULL;
  IF without IS NOT NULL THEN
    RAISE WARNING USING MESSAGE = 'rows of tables with a trigger emit_row are refused from now on: ' || without,
      DETAIL = 'Where topics are limited, who has no right emits nothing, and these tables'' owners have none.', HINT = owners;
  END IF;
  SELECT string_agg(w.tables, ', '), string_agg(w.remedy, ' '), string_agg(format('%s to %s', w.named, w.topics), '; ') INTO without, owners, elsewhere
  FROM outbox_internal.owners_without_right() w WHERE w.topics IS NOT NULL AND pg_has_role(w.owner, role, 'USAGE');
  IF without IS NOT NULL THEN
    RAISE WARNING USING MESSAGE = 'rows of tables with a trigger emit_row are refused from now on: ' || without,
      DETAIL = format('What a table''s trigger emits is its owner''s. Not among what these may emit to: %s.', elsewhere), HINT = owners;
  END IF;
END
$grant$;
COMMENT ON FUNCTION outbox.grant_emit(regrole, text[]) IS 'lets a role emit: by the emit functions, the trigger functions emit_row and emit_outboxevent, and the views outbox.event and outbox.outboxevent. With topics, a list of patterns such as shop.*, it may emit only what matches one of them: the topic that an event is given, or outbox.event.<aggregate type> where it is given none. Another call for the same role replaces the list, and takes it away where topics is left out';

CREATE OR REPLACE FUNCTION outbox.revoke_emit(role regrole) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $revoke$
BEGIN
  PERFORM outbox_internal.revoke_by_pattern(role, 'emit');
END
$revoke$;
COMMENT ON FUNCTION outbox.revoke_emit(regrole) IS 'takes back what grant_emit() granted; USAGE on the schema unless the role has another right there';
