# What the scripts that measure have in common: a private place to work in, rows of figures, waits with a bound. Source it
# instead of lib.sh.
#
# A figure is a row of CSV: part, case, metric, unit, round, value. A script writes one for each thing that it measured, in
# build/bench/PART.csv; medians, spreads, ratios of the same round, tables, plots and the tables of docs/performance.md are
# made of those rows, by scripts/bench.d/figures. What is compared with what stands in scripts/bench.d/ratios.tsv.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# measuring PART: once a script has read its arguments and has what it needs. Builds, makes $WORK, and takes care of the end:
# `end_measuring` is the script's own, if it has something to stop; servers in $WORK/postgres and brokers are stopped.
measuring() {
  PART=$1
  stage_install
  mkdir -p build/bench
  CSV=$TOP/build/bench/$PART.csv
  echo "part,case,metric,unit,round,value" >"$CSV"
  WORK=$(mktemp -d /tmp/outbox-bench.XXXXXX)
  chmod 755 "$WORK"
  [ "$(id -u)" = 0 ] && chown postgres "$WORK"
  BEGAN=$SECONDS
  figure "(run)" "load before" "" 0 "$(cut -d' ' -f1 /proc/loadavg)"
  figure "(run)" "date" "" 0 "$(date -u +%F)"
  trap 'finish 1' EXIT
  trap 'finish 130' INT TERM HUP
}
end_measuring() { :; }
BROKERS=()
finish() {
  local broker
  trap - EXIT
  end_measuring
  stop_server "$WORK/postgres" immediate
  for broker in "${BROKERS[@]}"; do as_postgres "$TOP/test/brokers/$broker.sh" kill "$WORK/$broker" >/dev/null; done
  rm -rf "$WORK"
  exit "${1:-1}"
}
# All was measured: the table of this part, and the end.
measured() {
  [ "$(grep -cv '"(run)"' "$CSV")" -gt 1 ] || die "$PART: nothing was measured"
  figure "(run)" "took" s 0 $((SECONDS - BEGAN))
  [ ! -t 2 ] || echo >&2
  python3 scripts/bench.d/figures table "$CSV" || finish 1
  if [ -n "${OUTBOX_BENCH_GUARD:-}" ]; then python3 scripts/bench.d/figures guard "$CSV" >>"$OUTBOX_BENCH_GUARD" || finish 1; fi
  finish 0
}

# figure CASE METRIC UNIT ROUND VALUE
figure() {
  [ -n "$5" ] || die "$PART: no value of $2 for $1, round $4"
  printf '%s,"%s","%s",%s,%s,%s\n' "$PART" "$@" >>"$CSV"
}
progress() { [ ! -t 2 ] || printf '.' >&2; }
calc() { awk "BEGIN { printf \"%.${2:-3}f\", $1 }"; }

# program NAME LIBRARY ...: $WORK/NAME of test/bench/NAME.cpp.
program() {
  local name=$1
  shift
  g++ -std=c++20 -O2 -Isrc $(pkg-config --cflags "$@") "test/bench/$name.cpp" -o "$WORK/$name" $(pkg-config --libs "$@") -pthread ||
    die "test/bench/$name.cpp does not compile"
}

# bench_server [conf line ...]: $WORK/postgres, with the database bench and outbox in it; `q` asks it.
bench_server() {
  PORT=$(free_port)
  start_server "$WORK/postgres" "$PORT" "shared_buffers = 1GB" "max_wal_size = 16GB" "checkpoint_timeout = 1h" "outbox.lone_emit = allow" "$@"
  CONNINFO="host=$WORK/postgres port=$PORT user=postgres dbname=bench"
  q -d postgres -c "CREATE DATABASE bench"
  q -c "CREATE EXTENSION outbox" >/dev/null || die "set-up failed"
}
q() { as_postgres "$(pg_bin)/psql" -X -q -A -t -v ON_ERROR_STOP=1 -h "$WORK/postgres" -p "$PORT" -U postgres -d bench "$@"; }

# start_broker kafka|redis [line ...]: its ADDRESS, and the foreign server `events` for it. `broker VERB ...` speaks to the last.
start_broker() {
  local verb=$1 options
  BROKER=$1
  shift
  [ "$BROKER" = redis ] || "$TOP/test/brokers/kafka.sh" prepare >/dev/null || die "there is no Kafka to be had here"
  BROKERS+=("$BROKER")
  broker start 0 "$@" >/dev/null || die "$BROKER did not start"
  if [ "$BROKER" = redis ]; then
    ADDRESS=$(cat "$WORK/redis/port") options="outbox_redis OPTIONS (host '127.0.0.1', port '$(cat "$WORK/redis/port")')"
  else
    ADDRESS=$(broker bootstrap) options="outbox_kafka OPTIONS (\"bootstrap.servers\" '$(broker bootstrap)')"
  fi
  q -c "CREATE SERVER events FOREIGN DATA WRAPPER $options" >/dev/null || die "no server for $BROKER"
}
broker() { local verb=$1; shift; as_postgres "$TOP/test/brokers/$BROKER.sh" "$verb" "$WORK/$BROKER" "$@"; }

