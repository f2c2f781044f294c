# Fault points on the way of every event, armed all at once, each for a crash: one comes while the server still recovers from
# another, or before its sink process is there again. And again at the same places. Nothing is lost, made up or out of order,
# and what came twice is the same. 090 crashes each of them by itself.
# matrix: A1 A1s T2
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Ledger;
use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my @points = qw(emit.inserted emit.committed window.opened submit.after sink.submit.after sink.redis.call sink.redis.reply
  sink.results.before sink.results.queued save.after claim.uncommitted parked.park.after parked.claim.after parked.settle.after);
my $known = Outbox::Faults::all_points();
is(join(' ', grep { !$known->{$_} } @points), '', 'there are these points');

my $node = new_node(conf => "restart_after_crash = on\noutbox.workers = 2\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
Outbox::Ledger::install($node);
redis_route($node, $redis, 'redis', topic => q('ledger'), lanes => 2, aggregate_types => q('{order}'));
$node->safe_psql('postgres', q(SELECT outbox.create_route('later', server => 'redis', topic => 'later', aggregate_types => '{later}')));
$node->safe_psql('postgres', 'SELECT business(5)');
ok(wait_idle($node), 'events flow');

# Statements that may fail: whatever server process they ask is killed now and then.
sub try_sql
{
	my ($sql) = @_;
	my ($status, $out) = eval { $node->psql('postgres', $sql) };
	return defined $status && $status == 0 ? $out : undef;
}
sub left { my ($wanted) = @_; return grep { Outbox::Faults::hits($_) < $wanted } @points }

my $later = 0; # scheduled events that a session was told of
foreach my $round (1, 2)
{
	my $crashes = crash_restarts($node);
	Outbox::Faults::arm($_, 'kill') foreach @points;
	my $deadline = time + 120;
	while (time < $deadline && left($round))
	{
		try_sql('SELECT business(2)');
		my $told = try_sql(q{SELECT count(outbox.emit_text('later', 'k' || i, 'x', 'x', deliver_at => clock_timestamp() + interval '0.1 s')) FROM generate_series(1, 3) i});
		$later += $told // 0;
		try_sql('SELECT pg_reload_conf()'); # who crashed again and again is not held back
		sleep 0.05;
		# Who comes to a point while the server ends because of another one may not live to crash there.
		Outbox::Faults::arm($_, 'kill') foreach grep { !Outbox::Faults::armed($_) } left($round);
	}
	Outbox::Faults::disarm($_) foreach @points;
	is(join(' ', left($round)), '', "round $round: all have crashed");
	ok(server_is_back($node, $crashes), "round $round: the server is back");
	try_sql('SELECT pg_reload_conf()');
	ok(wait_idle($node, 60), "round $round: all is delivered");
	Outbox::Ledger::check($node, "round $round", $redis->column('ledger', 'payload'), duplicates => 1);
}
my %ids;
$ids{$_}++ foreach @{ $redis->column('later', 'id') };
cmp_ok(scalar keys %ids, '>=', $later, 'all scheduled events came');
is(scalar keys %ids, $node->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'later'}), 'and none that was not committed');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.parked'), '0', 'none is charged or left');
done_testing();
