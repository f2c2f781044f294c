-- What order keys are hashed under: src/base/order_key.h. Not in a dump: adopt() hashes anew what a dump brings.
CREATE TABLE outbox_internal.key_secret (
  secret uuid NOT NULL
) USING heap;
COMMENT ON TABLE outbox_internal.key_secret IS 'one row, never changed: the secret under which order keys are hashed, so that nobody can choose a key that shares its hash with another';
COMMENT ON COLUMN outbox_internal.key_secret.secret IS 'at random, from gen_random_uuid()';
INSERT INTO outbox_internal.key_secret (secret) VALUES (pg_catalog.gen_random_uuid());

-- It reads the secret with the latest snapshot, which the leader of a parallel query may not take either.
CREATE OR REPLACE FUNCTION outbox_internal.order_key(topic text, aggregate_type text, aggregate_id text) RETURNS bigint
  LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'outbox_order_key';
COMMENT ON FUNCTION outbox_internal.order_key(text, text, text) IS 'what stands in outbox_internal.parked.order_key for a key; NULL: no key';
