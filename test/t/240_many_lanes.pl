# Hundreds of lanes of one worker: what all of them have read is read once and saved at once, so an event of one lane
# does not wait for the others. Their positions are their own all the same: killed at any moment, nothing is lost, and what
# was saved is not sent again.
# matrix: R29
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

# OUTBOX_TEST_ROUTES=100 OUTBOX_TEST_SECONDS=60 makes this a measurement of 6,400 lanes, and no more than that.
my $routes = $ENV{OUTBOX_TEST_ROUTES} || 10;
my $seconds = $ENV{OUTBOX_TEST_SECONDS} || 5;
my $all = 64 * $routes;
my $node = new_node(conf => "outbox.workers = 2\nfsync = on\nautovacuum = off\noutbox.max_lanes = " . ($all + 8) . "\n");
# Times are measured: not those of fsyncs on a disk that others use, too.
my $redis = Outbox::Redis->start(conf => ['appendfsync no']);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub entries { return map { my ($id, $fields) = @$_; my %field = @$fields; [ (split /-/, $id)[0], \%field ] } @{ $redis->command('XRANGE', $_[0], '-', '+') } }

# Milliseconds from before emit() to the entry in Redis, its own clock; 3 events a second, each of another lane.
sub delays
{
	my ($topic, $types) = @_;
	$redis->command('DEL', $topic);
	my $count = 3 * $seconds;
	$node->psql('postgres', qq{DO \$\$ BEGIN
		FOR i IN 1 .. $count LOOP
			PERFORM outbox.emit_text('t' || 1 + i % $types, i::text, 'x', (extract(epoch FROM clock_timestamp()) * 1000)::text);
			COMMIT;
			PERFORM pg_sleep(0.33);
		END LOOP;
	END \$\$});
	wait_idle($node, 60);
	my @delays = sort { $a <=> $b } map { $_->[0] - $_->[1]{payload} } entries($topic);
	is(scalar @delays, $count, "$count events");
	return (median => $delays[ @delays / 2 ], p99 => $delays[ int($#delays * 0.99) ], worst => $delays[-1]);
}

sql("CREATE SERVER events FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
sql(q{SELECT outbox.create_route('r0', server => 'events', aggregate_types => '{t1}', topic => 'one')});
ok(wait_idle($node, 60), 'one lane works');
my %one = delays('one', 1);

sql(qq{SELECT outbox.create_route('r' || i, server => 'events', aggregate_types => ARRAY['t' || i], topic => 'many', lanes => 64)
	FROM generate_series(1, $routes) i; SELECT outbox.drop_route('r0')});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IS NOT NULL', $all, 120), "$all lanes");
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.lag WHERE state = 'idle'}, $all, 180), 'work');
ok(wait_idle($node, 120), 'and are idle');

if ($ENV{OUTBOX_TEST_ROUTES})
{
	my %measured = delays('many', $routes);
	diag("$all lanes and one, ms: median $measured{median} and $one{median}, 99 % $measured{p99} and $one{p99}, worst $measured{worst} and $one{worst}");
	done_testing();
	exit 0;
}

# An event for each lane, and one save for all.
my $keys = 1000;
sql(qq{SELECT count(outbox.emit_text('t' || r, k::text, 'x', '0')) FROM generate_series(1, $routes) r, generate_series(1, $keys) k});
ok(wait_idle($node, 120), 'all have something');
is($redis->xlen('many'), $routes * $keys, 'and deliver it');
my $began = sql('SELECT max(at) FROM outbox_internal.progress');
sql(qq{SELECT count(outbox.emit_text('t' || r, k::text, 'x', '0')) FROM generate_series(1, $routes) r, generate_series(1, $keys) k});
ok(wait_idle($node, 120), 'again');
my ($rows, $transactions) = split /\|/, sql("SELECT count(*), count(DISTINCT xmin::text) FROM outbox_internal.progress WHERE at > '$began'");
cmp_ok($rows, '>=', $all, 'each has saved what it delivered');
cmp_ok($transactions, '<=', $rows / 10, "in $transactions transactions");

# What only moved is said by few lanes at a time, and not flushed.
my %many = delays('many', $routes);
diag("$all lanes and one, ms: median $many{median} and $one{median}, 99 % $many{p99} and $one{p99}, worst $many{worst} and $one{worst}");
cmp_ok($many{median}, '<', 20 * ($one{median} + 5), 'an event does not wait for the others');

# Somebody holds the table of the day, and has gone to lunch: all is delivered, and saved when he is back. (Of one lane, and of
# some: test/unit/relay_saver_test.cpp.)
my $holder = $node->background_psql('postgres', on_error_stop => 1);
$holder->query_safe(q{BEGIN; LOCK TABLE outbox_internal.progress IN SHARE MODE});
$began = sql('SELECT max(at) FROM outbox_internal.progress');
$redis->command('DEL', 'many');
sql(qq{SELECT count(outbox.emit_text('t' || r, k::text, 'x', '0')) FROM generate_series(1, $routes) r, generate_series(1, $keys) k});
ok(wait_until(sub { $redis->xlen('many') == $keys * $routes }, 60), 'all is delivered while nothing can be saved');
is(sql("SELECT count(*) FROM outbox_internal.progress WHERE at > '$began'"), 0, 'nothing is');
$holder->query_safe('ROLLBACK');
$holder->quit;
ok(wait_idle($node, 60), 'idle');
ok(wait_for_value($node, "SELECT count(DISTINCT (route_id, lane)) FROM outbox_internal.progress WHERE at > '$began'", $all, 60), 'then all is saved');

# Killed: what was saved is not sent again.
my $sent = $redis->xlen('many');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'});
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.lane WHERE owner IN (SELECT owner FROM outbox_internal.lane)', $all, 60), 'the workers end');
sql(q{SELECT outbox.emit_text('t1', 'last', 'x', '0')});
ok(wait_idle($node, 120), 'and others go on');
is($redis->xlen('many'), $sent + 1, 'and repeat nothing');
no_server_crashed($node);
done_testing();