# until_true SECONDS WHAT COMMAND ...: no wait is without an end. When it comes, the server's log says more than this does.
until_true() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $deadline ] || { tail -5 "$WORK/postgres/server.log" >&2; die "$PART: waited for $what, in vain"; }
    sleep 0.05
  done
}

# Relay workers of the database bench, and their sink processes.
workers() { q -d postgres -c "ALTER SYSTEM SET outbox.workers = $1" -c "SELECT pg_reload_conf()" >/dev/null; }
worker() { q -c "SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND datname = 'bench'"; }
sinks() { local pid; for pid in "$@"; do pgrep -P "$pid"; done; }
no_worker() { [ -z "$(worker)" ]; }
stop_worker() { workers 0; until_true 60 "the workers to stop" no_worker; }
idle() { [ "$(q -c "SELECT outbox.wait_until_idle('${1:-5 min}')")" = t ] || die "$PART: not idle within ${1:-5 min}: $(q -c "SELECT status FROM outbox.status()" 2>&1 | head -5)"; }

# CPU seconds of the processes PID ..., all their threads, exactly; `server_cpu`: of the server and all that it started, those
# that have ended included (in ticks of 10 ms).
cpu() { local pid; for pid in "$@"; do cat /proc/"$pid"/task/*/schedstat 2>/dev/null; done | awk '{ n += $1 } END { printf "%.4f", n / 1e9 }'; }
server_cpu() {
  perl -e '
    my ($root) = @ARGV; my (%parent, %time);
    for my $file (glob "/proc/[0-9]*/stat") {
      open my $f, "<", $file or next; my $line = <$f> // next;
      $line =~ /^(\d+) \(.*\) \S (\d+)/ or next; my ($pid, $ppid) = ($1, $2);
      my @rest = split / /, substr($line, rindex($line, ")") + 2);
      $parent{$pid} = $ppid; $time{$pid} = $rest[11] + $rest[12] + $rest[13] + $rest[14];
    }
    my $sum = 0;
    for my $pid (keys %parent) {
      my $p = $pid; $p = $parent{$p} while defined $p && $p != $root && $p > 1;
      $sum += $time{$pid} if defined $p && $p == $root;
    }
    printf "%.2f\n", $sum / 100;' "$(head -1 "$WORK/postgres/data/postmaster.pid")"
}
# Ticks that the whole machine was busy, and that it was not.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9, $5 + $6 }' /proc/stat; }
wal_bytes() { q -d postgres -c "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"; }
memory() { awk '/RssAnon/ { print int($2 / 1024 + 0.5) }' "/proc/$1/status"; } # MB
field() { grep -oE "(^| )$1=[0-9.]+" | cut -d= -f2; }

# backlog EVENTS BYTES [PER_TRANSACTION]: of 1,000 keys.
backlog() {
  q -c "SET synchronous_commit = off" -c "DO \$\$ DECLARE payload text := repeat('x', $2); BEGIN
    FOR i IN 1 .. $1 / ${3:-10} LOOP
      FOR j IN 1 .. ${3:-10} LOOP PERFORM outbox.emit_text('order', ((i * 10 + j) % 1000)::text, 'order.created', payload, NULL); END LOOP;
      COMMIT;
    END LOOP; END \$\$" || die "$PART: emitting failed"
}

# Of a topic of Kafka with so many partitions: milliseconds from the first record's append to the last one's (with
# log.message.timestamp.type=LogAppendTime), and how many it has.
append_ms() { # append_ms TOPIC PARTITIONS
  local p
  for p in $(seq 0 $(($2 - 1))); do
    kcat -C -q -e -b "$ADDRESS" -t "$1" -p "$p" -o beginning -c 1 -f '%T\n'
    kcat -C -q -e -b "$ADDRESS" -t "$1" -p "$p" -o -1 -c 1 -f '%T\n'
  done | sort -n | sed -n '1p; $p' | paste -sd ' ' | awk '{ print $2 - $1 }'
}
records() { # records TOPIC PARTITIONS
  local p
  kcat -Q -b "$ADDRESS" $(for p in $(seq 0 $(($2 - 1))); do echo "-t $1:$p:-1"; done) 2>/dev/null | awk '{ n += $NF } END { print n + 0 }'
}
