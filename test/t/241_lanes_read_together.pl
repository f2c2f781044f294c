# A backlog that many lanes of a worker read together: each gets what it would have got alone, in order, whatever happens to
# the others meanwhile. One route is paused, one sought back, the destination of another down; windows do not fit memory; a
# transaction is unfinished and a snapshot held all the time; the worker is killed in the middle; then a route is added and
# a second worker. And it is one reading: 64 lanes take little more CPU than one to pass what none of them wants.
# matrix: R29
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node(conf => "outbox.workers = 0\noutbox.sort_mem = '256kB'\nautovacuum = off\nrestart_after_crash = on\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub workers { return sql("ALTER SYSTEM SET outbox.workers = $_[0]") . sql('SELECT pg_reload_conf()') }
sub cpu_ms
{
	my $ms = 0;
	foreach my $file (map { glob "/proc/$_/task/*/schedstat" } relay_pids($node)) { open my $f, '<', $file or next; $ms += (split / /, <$f>)[0] / 1e6 }
	return $ms;
}

# --- one reading ------------------------------------------------------------------------------------------------------
sql("CREATE SERVER events FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
workers(1);
sub passed
{
	my ($lanes) = @_;
	sql(qq{SELECT outbox.create_route('c', server => 'events', aggregate_types => '{nothing}', topic => 'nothing', lanes => $lanes)});
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', $lanes, 60), "$lanes lanes");
	ok(wait_idle($node), 'wait');
	my $before = cpu_ms();
	sql(q{SELECT count(outbox.emit_text('other', (i % 100)::text, 'x', 'x')) FROM generate_series(1, 200000) i});
	ok(wait_idle($node), 'and pass 200,000 events');
	my $taken = cpu_ms() - $before;
	sql(q{SELECT outbox.drop_route('c')});
	return $taken;
}
my $one = passed(1);
my $many = passed(64);
diag(sprintf 'CPU to pass 200,000 events: %.0f ms with one lane, %.0f ms with 64', $one, $many);
cmp_ok($many, '<', 10 * $one + 300, '64 lanes read once (alone each they took 45 times as much)');
workers(0);
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'}, 0, 60), 'no worker');

# --- a backlog --------------------------------------------------------------------------------------------------------
my ($types, $keys) = (20, 10);
sub number_of_lanes { return $_[0] == 0 ? 45 : 1 }    # 64 with those of the others
sql(q{CREATE SERVER down FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1')});
foreach my $i (0 .. $types - 1)
{
	my $server = $i == 3 ? 'down' : 'events';
	my $wanted = $i == 0 ? '*' : "t$i";
	my $lanes = number_of_lanes($i);
	sql("SELECT outbox.create_route('r$i', server => '$server', aggregate_types => '{$wanted}', topic => 'r$i', lanes => $lanes)");
}
sql(q{SELECT outbox.pause('r1', reason => 'test')});
my $last = 0;
# Every key of every type counts on: in small transactions, or in one.
sub emit
{
	my ($count, $commit) = @_;
	sql(qq{DO \$\$ BEGIN
		FOR n IN $last + 1 .. $last + $count LOOP
			PERFORM outbox.emit_text('t' || t, 't' || t || 'k' || k, 'x', 't' || t || 'k' || k || ' ' || n)
				FROM generate_series(0, $types - 1) t, generate_series(0, $keys - 1) k;
			$commit
		END LOOP;
	END \$\$});
	$last += $count;
}
emit(40, 'COMMIT;');
sql(q{BEGIN; SELECT outbox.emit_text('t5', 'late', 'x', 'late 1'); PREPARE TRANSACTION 'late'});
emit(100, '');
emit(60, 'COMMIT;');
workers(1);
ok(wait_until(sub { $redis->xlen('r0') > 2000 }, 60), 'lanes deliver');
my $crashes = crash_restarts($node);
kill 'KILL', relay_pids($node);
ok(wait_until(sub { $redis->xlen('r0') > 10_000 }, 120), 'the worker is killed, and another goes on');
ok(server_is_back($node, $crashes), 'with all sessions');
my $holder = $node->background_psql('postgres', on_error_stop => 1);
$holder->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox.route});
sql(q{CALL outbox.seek('r2', '-infinity', dry_run => false)});
sql(q{SELECT outbox.create_route('added', server => 'events', aggregate_types => '{t4}', topic => 'added', start => 'earliest')});
workers(2);
emit(20, 'COMMIT;');
sql(qq{ALTER SERVER down OPTIONS (SET port '$redis->{port}')});
sql(q{COMMIT PREPARED 'late'});
sql(q{SELECT outbox.resume('r1')});
ok(wait_idle($node, 120), 'all is delivered');
$holder->query_safe('COMMIT');
$holder->quit;

# What came, in the order of arrival: of each key first occurrences are 1, 2, 3, ...
sub check
{
	my ($stream, $wanted, $exact) = @_;
	my (%seen, @strange);
	my $repeats = 0;
	foreach my $payload (@{ $redis->column($stream, 'payload') })
	{
		my ($key, $n) = $payload =~ /^(\w+) (\d+)$/;
		$seen{$key} //= 0;
		if ($key !~ /^($wanted)$/) { push @strange, "$payload is not its own" }
		elsif ($n == $seen{$key} + 1) { $seen{$key} = $n }
		elsif ($n <= $seen{$key}) { $repeats++ }
		else { push @strange, "$key: $n after $seen{$key}" }
	}
	my @missing = grep { $seen{$_} != ($_ eq 'late' ? 1 : $last) } keys %seen;
	is(join(', ', grep { defined } @strange[ 0 .. 4 ]), '', "$stream: in order, and nothing else");
	is(join(', ', @missing), '', "$stream: all of each key");
	is($repeats, 0, "$stream: nothing twice") if $exact;
	return (scalar keys %seen, $repeats);
}
my ($seen, $repeats) = check('r0', '(t\d+k\d+|late)');
is($seen, $types * $keys + 1, '45 lanes of one route: all keys');
foreach my $i (1 .. $types - 1)
{
	# Paused, or without a destination, when the worker was killed: nothing is repeated.
	($seen, $repeats) = check("r$i", $i == 5 ? 't5k\d+|late' : "t${i}k\\d+", $i == 1 || $i == 3);
	is($seen, $keys + ($i == 5 ? 1 : 0), "r$i: all keys");
	cmp_ok($repeats, '>=', 1, 'r2: what was sought back came again') if $i == 2;
}
($seen) = check('added', 't4k\d+', 1);
is($seen, $keys, 'added in the middle: all keys');
cmp_ok($_, '<', 256 * 1024, 'a worker takes less than 256 MB') foreach map { peak_rss_kb($_) } relay_pids($node);
done_testing();
