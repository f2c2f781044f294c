# The demo itself: four things seen with one's own eyes [sourced by scripts/quickstart].

as_postgres "$(pg_bin)/createdb" -h "$DIR/postgres" -p "$PORT" -U postgres demo || failed "createdb"
prepare_topic
psql_quiet -f - <<'SQL' || failed "the orders table"
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text, total numeric(10, 2));
INSERT INTO orders (customer, total) SELECT 'customer ' || i % 50, 10 + i % 90 FROM generate_series(1, 1000) i;
SQL

heading "Set up once"
words "A table orders with 1,000 rows is there already. Three statements make it talk to $BROKER_NAME:"
sql "CREATE EXTENSION outbox;
$CREATE_SERVER
SELECT outbox.create_route('everything', server => 'events');"

heading "1. A transaction commits: its event arrives"
sql "BEGIN;
INSERT INTO orders (customer, total) VALUES ('Ada', 129.97);
SELECT outbox.emit('order', 1001, 'order.created', '{\"total\": 129.97}') AS event_id;
COMMIT;"
expect "delivered to $BROKER_NAME" "$(value "SELECT outbox.wait_until_idle('20 s')")" t
show_newest 1
expect "the stream holds one event" "$(count_events)" 1

heading "2. A transaction rolls back: nothing arrives"
sql "BEGIN;
INSERT INTO orders (customer, total) VALUES ('Eve', 1000000.00);
SELECT outbox.emit('order', 1002, 'order.created', '{\"total\": 1000000.00}') AS event_id;
ROLLBACK;"
sql "SELECT outbox.wait_until_idle('20 s');"
expect "no order 1002 in the table" "$(value "SELECT count(*) FROM orders WHERE customer = 'Eve'")" 0
expect "no event of it in $BROKER_NAME: still one" "$(count_events)" 1

heading "3. The broker is down: orders go on, events wait"
echo "test/brokers/$BROKER.sh kill $DIR/$BROKER" | typed '$'
broker kill "$DIR/$BROKER"
sql "BEGIN;
INSERT INTO orders (customer, total) SELECT 'Grace', i FROM generate_series(1, 200) i;
SELECT count(outbox.emit('order', 2000 + key, 'step.' || step, jsonb_build_object('step', step)))
FROM generate_series(1, 10) step, generate_series(1, 20) key;
COMMIT;"
for _ in $(seq 100); do
  [ "$(value "SELECT bool_or(error_class IS NOT NULL AND pending >= 200) FROM outbox.lag")" = t ] && break
  sleep 0.1
done
sql "SELECT route, pending, state, error_class, error_message FROM outbox.lag;"
expect "nothing was lost and nobody waited: 200 events in the log" "$(value "SELECT count(*) FROM outbox_internal.log WHERE aggregate_id LIKE '20__'")" 200

heading "4. The broker is back: the backlog drains, in order"
echo "test/brokers/$BROKER.sh restart $DIR/$BROKER" | typed '$'
broker restart "$DIR/$BROKER" >/dev/null || failed "restarting $BROKER_NAME"
sql "SELECT outbox.wait_until_idle('60 s');"
wanted=$(for key in $(seq 2001 2020); do for step in $(seq 1 10); do echo "$key step.$step"; done; done)
arrived=$(read_events | grep '^20' | sort -s -n -k1,1)
expect "all 201 events are there, none twice" "$(count_events)" 201
expect "each order's ten steps arrived in the order they were emitted" "$(cksum <<<"$arrived")" "$(cksum <<<"$wanted")"
show_newest 1

TRY_EMIT="BEGIN; UPDATE orders SET total = 0 WHERE id = 7; SELECT outbox.emit('order', 7, 'order.paid', '{\"by\": \"card\"}'); COMMIT;"
[ "$(psql_quiet -c "$TRY_EMIT" 2>&1 | grep -c WARNING)" = 0 ] || failed "the line that shows how to emit: it warns"

heading "All of it worked. Now you"
cat <<EOF
  connect:       psql -h 127.0.0.1 -p $PORT -U postgres demo
  watch events:  $TRY_CONSUMER
  emit one:      $TRY_EMIT
  look:          SELECT * FROM outbox.lag;   SELECT * FROM outbox.worker;
  a trigger:     CREATE TRIGGER "00_events" AFTER INSERT OR UPDATE OR DELETE ON orders
                   FOR EACH ROW EXECUTE FUNCTION outbox.emit_row('order', 'id');
  read on:       README.md, docs/tutorial.md, docs/how-it-works.md
  server log:    $DIR/postgres/server.log
  stop:          scripts/quickstart stop
EOF
