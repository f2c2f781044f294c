# What an event costs its caller, beside a row of an outbox table as applications make one: sourced by scripts/bench, which
# has the server, `q`, `row` and `calc`. Everything in rounds, one of each case after the other, so that a machine that
# slows down slows all of them; of the rounds the median, and the range.
#
#   transaction   one client of pgbench: a business row, and with it each of the cases below; CPU time of the session's process
#                 (/proc/self/schedstat; wall clock where there is no such file), less the business row's. "Without the
#                 statement": less what SELECT 1 adds, for case and row
#   bulk          1,000 events by one statement; the same, less what making the payloads takes
#   instructions  the same transactions and statements under valgrind, which counts: exact to a percent on any machine, and
#                 without the kernel. The difference of a long and a short run; asked for by its name: emit-instructions
#
# The row is the usual one: uuid key, three texts, jsonb, created_at, and an index of what is not published. Its poller is not
# counted. OUTBOX_BENCH_ROUNDS (5), OUTBOX_BENCH_TRANSACTIONS of each case and round (4000), OUTBOX_BENCH_EMIT_CASES and
# OUTBOX_BENCH_BULK_CASES (all; of those of a ratio none may be missing).
ROUNDS=${OUTBOX_BENCH_ROUNDS:-5}
TRANSACTIONS=${OUTBOX_BENCH_TRANSACTIONS:-4000}
EMIT_DATA=$WORK/emit.tsv # round, case, figure

# Two payloads of 300 bytes: one long string, and an order with its items.
NOTE="{\"id\": 42, \"note\": \"$(printf 'x%.0s' $(seq 276))\"}"
ORDER='{"id": 421337, "customer": {"id": 7, "name": "Jane Doe", "email": "jane.doe@example.com"}, "items": [{"sku": "A-1001", "quantity": 2, "price": 19.99}, {"sku": "B-2002", "quantity": 1, "price": 89.99}], "total": 129.97, "currency": "EUR", "note": "please ring twice, and leave it at the door"}'

emit_setup() { # emit_setup DATABASE
  q postgres -c "CREATE DATABASE $1" && q "$1" -c "CREATE EXTENSION outbox" -c "SELECT outbox.emit('warm', 'up', 'x', '{}')" \
    -c "CREATE TABLE business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int, total numeric, at timestamptz DEFAULT now())" \
    -c "CREATE TABLE classic (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL, aggregate_id text NOT NULL,
        event_type text NOT NULL, payload jsonb NOT NULL, headers jsonb, created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz)" \
    -c "CREATE INDEX ON classic (created_at) WHERE published_at IS NULL" -c "CREATE UNLOGGED TABLE figure (us numeric)" \
    -c "CREATE FUNCTION cpu_us() RETURNS numeric LANGUAGE plpgsql AS \$\$ BEGIN
          RETURN split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::numeric / 1000;
        EXCEPTION WHEN undefined_file THEN
          RETURN extract(epoch FROM clock_timestamp()) * 1e6;
        END \$\$" >/dev/null || die "the set-up of $1 failed"
}

