# The demo's consumer and server definition for Redis [sourced by scripts/quickstart].
BROKER_NAME="Redis"
BROKER_PORT=$(cat "$DIR/redis/port")
CREATE_SERVER="CREATE SERVER events FOREIGN DATA WRAPPER outbox_redis
  OPTIONS (host '127.0.0.1', port '$BROKER_PORT');"
CONSUMER="redis-cli -p $BROKER_PORT"
STREAM=outbox.event.order

# Shows the newest N events as a consumer reads them.
show_newest() {
  echo "redis-cli -p $BROKER_PORT XREVRANGE $STREAM + - COUNT $1" | typed '$'
  redis-cli -p "$BROKER_PORT" XREVRANGE $STREAM + - COUNT "$1" | paste -s -d ' ' | fold -s -w 108 | came_back
}
count_events() { redis-cli -p "$BROKER_PORT" XLEN $STREAM; }
# One line per event, in the order of arrival: key, type.
read_events() {
  redis-cli -p "$BROKER_PORT" EVAL "local out = {}
    for i, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
      local f = {} for j = 1, #entry[2], 2 do f[entry[2][j]] = entry[2][j + 1] end
      out[i] = f['key'] .. ' ' .. f['type'] end
    return out" 1 $STREAM
}
prepare_topic() { :; }
TRY_CONSUMER="redis-cli -p $BROKER_PORT XREAD BLOCK 0 STREAMS $STREAM '\$'"
