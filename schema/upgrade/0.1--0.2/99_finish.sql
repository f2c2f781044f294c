-- What outbox.lag was made of.
DROP FUNCTION outbox_internal.lag();

-- Whom 0.1 let emit: to every topic, as until now.
INSERT INTO outbox_internal.emit_right (role)
SELECT DISTINCT pg_catalog.pg_get_userbyid(x.grantee)
FROM pg_catalog.pg_proc p, LATERAL pg_catalog.aclexplode(p.proacl) x
WHERE p.pronamespace OPERATOR(pg_catalog.=) 'outbox'::pg_catalog.regnamespace AND p.proname OPERATOR(pg_catalog.~) '^emit(_|$)'
  AND outbox_internal.is_ours('pg_catalog.pg_proc', p.oid) AND x.grantee OPERATOR(pg_catalog.<>) p.proowner AND x.grantee OPERATOR(pg_catalog.<>) 0
ON CONFLICT ON CONSTRAINT emit_right_pkey DO NOTHING;
DROP FUNCTION outbox_internal.is_ours(regclass, oid);

-- ---------------------------------------------------------------------------------------------------------------------
-- Last, after 98_rights.sql has taken from everything new what default privileges gave (and would take what is granted before
-- it): rights on what was replaced by something new go on.
-- ---------------------------------------------------------------------------------------------------------------------
DO $carry$
DECLARE
  role text;
  what text;
  option text;
