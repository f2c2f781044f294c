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
die() { printf 'redis.sh: %s\n' "$*" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | head -n -1 >&2; exit 2; }
command=$1
case $2 in /*) DIR=$2 ;; *) DIR=$PWD/$2 ;; esac
shift 2

SERVER=$(command -v redis-server || command -v valkey-server) || die "neither redis-server nor valkey-server is installed"
CLI=$(command -v redis-cli || command -v valkey-cli) || die "neither redis-cli nor valkey-cli is installed"

free_port() {
  perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

running() {
  PID=$(cat "$DIR/pid" 2>/dev/null) && [ -n "$PID" ] && [ "$(readlink "/proc/$PID/cwd" 2>/dev/null)" = "$(readlink -f "$DIR")" ]
}

launch() {
  # $! is the server itself: setsid replaces itself when it need not fork.
  (cd "$DIR" && exec setsid "$SERVER" "$DIR/redis.conf" --daemonize no >>"$DIR/server.log" 2>&1 </dev/null) &
  echo $! >"$DIR/pid"
  local tries
  for ((tries = 0; tries < 400; tries++)); do
    # Any answer will do but "loading the dataset": a refused password is an answer too.
    case $("$CLI" -p "$(cat "$DIR/port")" ping 2>&1) in PONG | *NOAUTH* | *WRONGPASS*) cat "$DIR/port"; return ;; esac
    running || [ $tries -lt 100 ] || break
    sleep 0.05
  done
  tail -5 "$DIR/server.log" >&2
  die "the server did not come up, see $DIR/server.log"
}

signal_and_wait() {
  running || { rm -f "$DIR/pid"; return 0; }
  kill -CONT "$PID" 2>/dev/null
  kill "-$1" "$PID" 2>/dev/null
  local tries
  for ((tries = 0; tries < 400; tries++)); do
    running || break
    [ $tries = 300 ] && kill -KILL "$PID"
    sleep 0.05
  done
  rm -f "$DIR/pid"
}

case $command in
  start)
    [ $# -ge 1 ] || die "which PORT?"
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
  stop) signal_and_wait TERM ;;
  kill) signal_and_wait KILL ;;
  pause) running && kill -STOP "$PID" || die "not running in $DIR" ;;
  cont) running && kill -CONT "$PID" || die "not running in $DIR" ;;
  restart)
    [ -f "$DIR/redis.conf" ] || die "nothing was ever started in $DIR"
    signal_and_wait TERM
    launch ;;
  cli) exec "$CLI" -p "$(cat "$DIR/port")" "$@" ;;
  *) die "unknown command: $command" ;;
esac
