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
# Bounds are promises, but the machine may stand still for a while: the best of three counts. What is slow is so each time.
sub in_time
{
	my ($limit, $do, $what) = @_;
	my $seconds;
	for (1 .. 3) { $seconds = $do->(); last if $seconds < $limit; diag("$what: $seconds s") }
	return cmp_ok($seconds, '<', $limit, $what);
}
sub stops_within
{
	my ($limit, $before, $what) = @_;
	return in_time($limit, sub { $node->start if !defined $node->{_pid}; $before->(); return took(sub { $node->stop('fast') }) }, $what);
}
sub replaced_within
{
	my ($limit, $before, $what) = @_;
	return in_time($limit, sub {
		$before->();
		my ($pid) = relay_pids($node);
		return took(sub {
			$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
			wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND pid <> $pid", '1') or die 'no worker';
		});
	}, $what);
}
sub in_flight { return wait_for_value($node, 'SELECT inflight > 0 FROM outbox.lag', 't') || die 'nothing is in flight' }

in_time(3, sub { took(sub { $node->safe_psql('postgres', 'CREATE DATABASE other'); $node->safe_psql('postgres', 'DROP DATABASE other') }) },
	"CREATE and DROP DATABASE do not wait, round $_") foreach 1 .. 3;
replaced_within(4, \&in_flight, 'a terminated worker is replaced after at most its time to stop and a second');
stops_within(3, \&in_flight, 'a fast stop with a black-holed broker');
my @sinks;
stops_within(3, sub { in_flight(); @sinks = sink_pids($node); kill 'STOP', @sinks }, 'a fast stop with a sink process that is stopped');
ok(wait_until(sub { !grep { kill 0, $_ } @sinks }, 20), 'no sink process is left behind');

$redis->cont;
$node->start;
ok(wait_idle($node), 'everything is delivered once the broker answers');
# A third quick death would be held back for a second.
my $first = 1;
replaced_within(1, sub { $node->restart if !$first; $first = 0; wait_idle($node) }, 'an idle worker that is terminated is replaced within a second');

# Lanes cannot be given back: the worker leaves all the same.
stops_within(4, sub {
	$node->safe_psql('postgres', 'SET outbox.allow_loss = on; ALTER TABLE IF EXISTS outbox.lane_out_of_reach RENAME TO lane');
	wait_idle($node);
	$node->safe_psql('postgres', 'SET outbox.allow_loss = on; ALTER TABLE outbox_internal.lane RENAME TO lane_out_of_reach');
}, 'a fast stop with tables that a worker cannot use');
no_server_crashed($node);
done_testing();
