# outbox.metrics(): what is counted, and that it is true. Kept over a restart, begun again after a crash; prepared transactions;
# from commit, not from emit(); no place left; a hundred routes and a backlog; locked tables; read by a real parser.
# matrix: M1
use strict;
use warnings;

use IPC::Run;
use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.max_series = 120\nmax_locks_per_transaction = 256\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('metrics'), aggregate_types => q('{order}'));

sub sql { return $node->safe_psql('postgres', @_) }

sub figure
{
	my ($name, $labels) = @_;
	$labels //= '{}';
	return sql("SELECT coalesce(sum(value), 0) FROM outbox.metrics() WHERE name = 'outbox_$name' AND labels @> '$labels'");
}
sub emit { my ($n, $type) = @_; $type //= 'order'; return sql("SELECT count(outbox.emit_text('$type', i::text, 'a.b', '1234567890')) FROM generate_series(1, $n) i") }
my $mine = '{"route": "redis"}';

# --- from commit ---
emit(10);
ok(wait_idle($node), 'all is delivered');
is(figure('events_published_total', $mine), 10, 'ten events are published');
is(figure('published_bytes_total', $mine), 100, 'with the bytes of their payloads');
is(figure('commit_to_ack_seconds_count', $mine), 10, 'all are in the histogram of what is promised');
is(figure('destination_ack_seconds_count', $mine), 10, 'and in that of the destination');
sql('SELECT outbox.metrics_reset()');
my $psql = $node->background_psql('postgres');
$psql->query_safe("BEGIN");
my $id = $psql->query_safe("SELECT outbox.emit('order', 'k', 'a.b', '{}')");
$psql->query_safe("SELECT pg_sleep(3)");  # the transaction is open for so long
ok(wait_for_value($node, q(SELECT value >= 3 FROM outbox.metrics() WHERE name = 'outbox_oldest_transaction_age_seconds'), 't', 30),
	'a transaction that writes is told of by its age');
is(figure('events_emitted_total'), 0, 'what is not committed is not counted');
$psql->query_safe("COMMIT");
$psql->quit;
ok(wait_idle($node), 'it is delivered');
is(figure('events_emitted_total'), 1, 'then it is');
# However long the delivery took: it has taken three seconds less than has passed since the event was emitted.
is(sql("SELECT l.max / 1000 <= extract(epoch FROM clock_timestamp() - s.created_at) - 2.9 FROM outbox.latency l, outbox.status('$id') s
	WHERE l.route = 'redis' AND l.period = 'minute'"), 't', 'the time between emit() and COMMIT is no delay');

# --- delayed ---
sql('SELECT outbox.metrics_reset()');
my $delayed = sql("SELECT outbox.emit('order', 'd', 'a.b', '{}', deliver_at => clock_timestamp() + interval '3 s')");
is(sql("SELECT outbox.wait_until_idle('60 s', include_delayed => true)"), 't', 'a delayed event is delivered');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.latency WHERE route = 'redis' AND period = 'minute' AND events = 1), 1, 30), 'and measured');
is(sql("SELECT l.max / 1000 <= extract(epoch FROM clock_timestamp() - s.created_at) - 2.9 FROM outbox.latency l, outbox.status('$delayed') s
	WHERE l.route = 'redis' AND l.period = 'minute'"), 't', 'from when it was due');

# --- prepared ---
sql("BEGIN; SELECT outbox.emit_text('order', 'p', 'a.b', '12345') FROM generate_series(1, 3); PREPARE TRANSACTION 'one'");
sql("BEGIN; SELECT outbox.emit_text('order', 'q', 'a.b', '12345') FROM generate_series(1, 5); PREPARE TRANSACTION 'two'");
sql("BEGIN; SELECT outbox.emit_text('order', 'r', 'a.b', '12345') FROM generate_series(1, 7); PREPARE TRANSACTION 'three'");
is(figure('events_emitted_total'), 1, 'what is prepared is not counted');
sql("COMMIT PREPARED 'one'");
is(figure('events_emitted_total'), 4, 'what is committed then is');
sql("ROLLBACK PREPARED 'two'");
is(figure('events_emitted_total'), 4, 'what is rolled back is not');
my $began = figure('stats_reset_timestamp_seconds');
ok(wait_idle($node), 'all is delivered');
is(figure('events_published_total', $mine), 4, 'as many are published');

# --- a restart, with one still prepared; and a crash ---
my $sum = figure('commit_to_ack_seconds_sum', $mine);
my $lately = sql("SELECT events, max FROM outbox.latency WHERE route = 'redis' AND period = 'hour'");
like($lately, qr/^[1-9]/, 'some were delivered within the last hour');
$node->restart;
is(sql("SELECT events, max FROM outbox.latency WHERE route = 'redis' AND period = 'hour'"), $lately, 'a restart leaves the last hour as it is');
is(figure('stats_reset_timestamp_seconds'), $began, 'a restart does not set the figures to zero');
is(figure('events_emitted_total'), 4, 'emitted is kept');
is(figure('events_published_total', $mine), 4, 'published is kept');
is(figure('commit_to_ack_seconds_sum', $mine), $sum, 'the histogram is kept');
sql("COMMIT PREPARED 'three'");
is(figure('events_emitted_total'), 11, 'what was prepared before the restart is counted after it');
ok(wait_idle($node), 'all is delivered');
is(figure('events_published_total', $mine), 11, 'the counters go on from where they were');
ok(!-e $node->data_dir . '/pg_stat/outbox.stat', 'nothing is left that a start after a crash could read');
my ($relay) = relay_pids($node);
kill KILL => $relay;
ok(wait_until(sub { !-e $node->data_dir . '/postmaster.pid' }), 'a process is killed, and the server goes with it');
$node->{_pid} = undef;
$node->start;
ok(figure('stats_reset_timestamp_seconds') > $began, 'after a crash the reset time is a new one');
is(figure('events_emitted_total'), 0, 'and counters begin at zero');
sql("SELECT outbox.emit_text('order', 'p', 'a.b', '12345')");
$node->stop('immediate');
$node->start;
is(figure('events_emitted_total'), 1, 'an immediate stop is none');
$node->stop;
my $file = $node->data_dir . '/pg_stat/outbox.stat';
ok(-s $file, 'an orderly stop writes them');
truncate $file, (-s $file) - 3;
$node->start;
ok($node->wait_for_log(qr/outbox leaves out the figures/), 'a file that is not whole is left out, with a word in the log');
is(figure('events_emitted_total'), 0, 'as a whole');

# --- a destination that is away, and a sink that is killed ---
ok(wait_idle($node), 'idle');
emit(5);
ok(wait_idle($node), 'delivered');
my ($sink) = sink_pids($node);
kill KILL => $sink;
ok(wait_for_value($node, q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_sink_deaths_total'), '1', 30), 'the death of a sink is counted');
$redis->stop;
emit(2000);
ok(wait_for_value($node, q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_destination_state' AND labels ->> 'outbox_destination_state' IN ('open', 'half-open') AND value = 1), '1', 60),
	'a destination that is away is open');
is(sql(q(SELECT sum(value) FROM outbox.metrics() WHERE name = 'outbox_destination_state')), 1, 'it has one state');
ok(wait_for_value($node, q(SELECT value BETWEEN 1500 AND 2700 FROM outbox.metrics() WHERE name = 'outbox_pending_events'), 't', 30), 'how much waits is known about');
ok(wait_for_value($node, q(SELECT value > 2 FROM outbox.metrics() WHERE name = 'outbox_oldest_pending_age_seconds'), 't', 30), 'and for how long');
sql("ALTER SYSTEM SET outbox.enabled = off");
sql("SELECT pg_reload_conf()");
ok(wait_for_value($node, q(SELECT value FROM outbox.metrics() WHERE name = 'outbox_lanes' AND labels @> '{"state": "unowned"}'), '1', 30), 'a lane that nobody has');
ok(wait_for_value($node, q(SELECT value BETWEEN 1500 AND 2700 FROM outbox.metrics() WHERE name = 'outbox_pending_events'), 't', 30), 'how much waits is known without a worker');
is(figure('enabled'), 0, 'publishing is off');
is(figure('workers_wanted') . ' ' . sql(q(SELECT wanted FROM outbox.process WHERE process = 'relay')), '0 0', 'no relay worker is wanted, by the figure and by the view');

# --- a hundred routes, tables locked by others, and how long it takes ---
sql("SELECT outbox.create_route('r' || i, server => 'redis', aggregate_types => '{other}') FROM generate_series(1, 130) i");
sql("ALTER SYSTEM SET outbox.enabled = on");
sql("SELECT pg_reload_conf()");
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.metrics() WHERE name = 'outbox_lanes' AND labels @> '{"state": "owned"}' AND value = 1), '131', 60), 'all lanes are owned');
ok(wait_until(sub { figure('routes_without_figures') > 0 }), 'some routes have no place of their own');
like(sql("SELECT detail FROM outbox.doctor() WHERE \"check\" = 'figures'"), qr/counts some routes of this database together/, 'doctor says so');
is(sql(q(SELECT count(*) FROM outbox.metrics() WHERE name = 'outbox_events_published_total' AND labels = '{"route": "other", "destination": "other"}')), 1, 'they are counted as other');
my @said = (slurp_file($node->logfile) =~ /not every route has figures of its own/g);
is(scalar @said, 1, 'the log says it once');
# CPU time of the session: whatever else this machine does. The first call fills caches.
SKIP:
{
skip 'no /proc/self/schedstat', 1 unless -e '/proc/self/schedstat';
my @took = split /\n/, sql(q(SELECT count(*) AS n FROM outbox.metrics() \gset) . "\n"
	  . (q(SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::numeric AS t \gset) . "\n" . q(SELECT count(*) AS n FROM outbox.metrics() \gset) . "\n"
		  . q(SELECT round((split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::numeric - :t) / 1000000, 2), :n;) . "\n") x 9);
@took = sort { $a <=> $b } @took;
note("outbox.metrics() with 131 routes behind took $took[0] (ms, rows) at best, $took[4] in the middle");
cmp_ok((split /\|/, $took[0])[0], '<', 50, 'it takes milliseconds of CPU time');
}

# --- everything locked, one after the other: nothing is waited for, and what is left out is told ---
my $locker = $node->background_psql('postgres');
my $today = sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')");
# With a parked event that goes at its time: then more is asked for.
sql(q{SET outbox.allow_loss = on; INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, state, due_at, topic, payload)
	SELECT id, 0, now(), gen_random_uuid(), 'other', 'a.b', 'scheduled', now() + interval '1 day', 't', '' FROM outbox.route WHERE name = 'r1'});
my %tables = (route => 'outbox.route', pause => 'outbox.pause', (map { $_ => "outbox_internal.$_" } qw(lane side_lane parked side_topic identity)), log => "outbox_internal.log_$today");
foreach my $table (sort keys %tables)
{
	$locker->query_safe("BEGIN; LOCK TABLE $tables{$table} IN ACCESS EXCLUSIVE MODE");
	is(sql("SET statement_timeout = '20 s'; SELECT string_agg(labels ->> 'part', ' ') FROM outbox.metrics() WHERE name = 'outbox_figures_left_out'"), $table, "$table is locked: what it would tell is left out");
	if ($table eq 'parked' || $table eq 'log')
	{
		like(sql(q(SET statement_timeout = '30 s'; SELECT status || ' ' || detail || ' ' || hint FROM outbox.doctor() WHERE "check" = 'locks')),
			qr/^problem \Q$tables{$table}\E is locked by process (\d+) \(.*\), in a transaction since .* UTC\..* SELECT pg_terminate_backend\(\1\)/, 'doctor() does not wait either, and says by whom');
		is(sql('SELECT outbox.doctor_ok()'), 'f', 'that is not all well');
	}
	$locker->query_safe('ROLLBACK');
}
$locker->query_safe('BEGIN; REINDEX INDEX outbox_internal.parked_count_idx');
is(sql("SET statement_timeout = '20 s'; SELECT string_agg(labels ->> 'part', ' ') FROM outbox.metrics() WHERE name = 'outbox_figures_left_out'"), 'parked', 'so is a table whose index is being built anew');
$locker->query_safe('ROLLBACK');
$locker->query_safe("BEGIN; LOCK TABLE outbox_internal.progress IN ACCESS EXCLUSIVE MODE");
is(sql("SET statement_timeout = '20 s'; SELECT count(*) FROM outbox.metrics() WHERE name = 'outbox_figures_left_out'"), 0, 'positions are not asked for of lanes that a worker has');
$locker->query_safe('ROLLBACK');
$locker->quit;
is(figure('figures_left_out'), 0, 'and afterwards nothing is');
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'locks')), 0, 'and nothing is said of locks');
my $scraper = $node->background_psql('postgres');    # as an exporter has it: connected, and not for the first time
$scraper->query_safe('SELECT count(*) FROM outbox.metrics()');
Outbox::Faults::arm('board.locked', 'wait');
ok(Outbox::Faults::await_waiting('board.locked', 60), 'a worker has stopped with the shared memory locked');
is($scraper->query_safe("SELECT string_agg(labels ->> 'part', ' ') FROM outbox.metrics() WHERE name = 'outbox_figures_left_out'"), '(shared memory)', 'that is not waited for, either');
is($scraper->query_safe("SELECT outbox.metrics_text() LIKE '%outbox_events_emitted_total%'"), 't', 'the rest is told');
Outbox::Faults::release('board.locked');
$scraper->quit;

