-- ---------------------------------------------------------------------------------------------------------------------
-- Before anything is made: the server's version, and schemas that are ours alone. (If schema outbox exists already,
-- CREATE EXTENSION takes it as it is, whatever its owner and contents.)
-- ---------------------------------------------------------------------------------------------------------------------
-- Each in a block of its own: from PostgreSQL 18 on an error shows the whole statement.
DO $check$
BEGIN
  IF pg_catalog.current_setting('server_version_num')::int OPERATOR(pg_catalog.<) 150000 THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'outbox needs PostgreSQL 15 or newer',
      DETAIL = pg_catalog.format('This is %s.', pg_catalog.current_setting('server_version'));
  END IF;
END
$check$;
DO $check$
BEGIN
  IF pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=) 'MULE_INTERNAL' THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'outbox does not work in a database in encoding MULE_INTERNAL',
      DETAIL = 'Events are published in UTF-8, into which PostgreSQL does not convert it.',
      HINT = 'Make a database in UTF8: CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0.';
  END IF;
END
$check$;
DO $check$
DECLARE
  what text := (
    SELECT pg_catalog.min(pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)) FROM pg_catalog.pg_depend d
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
      AND d.refobjid OPERATOR(pg_catalog.=) (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'outbox')
      AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass);
BEGIN
  IF what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'schema "outbox" exists already and is not empty',
      DETAIL = pg_catalog.format('It holds %s, for instance.', what), HINT = 'Drop or rename that schema: the extension makes its own.';
  END IF;
END
$check$;
DO $check$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'outbox_internal') THEN
    RAISE EXCEPTION USING ERRCODE = 'duplicate_schema', MESSAGE = 'schema "outbox_internal" exists already',
      DETAIL = 'The extension keeps there what its users need not see.', HINT = 'Drop or rename that schema: the extension makes its own.';
  END IF;
END
$check$;
DO $check$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
                 WHERE n.nspname OPERATOR(pg_catalog.=) 'outbox' AND r.rolname OPERATOR(pg_catalog.=) CURRENT_USER) THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'schema "outbox" exists already and belongs to another role',
      DETAIL = 'Its owner could put objects into it or drop it.', HINT = 'Drop or rename that schema: the extension makes its own.';
  END IF;
END
$check$;

-- What users need is in schema outbox; the log, positions and all else that they need not see is here.
CREATE SCHEMA outbox_internal;
COMMENT ON SCHEMA outbox_internal IS 'what extension outbox keeps for itself: the log, positions of lanes, parked events; schema outbox shows what is to be seen of it';
REVOKE ALL ON SCHEMA outbox_internal FROM PUBLIC;
