-- What the applications of the ring of clients have: orders, shipments whose changes are events, and a role of their own.
CREATE TABLE customer (name text PRIMARY KEY);
-- An order of nobody's fails when the transaction commits, after the event was emitted.
CREATE TABLE orders (
  id       bigserial PRIMARY KEY,
  customer text NOT NULL REFERENCES customer DEFERRABLE INITIALLY DEFERRED
);
CREATE TABLE shipment (id bigserial PRIMARY KEY, state text NOT NULL);
CREATE TRIGGER "00_events" AFTER INSERT OR UPDATE OR DELETE ON shipment
  FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('shipment', 'id');
INSERT INTO customer VALUES ('Zoë "Z" O''Neil');

GRANT SELECT ON customer TO app;
GRANT SELECT, INSERT, UPDATE, DELETE ON orders, shipment TO app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app;
SELECT outbox.grant_emit('app');
