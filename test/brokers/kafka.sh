#!/usr/bin/env bash
# One real Apache Kafka node (KRaft: broker and controller in one JVM) for tests, demos and benchmarks.
#
#   kafka.sh start DIR PORT [property=value ...]   PORT 0: any free one. Prints the bootstrap address when it answers
#   kafka.sh stop|kill|pause|cont|restart DIR      kill: SIGKILL; pause/cont: SIGSTOP/SIGCONT; restart: same data, port
#   kafka.sh bootstrap DIR                         prints the address again
#   kafka.sh topic DIR create NAME PARTITIONS [property=value ...]
#   kafka.sh topic DIR alter NAME PARTITIONS [property=value ...]   grows it; the properties replace the topic's own
#   kafka.sh topic DIR delete NAME
#   kafka.sh topic DIR offsets NAME                one line per partition: partition, first and next offset
#   kafka.sh topic DIR deny|allow NAME            nobody may write to it, and back; for a broker with an authorizer
#   kafka.sh topic DIR hide NAME                  nobody may ask for its settings; likewise
#   kafka.sh topic DIR grant|revoke NAME USER     this user may use it, and no more; likewise
#   kafka.sh topic DIR leaders NAME                one line per partition: partition, leader, replicas, replicas in sync
#   kafka.sh prepare                               fills the cache of jars and prints where it is
#
# Needs: a JRE 17, a C++ compiler and librdkafka, and once Maven with a repository it can reach (54 MB, kept in
# $OUTBOX_KAFKA_JARS, or /var/cache/outbox-kafka when root fetches them, which every user then reads, or
# ~/.cache/outbox-kafka). Exit 77: there is no Kafka to be had here (the reason is on stderr). Beside the jars, 50 MB that
# spare every start two thirds of its time: the JVM's archive of their loaded classes, made by a first node.
# Not Kafka's own among the properties: listener=NAME:PROTOCOL[:HOST] is one more listener on 127.0.0.1, known as HOST, with
# its address in DIR/bootstrap.NAME; heap=SIZE makes a small JVM that starts fast. With node.id and controller.quorum.voters
# the node is one of several; all but the last of them that are needed wait for each other, so start them side by side.
# DIR is private to the node: server.properties, server.log, data/, pid. Topics are not created by producers unless
# auto.create.topics.enable=true is given. Nothing is ever signalled that this script did not start in DIR.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_cache kafka "${OUTBOX_KAFKA_JARS:-}" "$(cksum <"$HERE/pom.xml" | cut -d' ' -f1)" # changes with the pom

CLUSTER=${OUTBOX_KAFKA_CLUSTER:-b3V0Ym94LXRlc3Qta2Fma2} # its id

fetch() { fill_cache "Apache Kafka" "54 MB" fetch_jars pom.xml; }

# What a start takes from the cache: an archive of Kafka's classes as this JVM loads them, and what a formatted directory
# holds. $QUICK is the place of both, of this JVM and these jars; empty where the JVM does not say what it is.
find_quick() {
  local release
  release=$(dirname "$(dirname "$(readlink -f "$JAVA")")")/release
  QUICK=
  [ ! -r "$release" ] || QUICK=$CACHE/quick-$({ cat "$release" "$HERE/kafka.sh" && echo "$MARK"; } | cksum | cut -d' ' -f1)
}

# Makes both, once: a node is started, asked for a topic, and writes the archive when it ends. Where that fails, or the cache
# is somebody else's, every start takes its time as it would without.
make_quick() {
  find_quick
  [ -n "$QUICK" ] && [ -w "$CACHE" ] && [ ! -e "$QUICK" ] || return 0
  alone make_quick_alone
}

make_quick_alone() {
  local node
  [ ! -e "$QUICK" ] || return 0 # another process was faster
  say "making starts quick, once"
  node=$(mktemp -d "$CACHE/.quick.XXXXXX")
  (
    DIR=$node/node QUICK=
    mkdir -p "$DIR" && write_config "$(free_port)" heap=256m && format && launch "-XX:ArchiveClassesAtExit=$node/classes.jsa" &&
      "$DIR/admin" "$(cat "$DIR/bootstrap")" create first 1 && end_process TERM &&
      cp "$DIR/formatted.checkpoint" "$node/bootstrap.checkpoint"
  ) >"$CACHE/quick.log" 2>&1
  rm -rf "$node/node"
  if [ -s "$node/classes.jsa" ] && [ -s "$node/bootstrap.checkpoint" ]; then
    find "$CACHE" -maxdepth 1 -name 'quick-*' -mtime +7 -exec rm -rf {} +
    chmod -R a+rX "$node" && mv "$node" "$QUICK"
  else
    rm -rf "$node"
    say "starts stay slow, see $CACHE/quick.log"
  fi
}

