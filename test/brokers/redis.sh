#!/usr/bin/env bash
# One real Redis (or Valkey) for tests, demos and benchmarks: append-only file, fsync before every reply.
#
#   redis.sh start DIR PORT ["conf line" ...]   PORT 0: any free one. Prints the port when it answers. Empties DIR first
#   redis.sh stop|kill|pause|cont DIR           stop: orderly; kill: SIGKILL; pause/cont: SIGSTOP/SIGCONT
#   redis.sh restart DIR                        same data, same port
#   redis.sh cli DIR ARG ...                    redis-cli connected to it
#
# DIR is private to it: redis.conf, server.log, the data, pid. Nothing is ever signalled that was not started in DIR.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
take_arguments "$@"
shift $(($# < 2 ? $# : 2))

SERVER=$(command -v redis-server || command -v valkey-server) || die "neither redis-server nor valkey-server is installed"
CLI=$(command -v redis-cli || command -v valkey-cli) || die "neither redis-cli nor valkey-cli is installed"

launch() {
  start "$SERVER" "$DIR/redis.conf" --daemonize no
  local tries
  for ((tries = 0; tries < 400; tries++)); do
    # Any answer will do but "loading the dataset": a refused password is an answer too.
    case $("$CLI" -p "$(cat "$DIR/port")" ping 2>&1) in PONG | *NOAUTH* | *WRONGPASS* | *"unknown command"*) cat "$DIR/port"; return ;; esac
    if ! running; then
      [ $tries -lt 100 ] || break
      # Somebody's connection may have the port as its own for a moment.
      ((tries % 20 != 19)) || start "$SERVER" "$DIR/redis.conf" --daemonize no
    fi
    sleep 0.05
  done
  tail -5 "$DIR/server.log" >&2
  die "the server did not come up, see $DIR/server.log"
}

case $COMMAND in
  start)
    [ $# -ge 1 ] || die "which PORT?" 2
    port=$1
    shift
    running && die "already running in $DIR (pid $PID)"
    [ "$port" != 0 ] || port=$(free_port)
    mkdir -p "$DIR" || exit 1
    rm -rf "$DIR"/appendonlydir "$DIR"/*.aof "$DIR"/*.rdb
    echo "$port" >"$DIR/port"
    {
      printf 'bind 127.0.0.1\nport %s\ndir %s\nsave ""\nappendonly yes\nappendfsync always\n' "$port" "$DIR"
      for line in "$@"; do printf '%s\n' "$line"; done
    } >"$DIR/redis.conf"
    launch ;;
  restart)
    [ -f "$DIR/redis.conf" ] || die "nothing was ever started in $DIR"
    end_process TERM
    launch ;;
  cli) exec "$CLI" -p "$(cat "$DIR/port")" "$@" ;;
  *) verb ;;
esac