# What is added to the business row. Payloads are literals: bound as parameters they cost row and emit() the same again.
emit_case() {
  case $1 in
    business) ;;
    statement) echo "SELECT 1;" ;;
    row) echo "INSERT INTO classic (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', :id::text, 'order.created', '$ORDER');" ;;
    row-note) echo "INSERT INTO classic (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', :id::text, 'order.created', '$NOTE');" ;;
    emit) echo "SELECT outbox.emit('order', :id::text, 'order.created', '$ORDER');" ;;
    emit-note) echo "SELECT outbox.emit('order', :id::text, 'order.created', '$NOTE');" ;;
    emit-all-arguments) echo "SELECT outbox.emit('order', :id::text, 'order.created', '$ORDER', NULL, NULL, NULL, NULL);" ;;
    emit-json) echo "SELECT outbox.emit('order', :id::text, 'order.created', '$ORDER'::json);" ;;
    emit-text) echo "SELECT outbox.emit_text('order', :id::text, 'order.created', '$ORDER');" ;;
    emit-bytes) echo "SELECT outbox.emit_bytes('order', :id::text, 'order.created', '$ORDER'::text::bytea);" ;;
    emit-in-cte) echo "WITH made AS (INSERT INTO business (customer, total) VALUES (7, 129.97) RETURNING id) SELECT outbox.emit('order', id, 'order.created', '$ORDER') FROM made;" ;;
    emit-in-pipeline) emit_case emit ;;
    bulk-nothing) echo "SELECT count(i::text) FROM generate_series(1, 1000) i;" ;;
    bulk-arrays) echo "SELECT cardinality(array_agg(i::text)) + cardinality(array_agg('$ORDER'::jsonb)) FROM generate_series(1, 1000) i;" ;;
    bulk-row) echo "INSERT INTO classic (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', i::text, 'order.created', '$ORDER' FROM generate_series(1, 1000) i;" ;;
    bulk-emit) echo "SELECT count(outbox.emit('order', i::text, 'order.created', '$ORDER')) FROM generate_series(1, 1000) i;" ;;
    bulk-emit-bytes) echo "SELECT count(outbox.emit_bytes('order', i::text, 'order.created', '$ORDER'::text::bytea)) FROM generate_series(1, 1000) i;" ;;
    bulk-many) echo "SELECT cardinality(outbox.emit_many('order', array_agg(i::text), 'order.created', array_agg('$ORDER'::jsonb))) FROM generate_series(1, 1000) i;" ;;
    *) die "there is no case $1" ;;
  esac
}
# With it the business row, but where the case makes that itself. The first transaction and the last read the figure.
emit_script() {
  printf '\\set n :n + 1\n\\if :n = 2 or :n = :last\nINSERT INTO figure SELECT cpu_us();\n\\endif\n\\set id random(1, 1000000)\n'
  [ "$1" != emit-in-pipeline ] || printf '\\startpipeline\n'
  echo "BEGIN;"
  [ "$1" = emit-in-cte ] || echo "INSERT INTO business (customer, total) VALUES (7, 129.97);"
  emit_case "$1"
  echo "END;"
  [ "$1" != emit-in-pipeline ] || printf '\\endpipeline\n'
}
emit_pgbench() { # emit_pgbench DATABASE CASE PROTOCOL TRANSACTIONS
  emit_script "$2" >"$WORK/case.sql"
  as_postgres "$(pg_bin)/pgbench" -n -c 1 -t "$4" -M "$3" -D n=0 -D last="$4" -f "$WORK/case.sql" -h "$WORK/postgres" -p "$PORT" -U postgres "$1" >"$WORK/pgbench.log" 2>&1 ||
    { tail -3 "$WORK/pgbench.log" >&2; die "pgbench failed at $2"; }
}

