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
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_cache connect "${OUTBOX_CONNECT:-}" "$(cksum <"$HERE/connect-pom.xml" | cut -d' ' -f1)" # changes with the pom

fetch() {
  find_java
  fill_cache "Kafka Connect" "40 MB" fetch_jars connect-pom.xml -DincludeScope=runtime
}

take_arguments "$@"
case $COMMAND in
  prepare)
    fetch
    echo "$CACHE" ;;
  start)
    running && die "already running in $DIR (pid $PID)"
    fetch
    mkdir -p "$DIR" || exit 1
    for part in worker connector; do printf '%s\n' "${@:3}" | sed -n "s/^$part\\.//p" >"$DIR/$part.properties"; done
    printf '%s\n' "offset.storage.file.filename=$DIR/offsets" listeners=http://127.0.0.1:0 plugin.discovery=service_load >>"$DIR/worker.properties"
    start "$JAVA" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
      -Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect=info -cp "$CACHE/lib/*" \
      org.apache.kafka.connect.cli.ConnectStandalone worker.properties connector.properties ;;
  *) verb ;;
esac
