# A topic that works for moments only, between two refusals, is in trouble all the time: the server's log tells of it once, with
# one length, and counts no moment as an end.
# matrix: A14
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('x'), lanes => 1);
my $session = $node->background_psql('postgres', timeout => 600);
sub logged { return slurp_file($node->logfile) }

# No end can have lain between two looks that both see the trouble, except one that is shorter than the time from the beginning of
# the first to the end of the second.
my $last;
my $longer = 0;    # such times of a second or more
sub ill
{
	my $began = time;
	my $ill = $session->query_safe(q(SELECT count(*) FROM outbox.lag WHERE error_code = 'WRONGTYPE')) > 0;
	return 0 if !$ill;
	$longer++ if defined $last && time - $last >= 1;
	$last = $began;
	return 1;
}

$redis->command('SET', 'x', 'no stream');
$session->query_safe(q(SELECT outbox.emit('order', 'k', 'one', '{}')));
ok(wait_until(sub { ill() && logged() =~ /WARNING:  outbox: topic "x" of route "redis" is in trouble/ }, 60), 'a topic in trouble');
foreach my $flip (1 .. 6)
{
	$redis->command('DEL', 'x');
	my $delivered = 0;
	for (my $until = time + 60; !$delivered && time < $until;)
	{
		ill();
		$delivered = $redis->xlen('x') > 0;
	}
	ok($delivered, "it takes events, $flip");
	$redis->command(@$_) foreach [ 'MULTI' ], [ 'DEL', 'x' ], [ 'SET', 'x', 'no stream' ], ['EXEC'];
	$session->query_safe(q(SELECT outbox.emit('order', 'k', 'one', '{}')));
	my $again = 0;
	for (my $until = time + 60; !$again && time < $until;)
	{
		$again = ill();
	}
	ok($again, 'and refuses them again');
}
$redis->command('DEL', 'x');
ok(wait_idle($node), 'all is delivered');
my $end = qr/LOG:  outbox: topic "x" of route "redis" works again after ([\d.]+) s\n.*DETAIL:  (?:It was in trouble (\d+) times|Its trouble ended)/;
ok(wait_until(sub { logged() =~ $end }, 60), 'the end is told');
my $told = 0;
my $log = logged();
while ($log =~ /$end/g)
{
	$told += $2 // 1;
}
cmp_ok($told, '<=', 1 + $longer, "$told troubles are told of; $longer times it may have worked for a second");

$session->quit;
$node->stop;
done_testing();
