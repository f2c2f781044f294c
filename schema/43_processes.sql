-- ---------------------------------------------------------------------------------------------------------------------
-- Which background processes there should be, and why some do not run.
-- ---------------------------------------------------------------------------------------------------------------------
CREATE OR REPLACE FUNCTION outbox_internal.process(
  OUT database text, OUT process text, OUT wanted integer, OUT running integer, OUT state text, OUT detail text
) RETURNS SETOF record
  LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_process';
GRANT EXECUTE ON FUNCTION outbox_internal.process() TO pg_monitor;
COMMENT ON FUNCTION outbox_internal.process() IS 'behind the view outbox.process';

CREATE OR REPLACE VIEW outbox.process AS
  SELECT p.database, p.process, p.wanted, p.running, p.state, p.detail FROM outbox_internal.process() p;
GRANT SELECT ON outbox.process TO pg_monitor;
COMMENT ON VIEW outbox.process IS 'background processes of all databases that use outbox: how many should run, how many do, why not, and what max_worker_processes has to be';
COMMENT ON COLUMN outbox.process.database IS 'NULL: of the whole server';
COMMENT ON COLUMN outbox.process.process IS 'launcher, keeper, relay; all: keepers and relay workers of all databases together';
COMMENT ON COLUMN outbox.process.wanted IS 'how many should run if there were room';
COMMENT ON COLUMN outbox.process.running IS 'how many do';
COMMENT ON COLUMN outbox.process.state IS 'running; stands: it is there and has done nothing for 15 seconds, the launcher for half a minute, a keeper for a minute; in turn: there is not room for all, each database is served for a while; fewer: this database has fewer relay workers than it could use; starting; held back: it crashed or failed at each of its last starts; barred: somebody drops or copies the database; closed: it takes no connections; no place: outbox.max_databases is used up by others, or max_worker_processes has no room for any, or other processes hold all of it just now; off, not needed; standby: nothing runs before it is promoted, or before recovery that is paused at its target goes on; single-user: nothing runs in that mode';
COMMENT ON COLUMN outbox.process.detail IS 'why, and what max_worker_processes has to be for all to run at once';