BEGIN
  FOR role, what, option IN
    SELECT x.grantee::pg_catalog.regrole::text, n.after, CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    FROM (VALUES
      ('outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint)',
       'outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint, boolean)'),
      ('outbox.wait_until_idle(interval)', 'outbox.wait_until_idle(interval, boolean)'),
      ('outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval)',
       'outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval, text)'),
      ('outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval)',
       'outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval, text)')) n (before, after)
    JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) n.before::pg_catalog.regprocedure,
    LATERAL pg_catalog.aclexplode(p.proacl) x
    WHERE x.grantee OPERATOR(pg_catalog.<>) p.proowner AND x.grantee OPERATOR(pg_catalog.<>) 0
  LOOP
    EXECUTE pg_catalog.format('GRANT EXECUTE ON ROUTINE %s TO %s%s', what, role, option);
  END LOOP;
  -- Functions in a view are called, and ask, with the rights of its reader.
  FOR role, what IN
    SELECT DISTINCT x.grantee::pg_catalog.regrole::text, n.asked
    FROM (VALUES
      ('lag', 'EXECUTE ON FUNCTION outbox_internal.lanes()'),
      ('blocked_key', 'SELECT ON outbox_internal.waiting, outbox.pause'),
      ('blocked_key', 'SELECT (created_at, replay, id, route_id, order_key, state, due_at, aggregate_type, aggregate_id, attempts, '
        'error_class, error_code, error_message) ON outbox_internal.parked'),
      ('blocked_key', 'EXECUTE ON FUNCTION outbox_internal.worker()'),
      ('blocked_key', 'EXECUTE ON FUNCTION outbox_internal.key_dead(bigint, bigint, boolean, timestamptz, bigint, uuid), '
        'outbox_internal.key_head(bigint, bigint, boolean, timestamptz, bigint, uuid, timestamptz, bigint, uuid, timestamptz, bigint, uuid), outbox_internal.key_pause(bigint, text, text)')) n (view, asked)
    JOIN pg_catalog.pg_class c ON c.relname OPERATOR(pg_catalog.=) n.view::pg_catalog.name
      AND c.relnamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[]),
    LATERAL (SELECT y.grantee, y.privilege_type FROM pg_catalog.aclexplode(c.relacl) y
             UNION ALL  -- of columns
             SELECT y.grantee, y.privilege_type FROM pg_catalog.pg_attribute a, LATERAL pg_catalog.aclexplode(a.attacl) y
             WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid) x
    WHERE x.privilege_type OPERATOR(pg_catalog.=) 'SELECT' AND x.grantee OPERATOR(pg_catalog.<>) c.relowner
      AND x.grantee OPERATOR(pg_catalog.<>) 0
  LOOP
    EXECUTE pg_catalog.format('GRANT %s TO %s', what, role);
  END LOOP;
  -- Who may emit gets what grant_emit() gives by now.
  FOR role, what IN
    SELECT DISTINCT x.grantee::pg_catalog.regrole::text, pg_catalog.format('EXECUTE ON FUNCTION %s', r)
    FROM pg_catalog.pg_proc p, LATERAL pg_catalog.aclexplode(p.proacl) x, outbox_internal.emit_routines() r
    WHERE p.oid OPERATOR(pg_catalog.=) 'outbox.emit(text, text, text, jsonb, jsonb, text, timestamptz, text)'::pg_catalog.regprocedure
      AND x.grantee OPERATOR(pg_catalog.<>) p.proowner AND x.grantee OPERATOR(pg_catalog.<>) 0
    UNION ALL
    SELECT x.grantee::pg_catalog.regrole::text, 'UPDATE, DELETE ON outbox.event'
    FROM pg_catalog.pg_class c, LATERAL pg_catalog.aclexplode(c.relacl) x
    WHERE c.oid OPERATOR(pg_catalog.=) 'outbox.event'::pg_catalog.regclass AND x.privilege_type OPERATOR(pg_catalog.=) 'INSERT'
      AND x.grantee OPERATOR(pg_catalog.<>) c.relowner AND x.grantee OPERATOR(pg_catalog.<>) 0
    UNION ALL
    SELECT x.grantee::pg_catalog.regrole::text, 'INSERT, SELECT, UPDATE, DELETE ON outbox.outboxevent'
    FROM pg_catalog.pg_class c, LATERAL pg_catalog.aclexplode(c.relacl) x
    WHERE c.oid OPERATOR(pg_catalog.=) 'outbox.event'::pg_catalog.regclass AND x.privilege_type OPERATOR(pg_catalog.=) 'INSERT'
      AND x.grantee OPERATOR(pg_catalog.<>) c.relowner AND x.grantee OPERATOR(pg_catalog.<>) 0
  LOOP
    EXECUTE pg_catalog.format('GRANT %s TO %s', what, role);
  END LOOP;
  -- Operators get what grant_operate() gives by now: roles with all that it gave before, of what there was before.
  FOR role IN
    WITH given AS (
      SELECT p.proacl AS acl, p.proowner AS owner
      FROM pg_catalog.pg_proc p
      JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
        AND d.objid OPERATOR(pg_catalog.=) p.oid AND d.deptype OPERATOR(pg_catalog.=) 'e' AND pg_catalog.age(d.xmin) OPERATOR(pg_catalog.>) 0
      WHERE p.pronamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[])
        AND (p.proname OPERATOR(pg_catalog.~) '^(pause|resume|retry|skip|discard|redrive|discard_dead_letters|parked_content|replay|cancel_replay|seek)$'
          OR EXISTS (SELECT FROM pg_catalog.aclexplode(p.proacl) m
                     WHERE m.grantee OPERATOR(pg_catalog.=) 'pg_monitor'::pg_catalog.regrole))
      UNION ALL
      SELECT c.relacl, c.relowner
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.objid OPERATOR(pg_catalog.=) c.oid AND d.deptype OPERATOR(pg_catalog.=) 'e' AND pg_catalog.age(d.xmin) OPERATOR(pg_catalog.>) 0
      WHERE c.relnamespace OPERATOR(pg_catalog.=) ANY ('{outbox,outbox_internal}'::pg_catalog.regnamespace[])
        AND c.oid OPERATOR(pg_catalog.<>) 'outbox.route'::pg_catalog.regclass  -- which is pg_monitor's to read since this step
        AND EXISTS (SELECT FROM pg_catalog.aclexplode(c.relacl) m
                    WHERE m.grantee OPERATOR(pg_catalog.=) 'pg_monitor'::pg_catalog.regrole
                      AND m.privilege_type OPERATOR(pg_catalog.=) 'SELECT'))
    SELECT DISTINCT x.grantee::pg_catalog.regrole::text
    FROM given g, LATERAL pg_catalog.aclexplode(g.acl) x
    WHERE x.grantee OPERATOR(pg_catalog.<>) g.owner AND x.grantee OPERATOR(pg_catalog.<>) 0
      AND x.grantee OPERATOR(pg_catalog.<>) 'pg_monitor'::pg_catalog.regrole
      AND NOT EXISTS (
        SELECT FROM given o
        WHERE NOT EXISTS (SELECT FROM pg_catalog.aclexplode(o.acl) h WHERE h.grantee OPERATOR(pg_catalog.=) x.grantee))
  LOOP
    FOR what IN SELECT * FROM outbox_internal.operate_grants() LOOP
      EXECUTE pg_catalog.format('GRANT %s TO %s', what, role);
    END LOOP;
  END LOOP;
