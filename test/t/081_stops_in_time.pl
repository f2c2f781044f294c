# With a broker that answers nothing at all: a fast stop takes less than three seconds, CREATE and DROP DATABASE wait for
# nobody, and a worker that is terminated is back within a second. The same with a sink process that does not even read.
# matrix: A7 A8 A12
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('black'));
$node->safe_psql('postgres', q(SELECT outbox.emit('order', 1, 'order.created', '{}')));
ok(wait_idle($node), 'events flow');

sub emit_many_events
{
	$node->safe_psql('postgres', q(INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', (i % 100)::text, 'order.created', '{"total": 129.97}' FROM generate_series(1, 20000) i));
	return;
}

sub took
{
	my ($what) = @_;
	my $start = time;
	$what->();
	return time - $start;
}

$redis->pause;
emit_many_events();
ok(wait_for_value($node, "SELECT inflight > 0 FROM outbox.lag", 't'), 'events are in flight to a broker that answers nothing');
foreach my $round (1 .. 3)
{
	my $seconds = took(sub { $node->safe_psql('postgres', 'CREATE DATABASE other'); $node->safe_psql('postgres', 'DROP DATABASE other') });
	cmp_ok($seconds, '<', 3, "CREATE and DROP DATABASE wait for nobody, round $round");
}
my ($pid) = relay_pids($node);
my $seconds = took(sub {
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND pid <> $pid", '1'),
		'a terminated worker is replaced');
});
cmp_ok($seconds, '<', 4, 'after at most its time to stop and a second');
$seconds = took(sub { $node->stop('fast') });
cmp_ok($seconds, '<', 3, 'a fast stop with a black-holed broker');
$node->start;

ok(wait_for_value($node, "SELECT inflight > 0 FROM outbox.lag", 't'), 'events are in flight again');
my @sinks = sink_pids($node);
kill 'STOP', @sinks;
$seconds = took(sub { $node->stop('fast') });
cmp_ok($seconds, '<', 3, 'a fast stop with a sink process that is stopped');
sleep 0.2;
is(scalar(grep { kill 0, $_ } @sinks), 0, 'no sink process is left behind');

$redis->cont;
$node->start;
ok(wait_idle($node), 'everything is delivered once the broker answers');
($pid) = relay_pids($node);
$seconds = took(sub {
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND pid <> $pid", '1'),
		'an idle worker that is terminated is replaced');
});
cmp_ok($seconds, '<', 1, 'within a second');

# Lanes cannot be given back: the worker leaves all the same.
$node->safe_psql('postgres', 'ALTER TABLE outbox.lane RENAME TO lane_out_of_reach');
$seconds = took(sub { $node->stop('fast') });
cmp_ok($seconds, '<', 4, 'a fast stop with tables that a worker cannot use');
no_server_crashed($node);
done_testing();