java_run() {
  "$JAVA" -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$DIR/log4j2.properties" \
    -cp "$CACHE/lib/*" "$@"
}

write_config() {
  local port=$1 controller property name protocol host extra id=1 listeners advertised map heap=
  local -a properties=() voters=()
  shift
  controller=$(free_port)
  listeners=PLAINTEXT://127.0.0.1:$port advertised=$listeners map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
  for property in "$@"; do
    case $property in
      listener=*)
        IFS=: read -r name protocol host <<<"${property#*=}"
        extra=$(free_port)
        listeners+=,$name://127.0.0.1:$extra advertised+=,$name://${host:=127.0.0.1}:$extra map+=,$name:$protocol
        printf '%s:%s\n' "$host" "$extra" >"$DIR/bootstrap.$name" ;;
      heap=*) heap=${property#*=} ;;
      node.id=*) id=${property#*=} ;;
      controller.quorum.voters=*) IFS=, read -ra voters <<<"${property#*=}" ;;
      *) properties+=("$property") ;;
    esac
  done
  for property in ${voters[@]+"${voters[@]}"}; do
    if [ "${property%@*}" = "$id" ]; then controller=${property##*:}; fi
  done
  printf '%s' "$heap" >"$DIR/heap"
  mkdir -p "$DIR/data"
  cat >"$DIR/log4j2.properties" <<CONF
status = off
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
CONF
  {
    cat <<CONF
process.roles=broker,controller
node.id=$id
controller.quorum.voters=$(IFS=,; echo "${voters[*]-1@127.0.0.1:$controller}")
controller.listener.names=CONTROLLER
listeners=$listeners,CONTROLLER://127.0.0.1:$controller
advertised.listeners=$advertised
listener.security.protocol.map=$map
log.dirs=$DIR/data
auto.create.topics.enable=false
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=2
background.threads=2
log.cleaner.dedupe.buffer.size=8388608
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
CONF
    printf '%s\n' ${properties[@]+"${properties[@]}"}
  } >"$DIR/server.properties"
  printf '127.0.0.1:%s\n' "$port" >"$DIR/bootstrap"
}

# The node's data directory as Kafka's own tool would leave it, which takes longer than all the rest of a quick start.
format() {
  if [ -s "${QUICK:+$QUICK/bootstrap.checkpoint}" ]; then
    mkdir -p "$DIR/data" && cp "$QUICK/bootstrap.checkpoint" "$DIR/data/" &&
      printf '%s\n' version=1 "cluster.id=$CLUSTER" "$(grep '^node.id=' "$DIR/server.properties")" \
        "directory.id=$(head -c 16 /dev/urandom | base64 | tr -d = | tr '+/' 'AB')" >"$DIR/data/meta.properties"
    return
  fi
  java_run kafka.tools.StorageTool format -t "$CLUSTER" -c "$DIR/server.properties" >"$DIR/format.log" 2>&1 &&
    cp "$DIR/data/bootstrap.checkpoint" "$DIR/formatted.checkpoint" || { tail -5 "$DIR/format.log" >&2; return 1; }
}

# Compiled while the broker starts: answers in milliseconds where Kafka's own tools need a JVM each time. OUTBOX_KAFKA_ADMIN
# names one that is compiled already.
build_admin() {
  [ "$DIR/admin" -nt "$HERE/kafka_admin.cpp" ] && return
  if [ -x "${OUTBOX_KAFKA_ADMIN:-}" ]; then ln -sf "$OUTBOX_KAFKA_ADMIN" "$DIR/admin"; return; fi
  ${CXX:-g++} -std=c++20 -O1 -o "$DIR/admin.$$" "$HERE/kafka_admin.cpp" -lrdkafka >"$DIR/admin.log" 2>&1 &&
    mv "$DIR/admin.$$" "$DIR/admin" || { end_process KILL; cat "$DIR/admin.log" >&2; die "kafka_admin.cpp does not compile"; }
}

# launch [JVM OPTION ...]
launch() {
  local heap jvm=(-Xms128m -Xmx384m -XX:+UseG1GC -XX:MaxGCPauseMillis=20)
  heap=$(cat "$DIR/heap" 2>/dev/null)
  [ -z "$heap" ] || jvm=(-Xms64m "-Xmx$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1)
  if [ -s "${QUICK:+$QUICK/classes.jsa}" ]; then jvm+=("-XX:SharedArchiveFile=$QUICK/classes.jsa"); fi
  start "$JAVA" "${jvm[@]}" "$@" -Djava.awt.headless=true \
    -Dlog4j2.configurationFile="$DIR/log4j2.properties" -Dkafka.logs.dir="$DIR" \
    -cp "$CACHE/lib/*" kafka.Kafka "$DIR/server.properties"
  build_admin
  local deadline=$((SECONDS + ${OUTBOX_KAFKA_START_TIMEOUT:-120}))
  until "$DIR/admin" "$(cat "$DIR/bootstrap")" ready 2>/dev/null; do
    kill -0 "$PID" 2>/dev/null || return 1
    [ $SECONDS -lt $deadline ] || { kill -KILL "$PID"; return 1; }
  done
  cat "$DIR/bootstrap"
}

take_arguments "$@"
shift $(($# < 2 ? $# : 2))
case $COMMAND in
  prepare)
    find_java
    fetch
    make_quick
    echo "$CACHE" ;;
  start)
    [ $# -ge 1 ] || die "which PORT?" 2
    port=$1
    shift
    running && die "already running in $DIR (pid $PID)"
    find_java
    fetch
    find_quick
    mkdir -p "$DIR" || exit 1
    for attempt in 1 2 3; do
      [ "$port" != 0 ] && chosen=$port || chosen=$(free_port)
      rm -rf "$DIR/data"
      write_config "$chosen" "$@"
      format || die "formatting the storage failed"
      launch && exit 0
      # Somebody took the port between choice and bind, or it was chosen twice.
      grep -qE 'Address already in use|two listeners on the same port' "$DIR/server.log" || break
    done
    tail -20 "$DIR/server.log" >&2
    die "the broker did not come up, see $DIR/server.log" ;;
  restart)
    [ -f "$DIR/server.properties" ] || die "nothing was ever started in $DIR"
    end_process TERM
    find_java
    find_quick
    launch || { tail -20 "$DIR/server.log" >&2; die "the broker did not come up again, see $DIR/server.log"; } ;;
  bootstrap) cat "$DIR/bootstrap" ;;
  topic)
    [ $# -ge 2 ] || die "topic DIR create|alter|delete|offsets|leaders|deny|allow|grant|revoke NAME ..." 2
    "$DIR/admin" "$(cat "$DIR/bootstrap")" "$@" ;;
  *) verb ;;
esac
