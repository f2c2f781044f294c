# Shared by scripts/test-packages and scripts/test-rpm: what is done on a machine that the package is installed on, whichever its
# kind. Copied there, into one script with what says of the kind: V (of the server), REDIS (a port), lib, stream, suite, and the
# functions install_it, remove_it and replace_it. The steps count on each other's events: in this order.

not() { ! "$@"; } # set -e passes over a plain `!`
sql() ( cd / && setpriv --reuid=postgres --regid=postgres --init-groups psql -X -q -A -t -v ON_ERROR_STOP=1 "$@")
emit() { sql -c "SELECT outbox.emit('order', i, 'order.placed', '{\"total\": 99}') FROM generate_series($1, $2) i" | grep -c .; }
ids() { redis-cli -p $REDIS --raw xrange $stream - + | grep -x -A1 id | grep -E '^[0-9a-f]{8}-' | sort -u; }
# until WHAT COMMAND ...: within two minutes.
until_true() {
  local i
  for i in $(seq 600); do
    ! "${@:2}" || return 0
    sleep 0.2
  done
  echo "not so within two minutes: $1"
  sql -x -c 'SELECT * FROM outbox.lag' -c 'SELECT * FROM outbox.destination' -c 'SELECT * FROM outbox.doctor()' || true
  tail -20 "/var/log/postgresql/postgresql-$V-main.log"
  return 1
}
has_arrived() { [ "$(ids | wc -l)" = "$1" ]; }
arrived() { until_true "$1 events have arrived" has_arrived "$1"; }
started_at() { head -3 "/var/lib/postgresql/$V/main/postmaster.pid" | tail -1; }
sinks() { # the processes of a sink program, by number
  local exe
  for exe in /proc/[0-9]*/exe; do case $(readlink "$exe") in */outbox-sink-redis*) echo "$exe" | cut -d/ -f3 ;; esac; done
}
failed=0
step() { # step WHAT FUNCTION
  local began=$SECONDS status
  [ $failed = 0 ] || { printf '%-84s not tried\n' "$suite: $1"; return; }
  (set -ex; $2) >/step.log 2>&1 </dev/null
  status=$?
  if [ $status = 0 ]; then printf '%-84s ok  (%s s)\n' "$suite: $1" $((SECONDS - began)); return; fi
  failed=1
  printf '%-84s FAILED  (%s s)\n' "$suite: $1" $((SECONDS - began))
  tail -60 /step.log
}

delivers() {
  apt-get -qq install redis-server redis-tools
  # On a port of its own: a machine like this has its own files and the network of the one it is on.
  redis-server --port $REDIS --save '' --daemonize yes
  until_true 'Redis answers' redis-cli -p $REDIS ping
  sql -c "CREATE SERVER events FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$REDIS')"
  sql -c "SELECT outbox.create_route('everything', server => 'events')"
  [ "$(emit 1 1)" = 1 ]
  arrived 1
  [ "$(sql -c "SELECT count(*) FROM outbox.doctor() WHERE status = 'problem'")" = 0 ]
}
other_sinks() {
  sql -c "CREATE SERVER look FOREIGN DATA WRAPPER outbox_log" -c "SELECT outbox.create_route('looks', server => 'look')"
  sql -c "CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null" -c "SELECT outbox.create_route('drops', server => 'nowhere')"
  [ "$(emit 2 2)" = 1 ]
  [ "$(sql -c "SELECT outbox.wait_until_idle('60 s')")" = t ]
  arrived 2
  grep -q 'order.placed' "/var/log/postgresql/postgresql-$V-main.log"
  sql -c "SELECT outbox.drop_route('looks')" -c "SELECT outbox.drop_route('drops')"
}
removed_under_it() {
  local at pid
  at=$(started_at)
  sql -c "SELECT outbox.pause(route => 'everything', reason => 'removal')"
  [ "$(emit 3 30)" = 28 ]
  remove_it
  not test -e $lib/outbox.so
  for pid in $(sinks); do kill $pid; done
  # PostgreSQL looks for the file of a function before it sees that it has it: whoever emits is told, and nothing is lost unseen.
  sql -c "SELECT outbox.emit('order', 31, 'order.placed', '{}')" 2>&1 | grep 'could not access file "outbox"'
  install_it
  sql -c "SELECT outbox.resume(route => 'everything')"
  arrived 30
  [ "$(started_at)" = "$at" ]
}
removed_and_stopped() {
  sql -c "SELECT outbox.pause(route => 'everything', reason => 'removal')"
  [ "$(emit 31 50)" = 20 ]
  remove_it
  not pg_ctlcluster $V main restart
  grep 'could not access file "outbox"' "/var/log/postgresql/postgresql-$V-main.log"
  install_it
  pg_ctlcluster $V main start
  sql -c "SELECT outbox.resume(route => 'everything')"
  arrived 50
}
replaced_under_it() {
  local at
  at=$(started_at)
  : >/ids
  sql -c 'ALTER DATABASE postgres SET outbox.lone_emit = allow' # nothing is said but what went wrong
  (
    set +ex
    i=51
    until [ -e /enough ]; do
      sql -c "SELECT outbox.emit('order', $i, 'order.placed', '{}')" >>/ids 2>>/emit.errors || echo failed >>/emit.errors
      i=$((i + 1))
    done
  ) &
  until_true 'events are emitted' test -s /ids
  replace_it
  touch /enough
  wait
  not test -s /emit.errors
  arrived $((50 + $(wc -l </ids)))
  [ "$(started_at)" = "$at" ]
  pg_ctlcluster $V main restart
  sql -c 'ALTER EXTENSION outbox UPDATE'
  [ "$(emit 1001 1010)" = 10 ]
  arrived $((60 + $(wc -l </ids)))
}
