-- ---------------------------------------------------------------------------------------------------------------------
-- Which cluster each destination is: written by src/log/loss/met_cluster.cpp, told by the relay worker that writes it and by
-- doctor(). Not in a dump, and adopt() empties it: by an oid nobody knows a server of another database, and what was delivered
-- there is the original's affair. (Run in a step from one version to the next.)
-- ---------------------------------------------------------------------------------------------------------------------
CREATE TABLE IF NOT EXISTS outbox_internal.met_cluster (
  server  oid         NOT NULL,
  cluster text        NOT NULL,
  met_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  former  text,
  CONSTRAINT met_cluster_pkey PRIMARY KEY (server)
) USING heap;
COMMENT ON TABLE outbox_internal.met_cluster IS 'the cluster that a relay worker met last at the addresses of each destination: another one does not have what was delivered until then';
COMMENT ON COLUMN outbox_internal.met_cluster.server IS 'foreign server; rows of servers that are no more go when another is written';
COMMENT ON COLUMN outbox_internal.met_cluster.cluster IS 'the id of the cluster, as it says';
COMMENT ON COLUMN outbox_internal.met_cluster.met_at IS 'when it was met for the first time, or again after another one';
COMMENT ON COLUMN outbox_internal.met_cluster.former IS 'the one before; NULL: none is known';