# Median [lowest-highest] over the rounds of what an expression is in each of them; $NAME is the figure of that case.
over_rounds() { # over_rounds PREFIX DIGITS EXPRESSION
  perl -e '
    my ($file, $prefix, $digits, $what) = @ARGV; my %round;
    open my $f, "<", $file or die; while (<$f>) { chomp; my ($n, $case, $value) = split /\t/; $round{$n}{$case} = $value }
    my @all = sort { $a <=> $b } grep { defined } map { my $r = $_; my $e = $what; my $ok = 1;
      $e =~ s/\{([a-z-]+)\}/my $v = $r->{"$prefix$1"}; $ok &&= defined $v; defined $v ? $v : 0/ge; $ok ? eval $e : undef } values %round;
    if (!@all) { print "?" } elsif (@all == 1) { printf "%.*f", $digits, $all[0] }
    else { printf "%.*f [%.*f-%.*f]", $digits, $all[$#all / 2], $digits, $all[0], $digits, $all[-1] }' "$EMIT_DATA" "$1" "$2" "$3"
}
BY_ITSELF="({%s} - {statement}) / ({%s} - {statement})"
has_case() { [[ " $EMIT_CASES " == *" $1 "* ]]; }
rows_of_transactions() { # rows_of_transactions PREFIX WHAT UNIT DIGITS
  local case classic target
  for case in row emit emit-all-arguments emit-json emit-text emit-bytes emit-note; do
    has_case $case || continue
    classic=row target=""
    [ $case = emit-note ] && classic=row-note
    row "$2, $case: $3 added" "$(over_rounds "$1" "$4" "{$case} - {business}")" "row $(over_rounds "$1" "$4" "{$classic} - {business}"), SELECT 1 $(over_rounds "$1" "$4" "{statement} - {business}")" \
      "$(over_rounds "$1" 2 "({$case} - {business}) / ({$classic} - {business})")" ""
    [ $case = row ] && continue
    # shellcheck disable=SC2059
    [[ $2 == prepared* ]] && [[ $case == emit-note || $case == emit-json ]] && target="<= 0.5"
    # shellcheck disable=SC2059
    row "$2, $case: without the statement" "" "row" "$(over_rounds "$1" 2 "$(printf "$BY_ITSELF" $case $classic)")" "$target"
  done
  ! has_case emit-in-cte ||
    row "$2, emit-in-cte: $3 of the transaction" "$(over_rounds "$1" "$4" "{emit-in-cte}")" "two statements $(over_rounds "$1" "$4" "{emit}")" "$(over_rounds "$1" 2 "{emit-in-cte} / {emit}")" ""
}
rows_of_bulk() { # rows_of_bulk PREFIX UNIT DIGITS
  local case
  for case in emit emit-bytes; do
    [[ " $BULK_CASES " == *" bulk-$case "* ]] || continue
    row "1,000 at once, $case: $2 an event" "$(over_rounds "$1" "$3" "({bulk-$case} - {bulk-nothing}) / 1000")" "row $(over_rounds "$1" "$3" "({bulk-row} - {bulk-nothing}) / 1000")" \
      "$(over_rounds "$1" 2 "({bulk-$case} - {bulk-nothing}) / ({bulk-row} - {bulk-nothing})")" ""
  done
  row "1,000 at once, emit_many: $2 an event" "$(over_rounds "$1" "$3" "({bulk-many} - {bulk-arrays}) / 1000")" "emit $(over_rounds "$1" "$3" "({bulk-emit} - {bulk-nothing}) / 1000")" \
    "$(over_rounds "$1" 2 "({bulk-many} - {bulk-arrays}) / ({bulk-emit} - {bulk-nothing})")" ""
}

EMIT_CASES=${OUTBOX_BENCH_EMIT_CASES:-business statement row emit emit-all-arguments emit-json emit-text emit-bytes row-note emit-note emit-in-cte emit-in-pipeline}
BULK_CASES=${OUTBOX_BENCH_BULK_CASES-bulk-nothing bulk-arrays bulk-row bulk-emit bulk-emit-bytes bulk-many}

bench_emit_transactions() { # bench_emit_transactions PROTOCOL ...
  local round case protocol
  emit_setup emit_tx
  q postgres -c "ALTER DATABASE emit_tx SET synchronous_commit = off"
  : >"$EMIT_DATA"
  for round in $(seq 0 "$ROUNDS"); do # the first warms up
    for protocol in "$@"; do
      for case in $EMIT_CASES; do
        [ "$protocol-$case" != simple-emit-in-pipeline ] || continue
        q emit_tx -c "TRUNCATE figure"
        emit_pgbench emit_tx "$case" "$protocol" "$TRANSACTIONS"
        [ "$round" = 0 ] || printf '%s\t%s\t%s\n' "$round" "$protocol-$case-wall" "$(sed -n 's/^latency average = \([0-9.]*\) ms.*/\1/p' "$WORK/pgbench.log")" >>"$EMIT_DATA"
        [ "$round" = 0 ] || printf '%s\t%s\t%s\n' "$round" "$protocol-$case" \
          "$(q emit_tx -c "SELECT round((max(us) - min(us)) / ($TRANSACTIONS - 2), 2) FROM figure")" >>"$EMIT_DATA"
      done
    done
  done
  rows_of_transactions prepared- prepared "us CPU" 1
  for case in emit-in-pipeline emit-in-cte; do
    ! has_case $case ||
      row "prepared, $case: ms of the transaction" "$(over_rounds prepared- 3 "{$case-wall}")" "four statements $(over_rounds prepared- 3 "{emit-wall}")" "$(over_rounds prepared- 2 "{$case-wall} / {emit-wall}")" ""
  done
  [[ " $* " != *" simple "* ]] || rows_of_transactions simple- unprepared "us CPU" 1
}

bench_emit_bulk() {
  local round case
  emit_setup emit_bulk
  {
    cat <<'SQL'
SET synchronous_commit = off;
CREATE PROCEDURE pg_temp.measure(round int, what text, statement text, times int) LANGUAGE plpgsql AS $$
DECLARE
  before numeric := cpu_us();
BEGIN
  FOR i IN 1 .. times LOOP
    EXECUTE statement;
    COMMIT;
  END LOOP;
  IF round > 0 THEN
    RAISE INFO E'%\t%\t%', round, what, round((cpu_us() - before) / times, 1);
  END IF;
END $$;
SQL
    for round in $(seq 0 "$ROUNDS"); do
      for case in $BULK_CASES; do
        printf 'CALL pg_temp.measure(%s, $$%s$$, $$%s$$, 40);\n' "$round" "$case" "$(emit_case "$case")"
      done
    done
  } >"$WORK/bulk.sql"
  q emit_bulk -f - <"$WORK/bulk.sql" 2>&1 | sed -n 's/^.*INFO:  //p' >"$EMIT_DATA"
  rows_of_bulk "" "us CPU" 2
}

# Instructions of the session that ran longest of those that have ended since the log had so many lines: pgbench has two, and each
# writes its file when it ends, a little after pgbench has.
counted() { # counted LINES
  local pids=() pid most=0 n
  until [ ${#pids[@]} -ge 2 ]; do
    sleep 0.1
    pids=($(tail -n +$(($1 + 1)) "$WORK/postgres/server.log" | sed -n 's/^.*\[\([0-9]*\)\].*disconnection: .*/\1/p'))
  done
  for pid in "${pids[@]}"; do
    until n=$(awk '/^totals:/ { print $2 }' "$WORK/counts/$pid" 2>/dev/null) && [ -n "$n" ]; do sleep 0.1; done
    [ "$n" -gt "$most" ] && most=$n
  done
  echo "$most"
}
bench_emit_instructions() {
  local case protocol n counts i lines
  need valgrind
  emit_setup emit_count
  q postgres -c "ALTER SYSTEM SET log_disconnections = on"
  stop_server "$WORK/postgres"
  counting_server "$WORK/counts"
  as_postgres "$(pg_bin)/pg_ctl" -D "$WORK/postgres/data" -l "$WORK/postgres/server.log" -t 300 -p "$WORK/counts/postgres" -w start >/dev/null ||
    die "the server did not start under valgrind"
  : >"$EMIT_DATA"
  for protocol in prepared simple; do
    for case in $EMIT_CASES $BULK_CASES; do
      case $protocol-$case in simple-bulk* | *-emit-in-pipeline) continue ;; *-bulk*) counts=(2 8) ;; *) counts=(200 1400) ;; esac
      n=()
      for i in 0 1; do
        lines=$(wc -l <"$WORK/postgres/server.log")
        emit_pgbench emit_count "$case" $protocol "${counts[$i]}"
        n+=("$(counted "$lines")")
      done
      printf '1\t%s\t%s\n' "$protocol-$case" $(((n[1] - n[0]) / (counts[1] - counts[0]))) >>"$EMIT_DATA"
    done
  done
  rows_of_transactions prepared- prepared instructions 0
  rows_of_transactions simple- unprepared instructions 0
  rows_of_bulk prepared- instructions 0
  stop_server "$WORK/postgres" immediate
  as_postgres "$(pg_bin)/pg_ctl" -D "$WORK/postgres/data" -l "$WORK/postgres/server.log" -w start >/dev/null
}

# What scripts/bench-quick holds to its bounds.
bench_emit_quick() {
  ROUNDS=3 TRANSACTIONS=3000 EMIT_CASES="business statement row emit" BULK_CASES="bulk-nothing bulk-arrays bulk-row bulk-emit bulk-many"
  bench_emit_transactions prepared
  bench_emit_bulk
}
