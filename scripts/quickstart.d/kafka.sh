# The demo's consumer and server definition for Kafka [sourced by scripts/quickstart].
BROKER_NAME="Kafka"
BOOTSTRAP=$(broker bootstrap "$DIR/kafka")
CREATE_SERVER="CREATE SERVER events FOREIGN DATA WRAPPER outbox_kafka
  OPTIONS (\"bootstrap.servers\" '$BOOTSTRAP');"
CONSUMER="kcat -b $BOOTSTRAP"
STREAM=outbox.event.order

kcat_read() { kcat -C -e -q -b "$BOOTSTRAP" -t $STREAM "$@"; }
show_newest() {
  echo "kcat -C -e -q -b $BOOTSTRAP -t $STREAM -o -$1 -f 'key %k  payload %s  headers %h\n'" | typed '$'
  kcat_read -o "-$1" -f 'key %k  payload %s  headers %h\n' | fold -s -w 108 | came_back
}
count_events() { kcat_read -o beginning -f 'x\n' | wc -l; }
read_events() {
  kcat_read -o beginning -f '%k %h\n' | sed -E 's/^([^ ]*) .*(^|,| )type=([^,]*).*/\1 \3/'
}
# The broker does not make topics by itself here; a real one often does not either.
prepare_topic() { broker topic "$DIR/kafka" create $STREAM 1 >/dev/null; }
TRY_CONSUMER="kcat -C -b $BOOTSTRAP -t $STREAM"
