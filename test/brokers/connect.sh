#!/usr/bin/env bash
# One real Kafka Connect worker, standalone, with Debezium's connector for PostgreSQL, for tests that compare with it.
#
#   connect.sh prepare                     fills the cache and prints where it is
#   connect.sh start DIR [line ...]        lines of its properties: worker.NAME=VALUE, connector.NAME=VALUE
#   connect.sh stop|kill DIR               stop: orderly; kill: SIGKILL
#
# Needs a JRE 17, and Maven with a repository it can reach, once (40 MB, kept in $OUTBOX_CONNECT, or /var/cache/outbox-connect when
# root fetches it, or ~/.cache/outbox-connect). Exit 77: it is not to be had here (the reason is on stderr). DIR is private:
# properties, offsets, server.log, pid. Nothing is ever signalled that this script did not start in DIR.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SHARED=/var/cache/outbox-connect
MARK=complete-$(cksum <"$HERE/connect-pom.xml" | cut -d' ' -f1) # changes with the pom
if [ -n "${OUTBOX_CONNECT:-}" ]; then
  CACHE=$OUTBOX_CONNECT
elif [ "$(id -u)" = 0 ] || [ -e "$SHARED/$MARK" ]; then
  CACHE=$SHARED
else
  CACHE=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/outbox-connect
fi

say() { printf 'connect.sh: %s\n' "$*" >&2; }
die() { say "$1"; exit "${2:-1}"; }

fetch() {
  JAVA=${JAVA_HOME:+$JAVA_HOME/bin/java}
  [ -n "$JAVA" ] && [ -x "$JAVA" ] || JAVA=$(command -v java) || die "no Java found: install a JRE 17 or newer" 77
  [ ! -e "$CACHE/$MARK" ] || return 0
  command -v mvn >/dev/null || die "no Kafka Connect in $CACHE and no Maven (mvn) to fetch it" 77
  mkdir -p "$CACHE" || die "cannot write $CACHE" 77
  exec 9>"$CACHE/.lock"
  flock 9
  if [ ! -e "$CACHE/$MARK" ]; then
    say "fetching Kafka Connect (40 MB, once) into $CACHE"
    local fresh
    fresh=$(mktemp -d "$CACHE/.fetch.XXXXXX")
    if ! mvn -q -B -f "$HERE/connect-pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$fresh/lib" >"$CACHE/fetch.log" 2>&1; then
      rm -rf "$fresh"
      grep -m3 ERROR "$CACHE/fetch.log" >&2
      die "no Maven repository can be reached and $CACHE holds no Kafka Connect" 77
    fi
    rm -rf "$CACHE/lib" "$CACHE"/complete-*
    mv "$fresh/lib" "$CACHE/lib" && chmod -R a+rX "$CACHE" && touch "$CACHE/$MARK"
    rm -rf "$fresh"
  fi
  exec 9>&-
}

running() {
  PID=$(cat "$DIR/pid" 2>/dev/null) && [ -n "$PID" ] && [ "$(readlink "/proc/$PID/cwd" 2>/dev/null)" = "$(readlink -f "$DIR")" ]
}

[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | head -n -1 >&2; exit 2; }
command=$1
if [ "$command" = prepare ]; then
  fetch
  echo "$CACHE"
  exit 0
fi
[ $# -ge 2 ] || die "which DIR?" 2
DIR=$2
shift 2
case $command in
  start)
    running && die "already running in $DIR (pid $PID)"
    fetch
    mkdir -p "$DIR" || exit 1
    cd "$DIR" || exit 1
    for part in worker connector; do printf '%s\n' "$@" | sed -n "s/^$part\\.//p" >"$part.properties"; done
    printf '%s\n' "offset.storage.file.filename=$DIR/offsets" listeners=http://127.0.0.1:0 plugin.discovery=service_load >>worker.properties
    setsid "$JAVA" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
      -Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect=info -cp "$CACHE/lib/*" \
      org.apache.kafka.connect.cli.ConnectStandalone worker.properties connector.properties >>server.log 2>&1 </dev/null 9>&- &
    echo $! >pid ;;
  stop | kill)
    running || { rm -f "$DIR/pid"; exit 0; }
    kill "-$([ "$command" = stop ] && echo TERM || echo KILL)" "$PID" 2>/dev/null
    for ((tries = 0; tries < 1200; tries++)); do
      running || break
      [ $tries = 1000 ] && kill -KILL "$PID" 2>/dev/null
      sleep 0.05
    done
    rm -f "$DIR/pid" ;;
  *) die "unknown command: $command" ;;
esac