END
$carry$;
DROP FUNCTION outbox.wait_until_idle(interval);
DROP PROCEDURE outbox.replay(timestamptz, timestamptz, text, text, text, uuid[], text, text, boolean, numeric, text, bigint, bigint);
DROP FUNCTION outbox.create_route(text, text, text[], text[], text, text, integer, text, jsonb, text, integer, interval, interval);
DROP FUNCTION outbox.alter_route(text, text, text[], text[], text, text, integer, jsonb, text, integer, interval, interval);

-- What roles were granted since is theirs, and no part of the extension. The server takes for that whatever rights an
-- object has when a statement of this script touches them: a dump would leave those grants out, and from 17 on the roles
-- could not be dropped. No command mends it. An entry that has nothing else goes: a column has one only by that, and
-- aclexplode() refuses an empty one.
UPDATE pg_catalog.pg_init_privs i
SET initprivs = ARRAY(
  SELECT a FROM pg_catalog.unnest(i.initprivs) a
  WHERE EXISTS (
    SELECT FROM pg_catalog.aclexplode(ARRAY[a]) x
    WHERE x.grantee OPERATOR(pg_catalog.=) ANY (ARRAY[0, x.grantor])
      -- It reads. What lets it emit, receive or operate is not the extension's.
      OR (x.grantee OPERATOR(pg_catalog.=) 'pg_monitor'::pg_catalog.regrole
        AND (i.classoid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_proc'::pg_catalog.regclass OR NOT EXISTS (
          SELECT FROM (SELECT * FROM outbox_internal.emit_routines() UNION ALL SELECT * FROM outbox_internal.receive_routines()
                       UNION ALL SELECT * FROM outbox_internal.operate_routines()) g (routine)
          WHERE g.routine OPERATOR(pg_catalog.=) i.objoid))
        AND (i.classoid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_class'::pg_catalog.regclass
          OR i.objoid OPERATOR(pg_catalog.<>) ALL (ARRAY['outbox.event'::pg_catalog.regclass::pg_catalog.oid, 'outbox.outboxevent'::pg_catalog.regclass::pg_catalog.oid])))))
FROM pg_catalog.pg_depend d, pg_catalog.pg_extension e
WHERE i.classoid OPERATOR(pg_catalog.=) d.classid AND i.objoid OPERATOR(pg_catalog.=) d.objid
  AND d.deptype OPERATOR(pg_catalog.=) 'e' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
  AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox';
DELETE FROM pg_catalog.pg_init_privs i
USING pg_catalog.pg_depend d, pg_catalog.pg_extension e
WHERE pg_catalog.cardinality(i.initprivs) OPERATOR(pg_catalog.=) 0
  AND i.classoid OPERATOR(pg_catalog.=) d.classid AND i.objoid OPERATOR(pg_catalog.=) d.objid
  AND d.deptype OPERATOR(pg_catalog.=) 'e' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
  AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox';
DELETE FROM pg_catalog.pg_shdepend s
USING pg_catalog.pg_database b, pg_catalog.pg_depend d, pg_catalog.pg_extension e
WHERE s.deptype OPERATOR(pg_catalog.=) 'i' AND s.dbid OPERATOR(pg_catalog.=) b.oid
  AND b.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
  AND s.classid OPERATOR(pg_catalog.=) d.classid AND s.objid OPERATOR(pg_catalog.=) d.objid
  AND d.deptype OPERATOR(pg_catalog.=) 'e' AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
  AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND e.extname OPERATOR(pg_catalog.=) 'outbox'
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_init_privs i, pg_catalog.aclexplode(i.initprivs) x
    WHERE i.classoid OPERATOR(pg_catalog.=) s.classid AND i.objoid OPERATOR(pg_catalog.=) s.objid
      AND i.objsubid OPERATOR(pg_catalog.=) s.objsubid AND s.refobjid OPERATOR(pg_catalog.=) ANY (ARRAY[x.grantee, x.grantor]));

-- Of 00_guard.sql.
SELECT pg_catalog.set_config('work_mem', pg_catalog.current_setting('outbox_script.work_mem'), true);
