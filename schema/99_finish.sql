-- ---------------------------------------------------------------------------------------------------------------------
-- Last: what whoever installs has to know.
-- ---------------------------------------------------------------------------------------------------------------------
DO $tell$
BEGIN
  IF NOT outbox_internal.preloaded() THEN
    RAISE WARNING USING MESSAGE = 'outbox is installed, but not preloaded: events are stored, and nothing publishes them',
      ERRCODE = 'object_not_in_prerequisite_state',
      HINT = 'Add outbox to shared_preload_libraries in postgresql.conf, beside what is there, and restart the server: shared_preload_libraries = ''outbox'' where nothing is.';
  END IF;
END
$tell$;

-- Of 00_guard.sql.
SELECT pg_catalog.set_config('work_mem', pg_catalog.current_setting('outbox_script.work_mem'), true);
