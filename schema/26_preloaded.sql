CREATE FUNCTION outbox_internal.preloaded() RETURNS boolean
  LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'outbox_preloaded';
COMMENT ON FUNCTION outbox_internal.preloaded() IS 'is outbox in shared_preload_libraries, so that background workers can run';