# --- twice the log: as many pages are read ---
sub pages { my ($out) = sql('SELECT count(*) FROM outbox.metrics(); EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) SELECT * FROM outbox.metrics()') =~ /(\[.*\])/s; my ($hit, $read) = ($out =~ /"Shared Hit Blocks": (\d+)/, $out =~ /"Shared Read Blocks": (\d+)/); return $hit + $read }
sql("ALTER SYSTEM SET outbox.enabled = off; SELECT pg_reload_conf()");
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'), '0', 60), 'nobody has the lanes');
sql(q(SELECT count(outbox.emit_text('other', i::text, 'a.b', '1234567890')) FROM generate_series(1, 20000) i));
my $pages = pages();
sql(q(SELECT count(outbox.emit_text('other', i::text, 'a.b', '1234567890')) FROM generate_series(1, 40000) i));
my $more = pages();
cmp_ok($more, '<', 1.2 * $pages + 300, "three times the log, and as much is read: $pages pages, $more pages");
sql("ALTER SYSTEM SET outbox.enabled = on; SELECT pg_reload_conf()");

# --- a parser that others have written ---
my $parser = q(
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
families = list(parse(sys.stdin.read()))
samples = [s for f in families for s in f.samples]
print(len(families) > 20, len(samples) > 500, any(f.type == 'histogram' and f.unit == 'seconds' for f in families))
);
SKIP:
{
	skip 'python3-prometheus-client is not here', 1 if system('python3 -c "import prometheus_client.openmetrics.parser" 2>/dev/null') != 0;
	sql("SELECT outbox.create_route(E'a \"route\" \\\\ of others', server => 'redis', aggregate_types => '{other}')");
	my $text = sql('SELECT outbox.metrics_text()');
	$text =~ s/\n*\z/\n/;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'python3', '-c', $parser ], '<', \$text, '>', \$out, '2>', \$err);
	is($out . $err, "True True True\n", 'OpenMetrics text as the parser of prometheus_client takes it');
}
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC/, 'no server process crashed by itself');
done_testing();
